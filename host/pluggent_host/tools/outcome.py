"""How a tool call ended, as a turn and its transcript know it."""

from __future__ import annotations

import attrs


@attrs.frozen
class Outcome:
    """How one call ended, as far as the next step cares. ``signature`` stands for the result."""

    call_id: str
    signature: str
    denied: bool = False
    ends_turn: bool = False
    handled: bool = False
    waits: bool = False
