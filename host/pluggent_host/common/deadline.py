"""A deadline that can be paused, say while a person thinks."""

from __future__ import annotations

from time import perf_counter

import attrs


@attrs.define(eq=False)
class Deadline:
    """A number of seconds from now on, which can be stopped and started again. Never negative."""

    _seconds: float
    _began: float = attrs.field(factory=perf_counter, init=False)
    _stops: int = attrs.field(default=0, init=False)

    def left(self) -> float:
        """Return the seconds left; infinity while it is stopped."""
        return float("inf") if self._stops else max(0.0, self._seconds - (perf_counter() - self._began))

    def stop(self) -> None:
        """Stop until ``start`` has been called as often."""
        if self._stops == 0:
            self._seconds = self.left()
        self._stops += 1

    def start(self) -> None:
        """Continue."""
        self._stops -= 1
        if self._stops == 0:
            self._began = perf_counter()
