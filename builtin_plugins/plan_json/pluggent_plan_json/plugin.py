"""The plugin: its one hook."""

from __future__ import annotations

from collections.abc import Iterable

from pluggent_hookspecs import PlanParser, ProvideEvent, hookimpl

from pluggent_plan_json.parser import JsonPlanParser


class PlanJson:
    """The plugin behind the entry point ``json``; it has no settings."""

    @hookimpl
    def provide_parsers(self, event: ProvideEvent) -> Iterable[PlanParser]:
        """Offer the parser ``json``."""
        return [JsonPlanParser()]
