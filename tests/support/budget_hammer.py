"""A program that takes from a budget as fast as it can, in one of several processes.

    python budget_hammer.py LEDGER CAP SIZE TASKS CALLS

TASKS tasks make CALLS attempts each, of SIZE tokens. The program prints a line for each attempt,
``held`` when it was granted and ``spent N`` when it was settled, and in the end ``done``.
"""

from __future__ import annotations

import asyncio
import os
import random
import sys

from budgets import Lent, model_call, reserve, settings, settle
from pluggent_budget.plugin import Budget
from pluggent_budget.settings import Limit
from pluggent_hookspecs import Deny, Usage


def say(line: str) -> None:
    """Write a line at once and whole."""
    os.write(1, f"{line}\n".encode())


async def hammer(path: str, cap: int, size: int, tasks: int, calls: int) -> None:
    """Make all attempts."""
    budget = Budget(settings(Limit(per=("principal", "day"), tokens=cap), path=path))
    event = model_call(size)

    async def work() -> None:
        for _ in range(calls):
            held = await reserve(budget, event)
            if isinstance(held, Deny):
                assert "does not allow this" in held.tell_user, held
                continue
            say("held")
            await asyncio.sleep(0)
            spent = random.randint(0, size)  # noqa: S311 (how much a reply is)
            await settle(budget, event, held, Usage(input=spent, output=0))
            say(f"spent {spent}")

    async with budget.open(Lent()):
        await asyncio.gather(*(work() for _ in range(tasks)))
    say("done")


if __name__ == "__main__":
    asyncio.run(hammer(sys.argv[1], *map(int, sys.argv[2:])))
