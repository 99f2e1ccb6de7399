"""The clock of the plugin, as one value that an application or a test can replace."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

import attrs


@attrs.frozen(eq=False)
class Clock:
    """``monotonic`` and ``now`` return seconds, the second since 1970; ``sleep`` waits for some."""

    monotonic: Callable[[], float] = time.monotonic
    now: Callable[[], float] = time.time
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
