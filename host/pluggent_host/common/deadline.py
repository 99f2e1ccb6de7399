"""A deadline that can be paused, say while a person thinks."""

from __future__ import annotations

from time import perf_counter


class Deadline:
    """A number of seconds from now on, which can be stopped and started again. Never negative."""

    __slots__ = ("_at", "_left", "_stops")

    def __init__(self, seconds: float) -> None:
        self._at = perf_counter() + seconds
        self._left = 0.0
        self._stops = 0

    def left(self) -> float:
        """Return the seconds left; infinity while it stands still."""
        return float("inf") if self._stops else max(0.0, self._at - perf_counter())

    def stop(self) -> None:
        """Stand still until ``start`` has been called as often."""
        if self._stops == 0:
            self._left = self.left()
        self._stops += 1

    def start(self) -> None:
        """Go on."""
        self._stops -= 1
        if self._stops == 0:
            self._at = perf_counter() + self._left
