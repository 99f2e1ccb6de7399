"""What a ledger answers: a reservation, or which account has too little left."""

from __future__ import annotations

from typing import NamedTuple

import attrs

from pluggent_budget.accounts import Account
from pluggent_budget.amounts import Amount


class Standing(NamedTuple):
    """What was used of an account, and what is held for calls that run (of time: how long they have run)."""

    used: Amount = Amount()
    held: Amount = Amount()


@attrs.frozen
class Shortage:
    """An account has not enough of ``unit`` left for ``wanted``."""

    account: Account
    unit: int
    wanted: int
    standing: Standing
