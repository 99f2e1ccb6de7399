"""The time that the plugin goes by, in one value, so that an application or a test can bring its own."""

from __future__ import annotations

import time
from collections.abc import Callable

import attrs


@attrs.frozen(eq=False)
class Clock:
    """``now`` returns seconds since 1970, ``monotonic`` seconds that never go back."""

    now: Callable[[], float] = time.time
    monotonic: Callable[[], float] = time.monotonic
