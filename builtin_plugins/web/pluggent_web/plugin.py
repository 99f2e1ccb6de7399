"""The plugin: its one hook."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from pluggent_hookspecs import ProvideEvent, hookimpl

from pluggent_web.fetch_tool import Resolver, fetch_tool
from pluggent_web.settings import WebSettings


class Web:
    """The plugin behind the entry point ``web``. *resolver* looks names up in place of the system's."""

    Settings = WebSettings

    def __init__(
        self,
        settings: WebSettings = WebSettings(),  # noqa: B008 (frozen)
        *,
        resolver: Resolver | None = None,
    ) -> None:
        self._fetch_url = fetch_tool(settings, resolver)

    @hookimpl
    def provide_tools(self, event: ProvideEvent) -> Iterable[Callable[..., Any]]:
        """Offer ``fetch_url``."""
        return [self._fetch_url]
