"""What came of starting a server once, apart from any host. Values only; trying.py makes them."""

from __future__ import annotations

from collections.abc import Mapping

import attrs


@attrs.frozen
class Shown:
    """A tool as a server showed it: what it says that it does, None where it says nothing, and what pins it."""

    effects: tuple[str, ...] | None
    pin: str


@attrs.frozen
class Trial:
    """What came of it. ``problem`` is empty where it worked; what took how long, in seconds, as far as it came."""

    name: str
    problem: str = ""
    times_s: Mapping[str, float] = attrs.field(factory=dict[str, float])
    server: str = ""
    """What it calls itself."""
    protocol: str = ""
    tools: Mapping[str, Shown] = attrs.field(factory=dict[str, Shown])
    remarks: tuple[str, ...] = ()
    """What is not as it should be with its tools, and nobody here can do anything about."""
