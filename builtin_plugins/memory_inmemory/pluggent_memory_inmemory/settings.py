"""What can be written under ``[plugins.pluggent-memory-inmemory]``."""

from __future__ import annotations

import math
from typing import Literal, TypeAlias

import attrs

Policy: TypeAlias = Literal["none", "ttl", "capacity", "value"]
_POLICIES = ("none", "ttl", "capacity", "value")


@attrs.frozen
class InMemorySettings:
    """When items are forgotten of themselves.

    ``none``: when their own ``ttl_s`` is over. ``ttl``: also ``default_ttl_s`` (seconds since
    the last save) after those that have none of their own. ``capacity``: the store holds
    ``max_items`` at most, in all namespaces together; the ones saved longest ago are evicted.
    ``value``: the same, but the ones of least ``value`` are evicted, of equal ones the oldest.
    ``capacity`` and ``value`` may have a ``default_ttl_s`` as well.
    """

    policy: Policy = "none"
    """What is forgotten by itself: none, ttl (by default_ttl_s), capacity (the oldest), value (the least)."""
    max_items: int | None = None
    """The most items, for the policies capacity and value."""
    default_ttl_s: float | None = None
    """Seconds after which items without a time of their own are forgotten."""

    def __attrs_post_init__(self) -> None:
        bounded = self.policy in ("capacity", "value")
        problems: list[str] = []
        if self.policy not in _POLICIES:
            problems.append(f"policy: unknown '{self.policy}'; known are {', '.join(_POLICIES)}")
        if bounded and (self.max_items is None or self.max_items < 1):
            problems.append(f"max_items: policy '{self.policy}' needs a number of at least 1")
        if not bounded and self.max_items is not None:
            problems.append(f"max_items: means nothing with policy '{self.policy}'; use 'capacity' or 'value'")
        if self.policy == "ttl" and self.default_ttl_s is None:
            problems.append("default_ttl_s: policy 'ttl' needs it, in seconds")
        if self.policy == "none" and self.default_ttl_s is not None:
            problems.append("default_ttl_s: means nothing with policy 'none'; use 'ttl'")
        if self.default_ttl_s is not None and not (0 < self.default_ttl_s < math.inf):
            problems.append("default_ttl_s: must be more than 0 seconds")
        if problems:
            raise ValueError("; ".join(problems))
