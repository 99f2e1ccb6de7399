"""Which tests a quick run has: ``pytest --quick``, for every day. Everything runs without it.

What starts many processes is left out but for a part of the command's, and of the path matrices
there are as many cells as it takes for every path and every hook to come up once.
"""

from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from fnmatch import fnmatch
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

LEFT_OUT = (
    "test_cli_*.py", "test_kill*.py", "test_doubts.py", "test_mcp_*.py", "test_*_aimock.py", "test_budget_processes.py",
    "test_provider_conformance.py", "test_anthropic_conformance.py", "test_pages_followed.py", "test_quick.py",
    "test_mutants.py",
)  # fmt: skip
"""Files by name: what they start or how often they ask a server takes longest. OpenAI's wire stays for the wires."""
KEPT = ("test_cli_main.py", "test_cli_tools.py", "test_cli_pausing.py", "test_mcp_settings.py", "test_mcp_trust.py")
"""What is in a quick run all the same."""
SAMPLED = ("test_path_matrix*.py", "test_*_conformance.py")


def wanted(file: Path) -> bool:
    """Tell whether a quick run reads *file*."""
    return _matches(file, KEPT) or not _matches(file, LEFT_OUT)


def chosen(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """Return what a quick run has of *items*, in their order."""
    kept: set[pytest.Item] = set()
    for _, of_class in groupby(items, lambda item: item.nodeid.rpartition("::")[0]):
        kept.update(_sampled([*of_class]))
    return [item for item in items if item in kept]


def _sampled(items: list[pytest.Item]) -> Iterator[pytest.Item]:
    """Yield what is least used so far for every path in turn, then what has a function or a value of its own."""
    if not _matches(items[0].path, SAMPLED):
        yield from items
        return
    used: Counter[Hashable] = Counter()
    by_path: dict[Hashable, list[pytest.Item]] = {}
    for item in items:
        by_path.setdefault(dict(_values(item)).get("path"), []).append(item)
    for path, of_path in by_path.items():
        if path is not None:
            best = min(of_path, key=lambda item: sum(used[one] for one in _values(item)))
            used.update(_values(best))
            yield best
    for item in items:
        if any(not used[one] for one in _values(item)):
            used.update(_values(item))
            yield item


def _values(item: pytest.Item) -> list[tuple[str, Hashable]]:
    call = getattr(item, "callspec", None)
    parameters: dict[str, Any] = {} if call is None else call.params
    function = item.nodeid.partition("[")[0]
    return [("", function), *((name, one if isinstance(one, str) else id(one)) for name, one in parameters.items())]


def _matches(file: Path, patterns: Sequence[str]) -> bool:
    return any(fnmatch(file.name, pattern) for pattern in patterns)
