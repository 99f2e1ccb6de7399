"""Names: ids of plugins given in code and of the host, the plugin in a capability id, the nearest known name."""

from __future__ import annotations

from collections.abc import Iterable

HOST = "host"
DOUBT = "host:doubt"
"""The voter where only a person may decide: a call that may have happened, a prompt of an unknown author."""
APP = "app:"
"""Ids of plugins given in application code begin with this; no distribution's name can."""


def plugin_of(capability: str) -> str:
    """Return the plugin id in a capability id, or the id itself: 'app:notes' for 'app:notes:tool/add'."""
    app = APP if capability.startswith(APP) else ""
    return app + capability[len(app) :].partition(":")[0]


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return ``"; did you mean 'x'?"`` for the known name most like *word*, or ``""``.

    >>> did_you_mean("decide_toolcall", ["decide_tool_call"]), did_you_mean("zebra", ["observe"])
    ("; did you mean 'decide_tool_call'?", '')
    """
    import difflib  # 1 ms, and only needed after a mistake

    close = difflib.get_close_matches(word, sorted(known), n=1)
    return f"; did you mean '{close[0]}'?" if close else ""


def framed(*parts: bytes) -> bytes:
    """Return *parts* in a row, each behind its length, so that no other parts look the same.

    >>> framed(b"ab", b"c")
    b'2:ab1:c'
    """
    return b"".join([b"%d:%b" % (len(part), part) for part in parts])
