"""The path matrix on compositions as applications make them: with what is installed, and hosts that they open."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from pluggent_hookspecs import Message
from pluggent_host import Host
from pluggent_testing.paths import PATHS, PathMatrix
from pluggent_testing.paths.matrix import EVERY_PATH
from pluggent_testing.paths.operations import EntryPath
from pluggent_testing.paths.probes import witness
from pluggent_testing.paths.stage import Stage
from policy_rules import hooked


async def repeats(event: Any) -> Message:
    return Message.user(event.message.content)


async def passes(event: Any, call_next: Any) -> Any:
    return await call_next()


def polite() -> object:
    """Return a plugin of the application that takes part in everything, and changes little."""
    none = dict.fromkeys(("decide_tool_call", "decide_memory_read", "decide_output"))
    return hooked(name="Polite", transform_input=repeats, around_model_call=passes, **none)


class Composed(PathMatrix):
    """An application with plugins of its own beside those that are installed, and its own way to open hosts."""

    opened = 0

    def composition(self) -> Mapping[str, Any]:
        return {"plugins": [polite()], "system": "Be polite.", "acknowledged": bool}

    def open_host(self, **options: Any) -> AbstractAsyncContextManager[Host]:
        type(self).opened += 1
        return Host.open(**options)


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Callable[[EntryPath], Stage]:
    folder = tmp_path_factory.mktemp("paths")
    return cache(lambda path: Composed().play(path, folder, lambda log: (witness(log),)))


@EVERY_PATH
def test_the_paths_are_the_same_with_plugins_of_the_application(path: EntryPath, watched: Any) -> None:
    suite = Composed()

    suite.test_every_hook_fires_once_for_each_operation(path, watched)
    suite.test_every_decision_is_recorded_before_it_has_an_effect(path, watched)
    suite.test_every_attempt_is_reserved_and_settled(path, watched)

    # What was looked at went through the composition of these plugins.
    assert Composed.opened > 0 or path.opens


@EVERY_PATH
def test_the_hooks_of_the_application_are_reached(
    path: EntryPath, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Composed().test_every_hook_of_the_application_is_reached(path, tmp_path, monkeypatch)

    assert Composed.opened > 0 or path.opens


def test_paths_open_hosts_as_the_application_does(tmp_path: Path) -> None:
    before = Composed.opened

    Composed().play(PATHS["say"], tmp_path)

    assert Composed.opened == before + 1
