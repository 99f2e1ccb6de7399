"""The plugin: its one hook."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from pluggent_hookspecs import ProvideEvent, hookimpl

from pluggent_weather.tools import forecast, weather


class Weather:
    """The plugin behind the entry point ``weather``; it has no settings."""

    @hookimpl
    def provide_tools(self, event: ProvideEvent) -> Iterable[Callable[..., Any]]:
        """Offer both tools."""
        return [weather, forecast]
