"""Two older permission systems, written as settings and held against their whole tables."""

from collections.abc import Iterable, Mapping
from itertools import chain, combinations
from typing import Any

import pytest
from permitting import call, ruling
from pluggent_hookspecs import Effect

# ---- lists of permissions: some are allowed, some denied, and what declares none is one or the other

READ, WRITE, DELETE, NETWORK, SHELL, FILES, CUSTOM = PERMISSIONS = (
    "x:read", "x:write", "x:delete", "x:network", "x:shell", "x:filesystem", "x:custom-deploy",
)  # fmt: skip


def checker(allowed: Iterable[str], denied: Iterable[str], *, allow_unspecified: bool) -> dict[str, Any]:
    """Return the lists as settings, as the README shows them."""
    allowed, denied = list(allowed), list(denied)
    otherwise = "allow" if allow_unspecified else "deny"
    rules: list[dict[str, Any]] = []
    if denied:
        unless = {"effects": "undeclared"}
        rules.append({"id": "denied", "decision": "deny", "when": {"effects": denied}, "unless": unless})
    if allowed:
        rules.append({"id": "allowed", "decision": "allow", "when": {"effects": allowed}})
    return {"defaults": {"other": "deny" if allowed else otherwise, "undeclared": otherwise}, "rules": rules}


def as_before(allowed: set[str], denied: set[str], asked: set[str], *, allow_unspecified: bool) -> str:
    """Return what the older system answered: its four steps, in order."""
    if asked & denied:
        return "deny"
    if not asked or not allowed:
        return "allow" if allow_unspecified else "deny"
    return "allow" if asked <= allowed else "deny"


def subsets(of: Iterable[str], most: int) -> list[set[str]]:
    items = list(of)
    return [set(one) for one in chain.from_iterable(combinations(items, size) for size in range(most + 1))]


def asking(permissions: set[str]) -> Any:
    """Return a call that needs *permissions*; a tool that named none declared nothing."""
    return call(effects=permissions or None)


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({READ}, "allow"), ({NETWORK}, "allow"), ({READ, NETWORK}, "allow"), ({DELETE}, "deny"), ({SHELL}, "deny"),
        ({READ, SHELL}, "deny"), ({WRITE}, "deny"), ({FILES}, "deny"), ({CUSTOM}, "deny"), (set(), "allow"),
    ],
)  # fmt: skip
def test_the_default_lists_allow_reading_and_the_network(asked: set[str], expected: str):
    assert ruling(checker([READ, NETWORK], [DELETE, SHELL], allow_unspecified=True), asking(asked)) == expected


@pytest.mark.parametrize("allow_unspecified", [True, False])
@pytest.mark.parametrize(
    ("allowed", "denied"),
    [
        ((), ()), ((READ,), ()), ((), (SHELL,)), ((READ, NETWORK), (DELETE, SHELL)), ((READ, SHELL), (SHELL,)),
        ((CUSTOM,), ()), ((READ,), (CUSTOM,)), (PERMISSIONS, ()), ((), PERMISSIONS), (PERMISSIONS, PERMISSIONS),
    ],
)  # fmt: skip
def test_lists_of_permissions_answer_as_before(allowed: Any, denied: Any, *, allow_unspecified: bool):
    written = checker(allowed, denied, allow_unspecified=allow_unspecified)

    for asked in subsets(PERMISSIONS, 3):
        before = as_before(set(allowed), set(denied), asked, allow_unspecified=allow_unspecified)
        assert ruling(written, asking(asked)) == before, (asked, written)


# ---- modes: what is allowed, asked about and denied, by category

LOOKING = (Effect.FILESYSTEM_READ, Effect.NETWORK_READ, Effect.MEMORY)
CHANGING = (Effect.FILESYSTEM_WRITE, Effect.NETWORK_WRITE, Effect.MESSAGING)
DANGEROUS = (Effect.SHELL, Effect.HARDWARE, Effect.DESTRUCTIVE)
TABLE: Mapping[str, Mapping[tuple[Effect, ...], str]] = {
    "observer": {LOOKING: "allow", CHANGING: "deny", DANGEROUS: "deny"},
    "assistant": {LOOKING: "allow", CHANGING: "allow", DANGEROUS: "ask"},
    "autonomous": {LOOKING: "allow", CHANGING: "allow", DANGEROUS: "allow"},
}
CELLS = [(mode, str(effect), says) for mode, row in TABLE.items() for group, says in row.items() for effect in group]


@pytest.mark.parametrize(("mode", "category", "says"), CELLS)
def test_a_mode_decides_by_category(mode: str, category: str, says: str):
    assert ruling({"mode": mode}, call(effects=[category])) == says
    assert ruling({"mode": mode.upper()}, call(effects=[category])) == says


@pytest.mark.parametrize(("mode", "says"), [("observer", "deny"), ("assistant", "ask"), ("autonomous", "allow")])
def test_what_no_category_covers_counts_as_dangerous(mode: str, says: str):
    # The older system took an undeclared tool for a shell; spending and effects of one's own it did not know.
    for effects in (None, ["spend"], ["x:rocket"]):
        assert ruling({"mode": mode}, call(effects=effects)) == says
    assert ruling({"mode": mode}, call(effects=[])) == "allow"


@pytest.mark.parametrize("mode", TABLE)
def test_of_several_categories_the_strictest_counts(mode: str):
    says = {effect: word for group, word in TABLE[mode].items() for effect in group}
    rank = ["allow", "ask", "deny"]

    for one, other in combinations(says, 2):
        assert ruling({"mode": mode}, call(effects=[one, other])) == max(says[one], says[other], key=rank.index)
