"""The ledger of one process: accounts in a dictionary, and the reservations that one host has not settled.

MemoryLedger is safe to use from several threads.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Sequence

import attrs

from pluggent_budget.accounts import Account, Key, Shortage, Standing, lacking
from pluggent_budget.amounts import WALL, Amount
from pluggent_budget.costs import Estimate

MOST_ACCOUNTS = 100_000
"""Beyond this the oldest accounts that hold no reservation are forgotten."""
_UNITS = range(WALL)


class _Sums:
    __slots__ = ("began_ms", "held", "open", "used")

    def __init__(self) -> None:
        self.used = [0, 0, 0, 0, 0]
        self.held = [0, 0, 0, 0, 0]
        self.open = 0
        self.began_ms = 0  # the sum of when each open reservation began


class Reservation:
    """What is held in some accounts of a MemoryLedger until it is settled."""

    __slots__ = ("amount", "began_ms", "booked", "sums")

    def __init__(self, sums: Sequence[_Sums], amount: Amount, began_ms: int) -> None:
        self.sums = sums
        self.amount = amount
        self.began_ms = began_ms
        self.booked: Amount | None = None  # once it is settled, or counts as lost


class MemoryLedger:
    """Keeps accounts as long as it lives. ``monotonic`` returns seconds."""

    def __init__(self, monotonic: Callable[[], float], most: int = MOST_ACCOUNTS) -> None:
        self._monotonic = monotonic
        self._most = most
        self._accounts: dict[Key, _Sums] = {}
        self._lock = threading.Lock()

    def reserve(self, accounts: Sequence[Account], amount: Amount) -> Reservation | Shortage:
        """Hold *amount* in each of *accounts*, or in none and say which has too little."""
        now_ms = int(self._monotonic() * 1000)
        with self._lock:
            found: list[_Sums] = []
            for account in accounts:
                sums = self._accounts.get(account.key)
                if sums is None:
                    sums = self._accounts[account.key] = _Sums()
                held = sums.held
                held[WALL] = max(0, sums.open * now_ms - sums.began_ms) if sums.open else 0
                unit = lacking(account.rule.caps, sums.used, held, amount)
                if unit is not None:
                    return Shortage(account, unit, amount[unit], Standing(Amount(*sums.used), Amount(*held)))
                found.append(sums)
            for sums in found:
                held = sums.held
                held[0] += amount[0]
                held[1] += amount[1]
                held[2] += amount[2]
                held[3] += amount[3]
                sums.open += 1
                sums.began_ms += now_ms
            if len(self._accounts) > self._most:
                self._forget()
        return Reservation(found, amount, now_ms)

    def settle(self, reservation: Reservation, spent: Amount) -> None:
        """Replace what was held, or booked before, by what was *spent*."""
        with self._lock:
            if reservation.booked is None:
                self._use(reservation, spent)
            else:
                for sums in reservation.sums:
                    for unit in range(len(spent)):
                        sums.used[unit] += spent[unit] - reservation.booked[unit]
            reservation.booked = spent

    def lose(self, reservation: Reservation, *, book: bool) -> None:
        """Book or release a reservation without a settlement. A late settlement corrects that."""
        with self._lock:
            if reservation.booked is None:
                reservation.booked = reservation.amount if book else Amount()
                self._use(reservation, reservation.booked)

    def _use(self, reservation: Reservation, spent: Amount) -> None:
        amount = reservation.amount
        for sums in reservation.sums:
            used, held = sums.used, sums.held
            for unit in _UNITS:
                held[unit] -= amount[unit]
                used[unit] += spent[unit]
            used[WALL] += spent[WALL]
            sums.open -= 1
            sums.began_ms -= reservation.began_ms

    def standings(self, accounts: Sequence[Account]) -> list[Standing]:
        """Return how each of *accounts* stands."""
        now_ms = int(self._monotonic() * 1000)
        with self._lock:
            return [_standing(self._accounts.get(account.key), now_ms) for account in accounts]

    def _forget(self) -> None:
        # The oldest tenth at once, so that one in many calls pays for the search.
        for key in [key for key, sums in self._accounts.items() if not sums.open][: self._most // 10 + 1]:
            del self._accounts[key]


def _standing(sums: _Sums | None, now_ms: int) -> Standing:
    if sums is None:
        return Standing()
    running = max(0, sums.open * now_ms - sums.began_ms)
    return Standing(Amount(*sums.used), _with_wall(sums.held, running))


def _with_wall(held: Sequence[int], running_ms: int) -> Amount:
    tokens, nanos, tool_calls, model_calls, _ = held
    return Amount(tokens, nanos, tool_calls, model_calls, running_ms)


# ---- reservations of one host -----------------------------------------------------------


MOST_RUNS = 100_000
"""How many runs that outlive processes are remembered, so that each is charged once."""
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
        self._runs: dict[str, HeldReservation] = {}

    def of_run(self, run: str) -> HeldReservation | None:
        """Return what was reserved for *run* before, settled or not; None if nothing was."""
        return self._runs.get(run) if run else None

    def remember(self, run: str, held: HeldReservation) -> None:
        """Keep *held* as the one reservation of *run*."""
        self._runs[run] = held
        if len(self._runs) > MOST_RUNS:
            del self._runs[next(iter(self._runs))]

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
