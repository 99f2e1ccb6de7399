"""Tokens and money in words: for ``/cost``, and for the line below what is typed."""

from __future__ import annotations

from typing import Any

import attrs
from pluggent_contract_values.escape import escape_all
from pluggent_hookspecs.messages import Usage
from pluggent_host.host import Host
from pluggent_host.session import Session

_PRICES = "pluggent-budget"
"""The plugin that knows prices."""


def cost_lines(host: Host, session: Session, last: Usage) -> list[str]:
    """Return what *session* and its *last* turn have used, and why no money is named if none is known."""
    if session.usage == Usage():
        return [shown_usage(session.usage)]
    lines = [f"this session: {shown_usage(session.usage)}"]
    if last != Usage():
        lines.append(f"last turn: {shown_usage(last)}")
    if session.usage.cost_usd is None:
        lines.append(f"the price is not known: {_why_unknown(host, session.model)}")
    return lines


def _why_unknown(host: Host, model: str) -> str:
    if any(record.id == _PRICES and state == "active" for record, state, _ in host.plugins):
        return f"{_PRICES} has none for {escape_all(model)}; write it in its price_file"
    return f"no plugin names prices; {_PRICES} does"


def status(session: Session, attached: int) -> str:
    """Return the line below what is typed: model, tokens, money, what is *attached*, and what waits."""
    used, waiting = session.usage, len(session.pending)
    facts = [escape_all(session.model)]
    if used.total:
        facts.append(f"{used.total:,} tokens")
    if used.cost_usd:
        facts.append(f"${used.cost_usd:.4f}")
    if attached:
        facts.append("1 attachment" if attached == 1 else f"{attached} attachments")
    if waiting:
        facts.append(f"{waiting} waiting for approval: /approve")
    elif session.paused:
        facts.append("a turn waits: /resume")
    return " · ".join(facts)


def used_since(before: Usage, now: Usage) -> Usage:
    """Return what *now* has more than *before*.

    >>> used_since(Usage(10, 5), Usage(30, 6, cached=2)) == Usage(20, 1, cached=2)
    True
    """
    then = attrs.asdict(before)
    more: dict[str, Any] = {
        name: count - (then[name] or 0)
        for name, count in attrs.asdict(now).items()
        if count is not None and not isinstance(count, bool)
    }
    return Usage(**more, estimated=now.estimated)


def shown_usage(usage: Usage) -> str:
    """Return *usage* in words.

    >>> shown_usage(Usage(1200, 30, cached=1000, cost_usd=0.01))
    '1,200 tokens in (1,000 of them cached), 30 out; 0.0100 US dollars'
    """
    if usage == Usage():
        return "no tokens were used yet"

    def count(tokens: int | None) -> str:
        return "?" if tokens is None else f"{tokens:,}"

    cached = f" ({usage.cached:,} of them cached)" if usage.cached else ""
    reasoning = f" ({usage.reasoning:,} of them reasoning)" if usage.reasoning else ""
    cost = "" if usage.cost_usd is None else f"; {usage.cost_usd:.4f} US dollars"
    some = "; some of it is estimated" if usage.estimated else ""
    return f"{count(usage.input)} tokens in{cached}, {count(usage.output)} out{reasoning}{cost}{some}"
