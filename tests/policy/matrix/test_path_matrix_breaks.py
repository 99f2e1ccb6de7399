"""The path matrix notices hosts that are broken, each in the test and the cell that are about it."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from paths_breaking import BREAKS, REFUSES, Break
from pluggent_hookspecs import Deny
from pluggent_hookspecs.hooks import HOOKS, HookInfo
from pluggent_hookspecs.markers import HookKind
from pluggent_host import Host, Session
from pluggent_testing.paths import PATHS, PathMatrix, entries as paths_entries, path_matrix
from pluggent_testing.paths.matrix import cells_of
from pluggent_testing.paths.probes import witness
from policy_rules import hooked


async def agrees(event: object) -> None:
    """Change nothing."""


class Suite(PathMatrix):
    def composition(self) -> Mapping[str, Any]:
        return {
            "installed": False,
            "plugins": [hooked(name="Own", decide_tool_call=None, transform_tool_result=agrees)],
        }


def run(suite: PathMatrix, test: str, cell: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run one cell of *test* as pytest would."""
    function = getattr(suite, test)
    names, rows = cells_of(test, suite.paths) or ("", ())
    (values,) = (row.values for row in rows if row.id == cell)
    fixtures = {
        "folder": folder,
        "monkeypatch": monkeypatch,
        "witnessed": lambda path: suite.play(path, folder, lambda log: (witness(log),)),
    }
    given: dict[str, Any] = dict(zip(names.split(","), values, strict=True))
    wanted = inspect.signature(function).parameters
    function(**given, **{name: value for name, value in fixtures.items() if name in wanted})


CASES = [
    pytest.param(broken, test, cell, id=f"{sentence}: {test.removeprefix('test_')}[{cell}]")
    for sentence, broken in BREAKS.items()
    for test, cell in broken.noticed
]


@pytest.mark.parametrize(("broken", "test", "cell"), CASES)
@pytest.mark.filterwarnings("ignore:coroutine")
def test_a_broken_host_is_noticed(
    broken: Break, test: str, cell: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(Suite(), test, cell, tmp_path, monkeypatch)

    broken.make(monkeypatch)

    with pytest.raises((AssertionError, RuntimeError)):  # or what the probe raised comes out
        run(Suite(), test, cell, tmp_path, monkeypatch)


def test_a_public_method_on_no_path_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Session, "whisper", lambda *_: None, raising=False)

    with pytest.raises(AssertionError, match=r"Session\.whisper"):
        Suite().test_every_public_method_is_on_a_path_or_has_a_reason_not_to_be()


def test_a_reason_for_a_method_that_is_gone_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(Host, "load_all")

    with pytest.raises(AssertionError, match=r"Host\.load_all"):
        Suite().test_every_public_method_is_on_a_path_or_has_a_reason_not_to_be()


def test_a_hook_that_no_path_knows_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(HOOKS, "decide_thing", HookInfo("decide_thing", HookKind.DECIDE, print))

    with pytest.raises(AssertionError, match="decide_thing"):
        Suite().test_every_hook_of_the_contract_is_on_a_path()


def test_a_path_that_is_left_out_has_to_be_one() -> None:
    class Wrong(Suite):
        left_out = {"sya": "misspelt"}  # noqa: RUF012 (as an application writes it)

    with pytest.raises(AssertionError, match="sya"):
        Wrong().test_every_path_that_is_left_out_is_one()


def test_a_path_that_is_left_out_is_skipped_with_its_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Without(Suite):
        left_out = {"say": "nothing is said here"}  # noqa: RUF012 (as an application writes it)

    with pytest.raises(pytest.skip.Exception, match="nothing is said here"):
        run(Without(), REFUSES, "say-decide_input-deny", tmp_path, monkeypatch)


def test_a_policy_that_refuses_the_tools_of_the_suite_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    strict = hooked(name="Strict", decide_tool_call=Deny("only what I know"))

    class Refusing(Suite):
        def composition(self) -> Mapping[str, Any]:
            return {"installed": False, "plugins": [strict]}

    with pytest.raises(AssertionError, match="tool_call deny by app:strict: only what I know"):
        run(Refusing(), "test_every_hook_fires_once_for_each_operation", "say", tmp_path, monkeypatch)


def test_every_public_method_is_known() -> None:
    assert {"Session.say", "ToolContext.call_model", "MemoryAccess.search"} <= paths_entries.methods()


def test_the_table_names_every_path_and_every_hook() -> None:
    head, _, *rows = path_matrix().splitlines()

    fired = {name for name, info in HOOKS.items() if info.kind is not HookKind.PROVIDE}
    assert {cell.strip() for cell in head.split("|")} - {"", "path"} == fired
    assert [row.split("|")[1].strip() for row in rows] == [*PATHS]
