"""The lifetime of a plugin, and what it may ask the host meanwhile."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Protocol, runtime_checkable

__all__ = ["Opens", "PluginContext"]


class PluginContext(Protocol):
    """The host, for a plugin that is open."""

    @property
    def plugin(self) -> str:
        """The plugin's own id."""
        ...

    @property
    def host_version(self) -> str: ...

    async def tools_named(self, pattern: str) -> tuple[str, ...]:
        """Return the capability ids that *pattern* names: an id, a short name, or either with ``*``.

        Loads the plugins of these tools. Raises ConfigError, with the nearest name, for an unknown name,
        or a short name that two tools have: a rule must not be lost in silence.
        """
        ...

    async def model_named(self, name: str) -> str:
        """Return *name*, ``provider/model``, once its provider is loaded.

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
