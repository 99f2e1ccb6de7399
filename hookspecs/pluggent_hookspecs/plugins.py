"""What a plugin is to the host: a factory, its settings, and a lifetime."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Protocol, runtime_checkable

__all__ = ["Opens", "PluginContext"]


class PluginContext(Protocol):
    """What the host lends a plugin while it is open."""

    @property
    def plugin(self) -> str:
        """The plugin's own id."""
        ...

    @property
    def host_version(self) -> str: ...

    async def tools_named(self, pattern: str) -> tuple[str, ...]:
        """Return the capability ids that *pattern* names: an id, a short name, or either with ``*``.

        Loads the tools it needs to know. Raises ConfigError if nothing bears the name, with the
        nearest one, or if a short name means two tools: a rule must not miss in silence.
        """
        ...

    async def model_named(self, name: str) -> str:
        """Return *name*, ``provider/model``, as it will be asked for; loads its provider.

        Raises ConfigError, with the nearest name, if there is no such provider.
        """
        ...


@runtime_checkable
class Opens(Protocol):
    """A plugin with a lifetime: ``open`` is entered before its first use, left at the end.

    Entering has 10 s, leaving 5 s (host settings). Plugins are left in reverse order.
    """

    def open(self, context: PluginContext) -> AbstractAsyncContextManager[object]:
        """Return the context manager of this plugin's lifetime."""
        ...
