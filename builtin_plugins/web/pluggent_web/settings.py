"""What can be written under ``[plugins.pluggent-web]``."""

from __future__ import annotations

import math
from collections.abc import Iterable

import attrs
from pluggent_hookspecs import Value

_LARGEST = 5_242_880
"""An image of this size fits into what the host lets a result carry (8 MiB of base64)."""


def _texts(value: Iterable[str]) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value)


@attrs.frozen(kw_only=True, repr=False, eq=False)
class WebSettings(Value):
    """What may be fetched, from where, and how much of it."""

    allow_private: tuple[str, ...] = attrs.field(default=(), converter=_texts)
    """Private hosts, addresses and networks that may be asked all the same."""
    deny: tuple[str, ...] = attrs.field(default=(), converter=_texts)
    """Hosts that are never asked."""
    only: tuple[str, ...] = attrs.field(default=(), converter=_texts)
    """The hosts that may be asked; empty: all others."""
    timeout_s: float = 30.0
    """Seconds of one fetch."""
    max_bytes: int = _LARGEST
    """The most bytes of one answer."""
    page_chars: int = 20_000
    """Characters of a page that one call returns."""
    user_agent: str = ""
    """The header User-Agent; empty: pluggent's own."""
    proxy: str = ""
    """http://HOST:PORT, or environment for HTTP_PROXY and HTTPS_PROXY; empty: none."""

    def __attrs_post_init__(self) -> None:
        lists = {"allow_private": self.allow_private, "deny": self.deny, "only": self.only}
        problems = [f"{name}: {problem}" for name, texts in lists.items() if (problem := _problem_of(texts))]
        if not 0 < self.timeout_s < math.inf:
            problems.append("timeout_s: must be more than 0 seconds")
        if not 0 < self.max_bytes <= _LARGEST:
            problems.append(f"max_bytes: must be from 1 to {_LARGEST:,}")
        if self.page_chars < 1:
            problems.append("page_chars: must be at least 1")
        if not (self.user_agent.isascii() and self.user_agent.isprintable()):
            problems.append("user_agent: must be printable ASCII")
        if self.proxy not in ("", "environment") and not self.proxy.startswith(("http://", "https://")):
            problems.append("proxy: write http://HOST:PORT, or environment for that of HTTP_PROXY and HTTPS_PROXY")
        if problems:
            raise ValueError("; ".join(problems))


def _problem_of(texts: tuple[str, ...]) -> str:
    """Return why *texts* are no patterns of hosts, "" if they are."""
    if not texts:
        return ""
    # Inside: few settings name hosts, and reading patterns costs 5 ms of the host's start.
    from pluggent_web.hosts import patterns

    try:
        patterns(texts)
    except ValueError as error:
        return str(error)
    return ""
