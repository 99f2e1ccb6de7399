"""What programs do with the sync host that nobody planned: late readers, forks, blocked approvers."""

import os
import threading
from typing import Any

import pytest
from pluggent_hookspecs import Ask, Usage, hookimpl, tool
from pluggent_hookspecs.errors import SessionError
from pluggent_host import Host, SyncHost
from pluggent_testing.fakes import ScriptedModel, call
from talking import WAIT_S


@tool(effects=())
def add(a: int, b: int) -> int:
    """Add."""
    return a + b


def synchronous(*replies: Any, **options: Any) -> SyncHost:
    plugins = [ScriptedModel(*replies), *options.pop("plugins", ())]
    return SyncHost.open(model="scripted/m", plugins=plugins, installed=False, **options)


def test_a_stream_can_be_iterated_again_at_its_end():
    with synchronous("hello") as host, host.session().stream("x") as events:
        assert list(events)
        assert list(events) == []


def test_a_stream_that_was_left_says_so():
    with synchronous("a b c " * 5000) as host, host.session().stream("x") as events:
        next(iter(events))
        events.__exit__(None, None, None)
        with pytest.raises(SessionError, match="the turn was ended before its end"):
            list(events)


def test_a_blocked_approver_does_not_keep_the_host_from_closing():
    class Asks:
        @hookimpl
        def decide_tool_call(self, event: Any) -> Ask:
            return Ask("?")

    asked, never = threading.Event(), threading.Event()

    def approve(event: Any) -> bool:
        asked.set()
        never.wait(WAIT_S)
        return True

    host = synchronous(call("add", a=1, b=1), tools=[add], plugins=[Asks()], approver=approve)
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
def test_a_fork_is_told_and_does_not_hang():
    with synchronous() as host:
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


async def test_usage_of_a_turn_is_a_sum():
    assert Usage(input=1, cache_write=2) + Usage(input_audio=3) == Usage(input=1, cache_write=2, input_audio=3)
    async with Host.open(installed=False, plugins=[ScriptedModel()], model="scripted/m") as host:
        assert (await (await host.session()).say("x")).usage.total == 15
