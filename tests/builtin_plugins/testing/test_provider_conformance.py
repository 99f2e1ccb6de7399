from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import broken_providers
import broken_wire_providers
from pluggent_testing.wires import WireConformance

SUPPORT = Path(__file__).parents[2] / "support" / "plugins"
PATIENCE_S = 300.0
MODULES = (broken_providers, broken_wire_providers)
UNHARMED = "test_opening_and_closing_alone_is_fine"


def outcomes_of(*tests: str) -> dict[str, str]:
    """Run tests of the broken providers in a process of its own; return what became of each function."""
    named = [f"{SUPPORT / test}" for test in tests]
    outcomes: dict[str, str] = json.loads(python(str(SUPPORT / "broken_wire_providers.py"), *named))
    return outcomes


def cases_in(module: ModuleType) -> dict[str, tuple[str, ...]]:
    """Return the classes of tests in *module*, each with what has to notice it."""
    found = {name: each for name, each in vars(module).items() if name.startswith("Test")}
    return {name: each.caught_by for name, each in found.items()}


def imported_by(module: str) -> list[str]:
    """Return the modules that importing *module* brings into a new process."""
    code = f"import json, sys, {module}; json.dump(list(sys.modules), sys.stdout)"
    modules: list[str] = json.loads(python("-c", code))
    return modules


def python(*arguments: str) -> str:
    """Run Python and return what it prints."""
    command = [sys.executable, *arguments]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=PATIENCE_S, cwd=SUPPORT.parent)  # noqa: S603 (this Python)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_broken_promise_is_noticed_by_the_test_of_that_promise():
    broken = {f"{module.__name__}.py::{name}": cases for module in MODULES for name, cases in cases_in(module).items()}
    caught = [f"{name}::{case}" for name, cases in broken.items() for case in cases]
    unharmed = [f"{name}::{UNHARMED}" for name in broken]

    outcomes = outcomes_of(*caught, *unharmed)

    functions = dict.fromkeys((name.partition("[")[0] for name in caught), "failed")
    assert outcomes == functions | dict.fromkeys(unharmed, "passed")
    assert len(broken) > 30


def test_the_suite_imports_no_http_library_and_no_plugin():
    modules = {name.partition(".")[0] for name in imported_by("pluggent_testing.wires")}

    assert modules & {"httpx", "httpx2", "httpcore", "aiohttp", "requests", "openai", "anthropic", "mcp"} == set()
    ours = {
        "pluggent_contract_values",
        "pluggent_function_tools",
        "pluggent_host",
        "pluggent_hookspecs",
        "pluggent_plugin_loader",
        "pluggent_testing",
        "pluggent_transcript",
    }
    assert {name for name in modules if name.startswith("pluggent_")} == ours
    assert "jsonschema_rs" not in modules


def test_the_plugin_of_pytest_imports_nothing_of_the_suite():
    assert not [name for name in imported_by("pluggent_testing.fixtures") if "testing.providers" in name]


def test_each_test_of_the_suite_has_a_sentence_for_a_name():
    names = [name for name in dir(WireConformance) if name.startswith("test_")]

    assert [name for name in names if name.count("_") < 3] == []
