"""The host for programs without an event loop: from one thread, from many, late readers, forks, blocked approvers."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from pluggent_hookspecs import Ask, MemoryItem, MemoryQuery, TextShown, ToolStarted, hookimpl, tool
from pluggent_hookspecs.errors import ConfigError, ProviderError, ProviderErrorKind, SessionError
from pluggent_host import SyncHost, SyncSession, Why
from pluggent_testing.fakes import ScriptedModel, call
from saved import add
from talking import WAIT_S


class Asks:
    @hookimpl
    def decide_tool_call(self, event: Any) -> Ask:
        return Ask("?")


def opened(*replies: Any, **options: Any) -> Any:
    plugins = [ScriptedModel(*replies), *options.pop("plugins", ())]
    return SyncHost.open(model="scripted/m", plugins=plugins, installed=False, **options)


def test_a_conversation_over_several_turns_needs_no_loop():
    with opened(call("add", a=1, b=2), "three", "bye", tools=[add]) as host, host.session("s") as session:
        first = session.say("1 + 2?")
        second = session.say("bye")

        assert (first.text, second.text) == ("three", "bye")
        assert (session.id, session.model) == ("s", "scripted/m")
        assert len(session.history) == 6
        assert [offered.name for offered in session.tools] == ["add"]
        assert session.usage.input == 30
        assert len(session.records()) > 6
        assert session.call_tool("add", {"a": 1, "b": 3}).for_model == "4"


def test_a_turn_can_be_streamed():
    with opened(call("add", a=1, b=2), "it is three", tools=[add]) as host:
        session = host.session()
        with session.stream("1 + 2?") as events:
            seen = list(events)
            assert list(events) == []

        assert [type(event) for event in seen if isinstance(event, ToolStarted)] == [ToolStarted]
        assert "".join(event.text for event in seen if isinstance(event, TextShown)) == "it is three"
        assert events.result.text == "it is three"


def test_leaving_a_stream_early_cancels_the_turn_and_keeps_the_session():
    with opened("a b c " * 5000, "next") as host:
        session = host.session()
        with session.stream("go") as events:
            next(event for event in events if isinstance(event, TextShown))

        with pytest.raises(SessionError, match="no result yet"):
            _ = events.result
        with pytest.raises(SessionError, match="the turn was ended before its end"):
            list(events)
        assert session.say("again").text == "next"


def test_many_threads_may_ask_at_once():
    def talk(number: int) -> str:
        with host.session() as session:
            return session.say(f"number {number}").text

    echo = ScriptedModel(*[lambda request: request.messages[-1].text] * 32)
    with SyncHost.open(model="scripted/m", plugins=[echo], installed=False) as host, ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(talk, range(32)))

    assert sorted(answers) == sorted(f"number {number}" for number in range(32))


def test_errors_arrive_as_they_are():
    with opened(ProviderError(ProviderErrorKind.TIMEOUT, "too late")) as host:
        session = host.session()
        with pytest.raises(ProviderError, match="too late"):
            session.say("x")
        with pytest.raises(ConfigError, match="there is no provider"):
            host.session(model="unknown/m")
        assert session.say("x").why is Why.COMPLETED
    with pytest.raises(ConfigError), SyncHost.open(installed=False, settings={"nope": {}}):
        pass


def test_a_host_that_is_closed_says_so():
    with opened() as host:
        session = host.session()
    for use in (lambda: session.say("x"), host.session, session.records, lambda: session.stream("x").__enter__()):
        with pytest.raises(SessionError, match=r"the host is closed; open another one with SyncHost\.open"):
            use()
    session.close()


def test_closing_the_host_ends_a_turn_in_another_thread():
    model = ScriptedModel(hold=asyncio.Event())
    with ThreadPoolExecutor(1) as pool:
        with SyncHost.open(model="scripted/m", plugins=[model], installed=False) as host:
            running = pool.submit(host.session().say, "x")
            while not model.requests:
                host.session().close()
        with pytest.raises(SessionError, match="closed in the middle"):
            running.result(WAIT_S)


async def test_inside_an_event_loop_it_is_refused_and_not_deadlocked():
    with pytest.raises(SessionError, match=r"use `Host\.open"), SyncHost.open(installed=False):
        pass


def test_an_async_tool_that_calls_it_is_refused_and_a_blocking_one_is_not():
    sessions: list[SyncSession] = []

    @tool(effects=())
    async def wrong() -> str:
        """Ask from the loop."""
        return sessions[0].say("inner").text

    @tool(effects=())
    def right() -> str:
        """Ask from a thread of the pool."""
        return sessions[0].say("inner").text

    with opened(call("wrong"), "one", call("right"), "inner answer", "two", tools=[wrong, right]) as host:
        sessions.append(host.session())
        outer = host.session()
        outer.say("go")
        assert "this thread runs an event loop" in outer.history[2].text
        outer.say("go")
        assert outer.history[6].text == "inner answer"


def test_an_approver_may_block_while_other_turns_run():
    seen: list[bool] = []

    def approve(event: Any) -> bool:
        with host.session() as other:
            seen.append(other.say("meanwhile").text == "meanwhile")
        return True

    model = ScriptedModel(call("add", a=1, b=2), lambda request: request.messages[-1].text, "three")
    with SyncHost.open(
        model="scripted/m", plugins=[model, Asks()], installed=False, tools=[add], approver=approve
    ) as host:
        assert host.session().say("go").text == "three"
    assert seen == [True]


def test_memory_and_plans_are_there_too():
    with SyncHost.open() as host:
        memory = host.memory()
        memory.save([MemoryItem("n", "k", "the tea is green")])

        found = memory.get("n", "k")
        assert found is not None
        assert found.text == "the tea is green"
        assert [hit.item.key for hit in memory.search("n", "tea")] == ["k"]
        assert [item.key for item in memory.list(MemoryQuery("n")).items] == ["k"]
        assert memory.delete("n", "k") is True
        assert len(host.parse_plan('["buy tea", "drink it"]', "tea").steps) == 2
        assert any(record.id == "pluggent-offline" for record, _, _ in host.plugins)


def test_ctrl_c_cancels_the_turn_and_keeps_the_session():
    begun = threading.Event()

    @tool(effects=())
    async def wait() -> None:
        """Wait for ever."""
        begun.set()
        await asyncio.Event().wait()

    def interrupt() -> None:
        begun.wait(WAIT_S)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    with opened(call("wait"), "second", tools=[wait]) as host:
        session = host.session()
        helper = threading.Thread(target=interrupt)
        helper.start()
        with pytest.raises(KeyboardInterrupt):
            session.say("x")
        helper.join()

        assert session.say("y").text == "second"
        assert [message.role for message in session.history] == ["user", "assistant", "tool", "user", "assistant"]


@pytest.mark.parametrize("when", ["at once", "when it has begun"])
def test_ctrl_c_before_a_call_is_waited_for_cancels_it(monkeypatch, when):
    begun = threading.Event()

    @tool(effects=())
    async def wait() -> None:
        """Wait for ever."""
        begun.set()
        await asyncio.Event().wait()

    started = asyncio.run_coroutine_threadsafe

    def interrupted(coroutine: Any, loop: Any) -> Any:
        monkeypatch.undo()
        started(coroutine, loop)
        if when == "when it has begun":
            assert begun.wait(WAIT_S)
        raise KeyboardInterrupt

    # "At once" the turn may have ended already: this thread does not hold the other one up.
    replies = [call("wait"), "second"] if when == "when it has begun" else ["second", "second"]
    with opened(*replies, tools=[wait]) as host:
        session = host.session()
        monkeypatch.setattr(asyncio, "run_coroutine_threadsafe", interrupted)
        with pytest.raises(KeyboardInterrupt):
            session.say("x")

        assert session.say("y").text == "second"


def test_a_program_that_forgets_to_close_still_ends():
    program = (
        "from pluggent_host import SyncHost\n"
        "from pluggent_hookspecs import SessionClosed, hookimpl\n"
        "class Observer:\n"
        "    @hookimpl\n"
        "    def observe(self, event):\n"
        "        print(type(event).__name__) if isinstance(event, SessionClosed) else None\n"
        "host = SyncHost.open(plugins=[Observer()])\n"
        "print(host.session().say('hello').why)\n"
    )
    ended = subprocess.run(  # noqa: S603 (the program above)
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )

    assert (ended.returncode, ended.stdout.strip()) == (0, "completed\nSessionClosed")
    assert ended.stderr == ""


def test_a_blocked_approver_does_not_keep_the_host_from_closing():
    asked, never = threading.Event(), threading.Event()

    def approve(event: Any) -> bool:
        asked.set()
        never.wait(WAIT_S)
        return True

    host = opened(call("add", a=1, b=1), tools=[add], plugins=[Asks()], approver=approve)
    session = host.session()
    errors: list[str] = []

    def talk() -> None:
        try:
            session.say("go")
        except SessionError as error:
            errors.append(str(error))

    talker = threading.Thread(target=talk)
    talker.start()
    assert asked.wait(WAIT_S)
    host.close()
    talker.join(WAIT_S)

    assert len(errors) == 1
    assert not never.is_set()
    never.set()
    for thread in threading.enumerate():
        if thread.name.startswith("pluggent-"):
            thread.join(WAIT_S)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_fork_is_refused_and_does_not_hang():
    with opened() as host:
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:  # pragma: no cover (another process)
            try:
                host.session()
            except SessionError as error:
                os.write(writer, str(error).encode())
            finally:
                host.close()
                os._exit(0)
        os.close(writer)
        with os.fdopen(reader, "rb") as answer:
            assert b"opened before a fork" in answer.read()
        assert os.waitpid(child, 0)[1] == 0
