"""A host from opening to closing, with everything composed in code."""

import asyncio
import contextlib
import threading

import pytest
from places import hanging
from pluggent_hookspecs import ConfigError, PluginLoadError, SessionError, hookimpl, tool
from pluggent_hookspecs.events import ApprovalEvent
from pluggent_hookspecs.observations import PluginStateChanged
from pluggent_host import Host, Limits
from pluggent_host.settings import HostSettings
from pluggent_host.turns.step import Why
from pluggent_testing.fakes import Recorder, ScriptedModel, call
from talking import WAIT_S, assert_whole, hosting, results, shape, talking
from walking import Walk


@tool(effects=("shell",))
def write() -> str:
    """Write."""
    return "written"


class Lives:
    """A plugin with a lifetime; writes down when it opens and closes."""

    def __init__(self, log, name, fails=""):
        self.log = log
        self.name = name
        self.fails = fails

    @hookimpl
    def observe(self, event):
        pass

    @contextlib.asynccontextmanager
    async def open(self, context):
        self.log.append(f"{self.name} opens")
        if self.fails == "open":
            raise ZeroDivisionError("oops")
        yield
        self.log.append(f"{self.name} closes")
        if self.fails == "close":
            raise ZeroDivisionError("oops")


def script():
    return Host.run_sync("hi", model="scripted/m", plugins=[ScriptedModel("hello")], installed=False)


def test_a_script_needs_no_event_loop():
    assert script().text == "hello"


async def test_the_synchronous_way_is_refused_inside_a_loop():
    with pytest.raises(SessionError, match="inside a running event loop"):
        script()


async def test_plugins_open_in_order_and_close_in_reverse():
    log = []
    async with hosting(plugins=[Lives(log, "a"), Lives(log, "b")]):
        assert log == ["a opens", "b opens"]

    assert log == ["a opens", "b opens", "b closes", "a closes"]


async def test_plugins_that_had_opened_are_closed_if_another_one_fails_to():
    log = []
    with pytest.raises(PluginLoadError, match="failed to open: ZeroDivisionError: oops"):
        async with hosting(plugins=[Lives(log, "a"), Lives(log, "b", fails="open")]):
            pass

    assert log == ["a opens", "b opens", "a closes"]


async def test_a_plugin_that_fails_to_close_does_not_keep_the_others_open():
    log = []
    async with hosting(plugins=[Lives(log, "a"), Lives(log, "b", fails="close")]):
        pass

    assert log == ["a opens", "b opens", "b closes", "a closes"]


async def test_an_error_inside_the_host_comes_through_and_closes_everything():
    log = []
    with pytest.raises(KeyError):
        async with hosting(plugins=[Lives(log, "a")]):
            raise KeyError

    assert log[-1] == "a closes"


async def test_a_closed_host_says_so_and_its_sessions_are_closed():
    async with hosting("x") as host:
        session = await host.session()

    with pytest.raises(SessionError, match="the host is closed"):
        await host.session()
    with pytest.raises(SessionError, match="is closed"):
        await session.say("hi")
    with pytest.raises(SessionError, match="the host is closed"):
        host.memory()


async def test_leaving_a_host_ends_the_turns_that_still_run():
    model = ScriptedModel("never", hold=asyncio.Event())
    async with hosting(model=model) as host:
        session = await host.session()
        turn = asyncio.create_task(session.say("go"))
        await asyncio.wait_for(model.asked.wait(), WAIT_S)

    await asyncio.wait((turn,), timeout=0.2)
    ended = turn.done()
    turn.cancel()
    with contextlib.suppress(asyncio.CancelledError, SessionError):
        await turn
    assert ended


async def test_leaving_a_host_ends_the_tools_that_still_run():
    hang, started, left = hanging()

    async with hosting(call("hang"), tools=[hang]) as host:
        session = await host.session()
        turn = asyncio.create_task(session.say("go"))
        await started.wait()

    await asyncio.wait((turn,), timeout=0.2)
    ended = (turn.done(), left)
    turn.cancel()
    with contextlib.suppress(asyncio.CancelledError, SessionError):
        await turn
    assert ended == (True, [1])
    assert_whole(session.history)


async def test_a_host_leaves_no_thread_and_no_task_behind():
    @tool(effects=())
    def work() -> str:
        """Work in a thread."""
        return threading.current_thread().name

    async with talking(call("work"), "x", tools=[work]) as session:
        await session.say("go")
        assert results(session.history)[0].startswith("pluggent-")

    assert asyncio.all_tasks() == {asyncio.current_task()}
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("pluggent-")]


async def test_what_is_given_in_code_wins_over_the_settings():
    model = ScriptedModel("x")
    config = HostSettings(model="nobody/x", system="from settings", limits=Limits(model_calls=0))
    async with talking(model=model, config=config, system="from code", limits=Limits()) as session:
        assert (await session.say("hi")).why is Why.COMPLETED
        assert shape(model.requests[0].messages)[0] == "system from code"


async def test_settings_for_a_plugin_that_is_not_installed_are_an_error():
    with pytest.raises(ConfigError, match="'nobody', which is not installed"):
        async with hosting(settings={"nobody": {}}):
            pass


async def test_a_plugin_that_is_required_and_missing_keeps_the_host_closed():
    with pytest.raises(ConfigError, match="'audit' is required"):
        async with hosting(config=HostSettings(required={"audit": ("observe",)})):
            pass


async def test_objects_of_one_class_are_plugins_of_their_own():
    recorders = Recorder(), Recorder()
    async with hosting(plugins=recorders):
        pass

    assert all(recorder.events for recorder in recorders)
    names = {event.plugin for event in recorders[0].of(PluginStateChanged)}
    assert {"app:recorder", "app:recorder-2"} <= names


@pytest.mark.parametrize("answer", [True, False, None])
@pytest.mark.parametrize("is_async", [True, False])
async def test_an_approver_answers_with_yes_no_or_nothing(answer, is_async):
    asked = []

    def decide(event):
        asked.append(event)
        return answer

    async def decide_later(event):
        return decide(event)

    async with talking(
        call("write"), "x", tools=[write], strict=True, approver=decide_later if is_async else decide
    ) as session:
        result = await session.say("go")

        (event,) = asked
        assert isinstance(event, ApprovalEvent)
        assert (event.operation, event.capability) == ("tool_call", "app:tools:tool/write")
        assert (results(session.history) == ["written"]) == (answer is True)
        assert result.why is (Why.DENIED if answer is None else Why.COMPLETED)
        assert_whole(session.history)


async def test_an_approver_that_answers_something_else_has_not_answered():
    async with talking(call("write"), "x", tools=[write], strict=True, approver=lambda _: "yes") as session:
        assert (await session.say("go")).why is Why.DENIED


async def test_a_host_without_plugins_has_empty_chains():
    async with hosting() as host:
        assert dict(host.chains.by_hook) == {}
        assert len(host.chains.digest) == 64


@pytest.mark.parametrize("seed", range(25))
async def test_a_random_walk_leaves_every_session_whole(tmp_path, seed):
    assert await Walk(seed, tmp_path).go(openings=2, turns=3) == 6

    for thread in threading.enumerate():  # a call that was given up may still be on its way out of its thread
        if thread.name.startswith("pluggent-"):
            await asyncio.to_thread(thread.join, WAIT_S)
