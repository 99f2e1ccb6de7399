"""Programs that do one thing to a ledger file and say how it went.

python budget_dying.py hold LEDGER COUNT     hold COUNT times 100 tokens, say ``held``, and wait to be killed
python budget_dying.py full LEDGER           reserve until the disk is full, then settle when it is not
python budget_dying.py readonly LEDGER       open a ledger that this user may not write
python budget_dying.py fork LEDGER           reserve in a process that was forked off
"""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import sys
from pathlib import Path
from typing import Any

from budgets import Lent, model_call, refusal, reserve, settings, settle
from pluggent_budget.ledger_file import LedgerFile
from pluggent_budget.plugin import Budget
from pluggent_budget.settings import Limit
from pluggent_hookspecs import ConfigError, Deny, Usage

NOBODY = 65534
LIMIT = Limit(per=("principal", "day"), tokens=1_000_000)


def say(line: str) -> None:
    """Write a line at once and whole."""
    os.write(1, f"{line}\n".encode())


async def hold(path: str, count: str) -> None:
    budget = Budget(settings(LIMIT, path=path))
    async with budget.open(Lent()):
        held = [await reserve(budget, model_call(100)) for _ in range(int(count))]
        say(f"held {len(held)}")
        await asyncio.to_thread(sys.stdin.readline)


async def full(path: str) -> None:
    # What a full disk does: the file does not grow any more.
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    budget = Budget(settings(LIMIT, path=path))
    async with budget.open(Lent()):
        held = await reserve(budget, model_call(100))
        _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        size = Path(path + "-wal").stat().st_size  # noqa: ASYNC240 (nobody else waits)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
        say(await refusal(budget, model_call(100)))
        try:
            await settle(budget, model_call(100), held, Usage(input=40, output=2))
        except Exception as error:  # noqa: BLE001 (it is what the host would be told)
            say(f"{type(error).__name__}: {error}")
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
        say("held" if not isinstance(await reserve(budget, model_call(7)), Deny) else "denied")


def readonly(path: str) -> None:
    if os.geteuid() == 0:
        os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)
    try:
        LedgerFile(Path(path), lambda: 0.0)
    except ConfigError as error:
        say(str(error))


async def fork(path: str) -> None:
    budget = Budget(settings(LIMIT, path=path))
    async with budget.open(Lent()):
        child = os.fork()
        if child == 0:
            answer = budget.reserve(model_call(100))
            try:
                answer.send(None)  # type: ignore[union-attr] # a coroutine; this process has no loop that runs
            except StopIteration as end:
                say(end.value.tell_user)
            os._exit(0)
        os.waitpid(child, 0)  # noqa: ASYNC222 (nobody else waits)


if __name__ == "__main__":
    what, *arguments = sys.argv[1:]
    if what == "readonly":
        readonly(*arguments)
    else:
        programs: dict[str, Any] = {"hold": hold, "full": full, "fork": fork}
        asyncio.run(programs[what](*arguments))
