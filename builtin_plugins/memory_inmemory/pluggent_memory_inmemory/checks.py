"""Refuses what no store can keep, before anything is stored. Pure."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable

from pluggent_hookspecs import MemoryItem, MemoryQuery, MemoryStoreError, MemoryStoreErrorKind, thaw

_ORDERS = ("key", "created", "updated")


def check_items(items: Iterable[MemoryItem]) -> None:
    """Raise MemoryStoreError ``invalid`` naming every problem of every item."""
    problems = [f"item {index}: {problem}" for index, item in enumerate(items) for problem in _problems(item)]
    refuse(problems)


def check_identity(namespace: str, key: str) -> None:
    """Raise MemoryStoreError ``invalid`` if either is empty."""
    refuse([f"the {name} is empty" for name, value in (("namespace", namespace), ("key", key)) if not value])


def check_query(query: MemoryQuery) -> None:
    """Raise MemoryStoreError ``invalid`` if the query is not valid."""
    problems = [] if query.namespace else ["the namespace is empty"]
    if query.order not in _ORDERS:
        problems.append(f"order: unknown '{query.order}'; known are {', '.join(_ORDERS)}")
    refuse(problems)
    check_limit(query.limit)


def check_limit(limit: int) -> None:
    """Raise MemoryStoreError ``invalid`` for a limit that lets nothing through."""
    refuse([] if limit >= 1 else [f"limit: must be at least 1, not {limit}"])


def refuse(problems: list[str]) -> None:
    """Raise MemoryStoreError ``invalid`` if there are problems."""
    if problems:
        raise MemoryStoreError(MemoryStoreErrorKind.INVALID, "; ".join(problems))


def _problems(item: MemoryItem) -> list[str]:
    problems = [f"the {name} is empty" for name in ("namespace", "key") if not getattr(item, name)]
    if item.ttl_s is not None and not (0 < item.ttl_s < math.inf):
        problems.append(f"ttl_s: must be more than 0 seconds and finite, not {item.ttl_s}")
    if not math.isfinite(item.value):
        problems.append(f"value: must be finite, not {item.value}")
    problems += [f"{name}: holds a lone surrogate" for name in ("namespace", "key", "text") if _broken(item, name)]
    try:
        json.dumps(thaw(item.data), ensure_ascii=False, allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        problems.append(f"data: not JSON: {error}")
    return problems


def _broken(item: MemoryItem, name: str) -> bool:
    text: str = getattr(item, name)
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False
