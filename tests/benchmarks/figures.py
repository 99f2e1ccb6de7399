"""One line of a benchmark's table, the same everywhere."""

import time
from collections.abc import Awaitable, Callable, Sequence
from statistics import median


def show(title: str, unit: str) -> None:
    """Print the head of a table.

    A goal is held against the fastest round: what makes the others slower is not the code.
    """
    print(f"\n{title:<58}{unit:>10}{'goal':>8}{'fastest':>10}{'median':>10}{'slowest':>10}")


def row(name: str, values: Sequence[float], digits: int = 1, goal: float | None = None) -> float:
    """Print the fastest, the median and the slowest of *values*, and return the fastest."""
    best = min(values)
    verdict = "" if goal is None else "  met" if best <= goal else "  MISSED"
    wanted = "" if goal is None else f"{goal:g}"
    figures = "".join(f"{value:>10.{digits}f}" for value in (best, median(values), max(values)))
    print(f"{name:<58}{'':>10}{wanted:>8}{figures}{verdict}", flush=True)
    return best


async def rounds(work: Callable[[], Awaitable[object]], times: int, count: int) -> list[float]:
    """Return the CPU microseconds of one *work*: the mean of *times*, *count* times over."""
    await spent(work, times)
    return [1e6 * await spent(work, times) / times for _ in range(count)]


async def spent(work: Callable[[], Awaitable[object]], times: int) -> float:
    """Return the CPU seconds of this process that *times* of *work* take."""
    before = time.process_time()
    for _ in range(times):
        await work()
    return time.process_time() - before
