"""Ids: of plugins given in code, of the host itself, and what a capability id says of its plugin."""

from __future__ import annotations

HOST = "host"
DOUBT = "host:doubt"
"""Who votes where nothing but a person will do: a call that may have happened, a prompt of a stranger's."""
APP = "app:"
"""Ids of plugins given in application code begin with this; no distribution's name can."""


def plugin_of(capability: str) -> str:
    """Return the plugin id in a capability id, or the id itself.

    >>> plugin_of("acme-tools:tool/search"), plugin_of("app:notes:tool/add"), plugin_of("app:notes")
    ('acme-tools', 'app:notes', 'app:notes')
    """
    app = APP if capability.startswith(APP) else ""
    return app + capability[len(app) :].partition(":")[0]
