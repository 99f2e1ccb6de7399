"""Names: ids of plugins given in code and of the host; the plugin in a capability id."""

from __future__ import annotations

HOST = "host"
DOUBT = "host:doubt"
"""The voter where only a person may decide: a call that may have happened, a prompt of an unknown author."""
APP = "app:"
"""Ids of plugins given in application code begin with this; no distribution's name can."""


def plugin_of(capability: str) -> str:
    """Return the plugin id in a capability id, or the id itself: 'app:notes' for 'app:notes:tool/add'."""
    app = APP if capability.startswith(APP) else ""
    return app + capability[len(app) :].partition(":")[0]


def framed(*parts: bytes) -> bytes:
    """Return *parts* in a row, each behind its length, so that no other parts look the same.

    >>> framed(b"ab", b"c")
    b'2:ab1:c'
    """
    return b"".join([b"%d:%b" % (len(part), part) for part in parts])
