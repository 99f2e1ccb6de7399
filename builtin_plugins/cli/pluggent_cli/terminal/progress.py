"""Says in a few words what a running turn is waiting for, and for how long. Shows nothing itself."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic

from pluggent_hookspecs.observations import DecisionMade, ModelCalled, Observation, ToolFinished, ToolStarted
from pluggent_host.common.escape import escape_all

SAID_AFTER_S = 1.0
"""A shorter wait leaves no time to read."""


class Waiting:
    """Reads the events of one turn. Call it for the words; they are empty at first."""

    def __init__(self, model: str, clock: Callable[[], float] = monotonic) -> None:
        self._model = model
        self._clock = clock
        self._since = clock()
        self._tools: dict[str, str] = {}

    def read(self, event: Observation) -> None:
        """Take in *event*."""
        match event:
            case ToolStarted(call_id=id, name=name):
                self._tools[id] = name
            case ToolFinished(call_id=id):
                self._tools.pop(id, None)
            case ModelCalled() | DecisionMade(operation="model_call"):
                pass
            case _:
                return
        self._since = self._clock()

    def __call__(self) -> str:
        """Return such as ``waiting for weather, forecast · 3 s``."""
        waited_s = self._clock() - self._since
        if waited_s < SAID_AFTER_S:
            return ""
        names = ", ".join(dict.fromkeys(self._tools.values())) or self._model
        return f"waiting for {escape_all(names)} · {_shown(waited_s)}"


def _shown(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes} min {rest:02} s" if minutes else f"{rest} s"
