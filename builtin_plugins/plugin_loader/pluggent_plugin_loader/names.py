"""Ids of plugins given in application code; the plugin in a capability id."""

from __future__ import annotations

APP = "app:"
"""Ids of plugins given in application code begin with this; no distribution's name can."""


def plugin_of(capability: str) -> str:
    """Return the plugin id in a capability id, or the id itself: 'app:notes' for 'app:notes:tool/add'."""
    app = APP if capability.startswith(APP) else ""
    return app + capability[len(app) :].partition(":")[0]
