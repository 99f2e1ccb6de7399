"""The reservations of one host, by the number that the host keeps for them."""

from __future__ import annotations

import itertools

import attrs

from pluggent_budget.costing import Estimate
from pluggent_budget.memory import Reservation

MOST_LATE = 1000
"""How many lost reservations are remembered, in case somebody settles them after all."""


@attrs.frozen(eq=False)
class Held:
    """What is reserved for one attempt since ``began`` (seconds of the monotonic clock)."""

    estimate: Estimate
    in_memory: Reservation
    in_file: int | None
    began: float


class Pending:
    """Reservations that are not settled yet. A host that was cancelled at a bad moment never settles one."""

    def __init__(self, expires_s: float) -> None:
        self._expires_s = expires_s
        self._numbers = itertools.count(1)
        self._held: dict[int, Held] = {}
        self._late: dict[int, Held] = {}

    def add(self, held: Held) -> int:
        """Keep *held* and return its number, which is never given again."""
        number = next(self._numbers)
        self._held[number] = held
        return number

    def take(self, number: object) -> Held | None:
        """Return the reservation with this number and forget it; None if it was settled before."""
        if not isinstance(number, int):
            return None
        return self._held.pop(number, None) or self._late.pop(number, None)

    def expired(self, now: float) -> list[Held]:
        """Return those that have become too old, each once."""
        old: list[Held] = []
        while self._held:
            number, held = next(iter(self._held.items()))
            if now - held.began < self._expires_s:
                break  # they stand in the order in which they began
            old.append(held)
            self._late[number] = self._held.pop(number)
            if len(self._late) > MOST_LATE:
                del self._late[next(iter(self._late))]
        return old
