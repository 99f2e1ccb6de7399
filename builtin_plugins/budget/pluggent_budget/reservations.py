"""The reservations of one host, by the number that the host keeps for them."""

from __future__ import annotations

import itertools

import attrs

from pluggent_budget.costs import Estimate
from pluggent_budget.memory_ledger import Reservation

MOST_LATE = 1000
"""How many lost reservations are remembered, for late settlements."""


@attrs.frozen(eq=False)
class HeldReservation:
    """What is reserved for one attempt since ``began`` (seconds of the monotonic clock)."""

    estimate: Estimate
    in_memory: Reservation
    in_file: int | None
    began: float


class PendingReservations:
    """Reservations that are not settled yet. A host that is cancelled at a bad moment never settles one."""

    def __init__(self, expires_s: float) -> None:
        self._expires_s = expires_s
        self._numbers = itertools.count(1)
        self._held: dict[int, HeldReservation] = {}
        self._late: dict[int, HeldReservation] = {}

    def add(self, held: HeldReservation) -> int:
        """Keep *held* and return its number, which is never given again."""
        number = next(self._numbers)
        self._held[number] = held
        return number

    def take(self, number: object) -> HeldReservation | None:
        """Return the reservation with this number and forget it; None if it was settled before."""
        if not isinstance(number, int):
            return None
        return self._held.pop(number, None) or self._late.pop(number, None)

    def expired(self, now: float) -> list[HeldReservation]:
        """Return those that have become too old, each once."""
        old: list[HeldReservation] = []
        while self._held:
            number, held = next(iter(self._held.items()))
            if now - held.began < self._expires_s:
                break  # they stand in the order in which they began
            old.append(held)
            self._late[number] = self._held.pop(number)
            if len(self._late) > MOST_LATE:
                del self._late[next(iter(self._late))]
        return old
