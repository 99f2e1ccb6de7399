"""One line of a benchmark's table, the same everywhere."""

from collections.abc import Sequence
from statistics import median


def show(title: str, unit: str) -> None:
    """Print the head of a table."""
    print(f"\n{title:<58}{unit:>10}{'range':>22}")


def row(name: str, values: Sequence[float], digits: int = 1) -> float:
    """Print the median and the range of *values*, and return the median."""
    middle = median(values)
    print(f"{name:<58}{middle:>10.{digits}f}{min(values):>12.{digits}f} …{max(values):>8.{digits}f}")
    return middle
