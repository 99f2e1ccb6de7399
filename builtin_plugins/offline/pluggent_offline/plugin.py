"""The plugin: its one hook."""

from __future__ import annotations

from collections.abc import Iterable

from pluggent_hookspecs import ProvideEvent, Provider, hookimpl

from pluggent_offline.provider import OfflineProvider


class Offline:
    """The plugin behind the entry point ``offline``; it has no settings."""

    @hookimpl
    def provide_providers(self, event: ProvideEvent) -> Iterable[Provider]:
        """Offer the provider ``offline``."""
        return [OfflineProvider()]
