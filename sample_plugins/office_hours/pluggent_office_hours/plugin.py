"""The plugin: one policy, which asks the clock and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import assert_never

from pluggent_hookspecs import Ask, Decision, Deny, ToolCallEvent, hookimpl

from pluggent_office_hours.hours import DAYS
from pluggent_office_hours.settings import OfficeHoursSettings, Outside


class OfficeHours:
    """The plugin behind the entry point ``office-hours``: outside of them, calls are denied or asked about.

    ``clock`` returns the time, with its zone; an application or a test may bring its own.
    """

    Settings = OfficeHoursSettings

    def __init__(
        self,
        settings: OfficeHoursSettings = OfficeHoursSettings(),  # noqa: B008 (frozen)
        *,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._settings = settings
        self._clock = clock

    @hookimpl
    def decide_tool_call(self, event: ToolCallEvent) -> Decision | None:
        """Deny, or ask about, a call that keeps hours and comes outside of them."""
        if not self._settings.concern(event.effects):
            return None
        now = self._clock().astimezone(self._settings.zone)
        return None if self._settings.hours.include(now) else self._outside(event.capability, now)

    def _outside(self, capability: str, now: datetime) -> Decision:
        rule = f"{capability} runs within office hours only: {self._settings.shown}"
        match self._settings.outside:
            case Outside.DENY:
                clock = f"{DAYS[now.weekday()]} {now:%H:%M}"
                return Deny(f"{rule}. It is {clock} there: do not try again, tell the person", tell_user=rule)
            case Outside.ASK:
                # Without the time of day: an approval covers the question as it was asked.
                return Ask(f"{rule}. May it be called outside of them?", tell_model=f"{rule}; a person is asked first")
            case _:
                assert_never(self._settings.outside)
