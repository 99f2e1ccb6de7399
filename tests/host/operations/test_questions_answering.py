"""Who answers what tools ask a person for: functions of the application, and programs that the operator lists."""

import pytest
from fake_distributions import importable, install
from pluggent_hookspecs import Accepted, Cancelled, HookFailed
from pluggent_host import Host, HostSettings, SyncHost, Timeouts
from pluggent_host.plugins.discovery import discover
from pluggent_testing.fakes import ScriptedModel, call
from policy_stage import Danger, run, using

CITY = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer", "default": 3}},
    "required": ["city"],
}


def eliciting():
    """Return what a tool does that asks for a city."""
    return lambda context: context.elicit("Where?", CITY, source="weather server")


@pytest.mark.parametrize("is_async", [True, False])
async def test_an_application_answers_with_a_function(is_async):
    def answer(event):
        return Accepted({"city": event.source})

    async def later(event):
        return answer(event)

    user, outcome = using(eliciting())
    model = ScriptedModel(call("user"), "done")
    async with (
        Host.open(
            model="scripted/m", plugins=[model], tools=[user], installed=False, answerer=later if is_async else answer
        ) as host,
        await host.session() as session,
    ):
        await session.say("go")

    assert outcome == [Accepted({"city": "weather server", "days": 3})]


def test_an_application_without_a_loop_may_block_while_it_answers():
    user, outcome = using(eliciting())
    model = ScriptedModel(call("user"), "done")
    with SyncHost.open(
        model="scripted/m",
        plugins=[model],
        tools=[user],
        installed=False,
        answerer=lambda _: Accepted({"city": "Oslo"}),
    ) as host:
        host.session().say("go")

    assert outcome == [Accepted({"city": "Oslo", "days": 3})]


async def test_a_program_that_was_not_listed_is_not_asked_and_one_that_was_has_a_time_limit(tmp_path):
    source = """
import asyncio
from typing import Any
from pluggent_hookspecs import Accepted, hookimpl

class Plugin:
    @hookimpl
    async def answer_question(self, event):
        await asyncio.Event().wait()
"""
    install(tmp_path, "acme-desk", {"hooks/desk": "acme_desk:Plugin"}, modules={"acme_desk": source})
    config = HostSettings(timeouts=Timeouts(approver_s=0.01))
    with importable(tmp_path):
        installed = discover([str(tmp_path)])
        unlisted, on = await run(eliciting(), Danger(), "done", installed=installed, config=config)
        listed = config._replace(grants=config.grants._replace(approvers=("acme-desk",)))
        late, later = await run(eliciting(), Danger(), "done", installed=installed, config=listed)

    assert unlisted == late == [Cancelled("nobody was there to answer")]
    assert on.recorder.of(HookFailed) == []
    assert later.recorder.of(HookFailed)[0].problem == "was too late"
