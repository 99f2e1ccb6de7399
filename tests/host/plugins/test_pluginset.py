"""Lifetimes of plugins: opened in order, left in reverse, and what becomes of those that fail."""

import asyncio
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from each_of import shown
from fake_distributions import Living
from pluggent_hookspecs import ConfigError, PluginContext, PluginLoadError, TurnStarted, hookimpl
from pluggent_host.settings import HostSettings, Timeouts
from policy_stage import in_order, stage

SHORT = HostSettings(timeouts=Timeouts(open_s=0.05, close_s=0.05))


# ---- order


async def test_lifetimes_are_entered_in_order_of_id_and_left_in_reverse() -> None:
    diary: list[str] = []
    first, second, third = in_order(*(Living(name, diary) for name in "abc"))

    async with stage(plugins=[third, first, second]):
        diary.append("open host")

    assert diary == ["open a", "open b", "open c", "open host", "leave c", "leave b", "leave a"]


async def test_a_plugin_is_told_who_it_is() -> None:
    seen: list[PluginContext] = []

    class Curious(Living):
        def open(self, context):
            seen.append(context)
            return super().open(context)

    async with stage(plugins=[Curious("a", [])]):
        pass

    assert seen[0].plugin == "app:curious"
    assert seen[0].host_version


async def test_lifetimes_are_left_when_the_body_of_the_host_fails() -> None:
    diary: list[str] = []

    with pytest.raises(ValueError, match="mine"):
        async with stage(plugins=[Living("a", diary)]):
            raise ValueError("mine")

    assert diary == ["open a", "leave a"]


async def test_lifetimes_are_left_when_the_host_is_cancelled() -> None:
    diary: list[str] = []
    opened = asyncio.Event()

    async def main() -> None:
        async with stage(plugins=[Living("a", diary)]):
            opened.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(main())
    await opened.wait()
    task.cancel()
    await asyncio.wait((task,))

    assert task.cancelled()
    assert diary == ["open a", "leave a"]


async def test_an_observer_is_open_as_long_as_it_is_told_something() -> None:
    diary: list[str] = []

    class Observer(Living):
        @hookimpl
        async def observe(self, event):
            await asyncio.sleep(0)
            if isinstance(event, TurnStarted):
                diary.append("told")

    async with stage("hello", plugins=[Observer("a", diary)]) as on:
        await on.session.say("go")

    assert diary == ["open a", "told", "leave a"]


# ---- opening that fails


class FailsToOpen(Living):
    error: BaseException = ValueError("no connection")

    @asynccontextmanager
    async def open(self, context: PluginContext) -> AsyncIterator[None]:
        raise self.error
        yield


@pytest.mark.parametrize(
    "error", [ValueError("no connection"), ConfigError("acme", ["wrong"]), asyncio.CancelledError()], ids=shown
)
async def test_a_hook_plugin_that_fails_to_open_refuses_to_open_the_host(error: BaseException) -> None:
    diary: list[str] = []
    failing = FailsToOpen("b", diary)
    failing.error = error

    with pytest.raises((PluginLoadError, ConfigError)):
        async with stage(plugins=in_order(Living("a", diary), failing, Living("c", diary))):
            diary.append("host")

    assert diary == ["open a", "leave a"]


EXITS = """
import asyncio, sys
from contextlib import asynccontextmanager
from pluggent_host import Host
from pluggent_hookspecs import PluggentError, hookimpl

class Exits:
    @asynccontextmanager
    async def open(self, context):
        if sys.argv[1] == "open":
            raise SystemExit(3)
        yield
        raise SystemExit(3)

    @hookimpl
    def decide_input(self, event):
        return None

async def main():
    try:
        async with Host.open(plugins=[Exits()], installed=False):
            print("opened")
    except PluggentError as error:
        print("refused", error.plugin)

asyncio.run(main())
print("over")
"""


@pytest.mark.parametrize(("when", "says"), [("open", "refused app:exits"), ("close", "opened")])
def test_a_plugin_that_exits_while_it_is_opened_or_left_does_not_end_the_program(when: str, says: str) -> None:
    # In a process of its own: a SystemExit of a task would end the loop of this one.
    done = subprocess.run(  # noqa: S603 (this interpreter)
        [sys.executable, "-c", EXITS, when], capture_output=True, text=True, timeout=20, check=False
    )

    assert done.stdout.splitlines() == [says, "over"], done.stderr


async def test_the_error_names_the_plugin_and_its_cause() -> None:
    with pytest.raises(PluginLoadError, match="app:failstoopen") as caught:
        async with stage(plugins=[FailsToOpen("a", [])]):
            pass

    assert "no connection" in str(caught.value)


class NeverOpens(Living):
    @asynccontextmanager
    async def open(self, context: PluginContext) -> AsyncIterator[None]:
        await asyncio.Event().wait()
        yield


class SwallowsWhileOpening(Living):
    @asynccontextmanager
    async def open(self, context: PluginContext) -> AsyncIterator[None]:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await asyncio.sleep(0.2)
        yield  # too late: it was given up


@pytest.mark.parametrize("plugin", [NeverOpens, SwallowsWhileOpening])
async def test_opening_has_a_deadline_that_nobody_passes(plugin: type[Living]) -> None:
    diary: list[str] = []
    started = time.perf_counter()

    async with asyncio.timeout(2):
        with pytest.raises(PluginLoadError, match=plugin.__name__.lower()):
            async with stage(plugins=in_order(Living("a", diary), plugin("b", diary)), config=SHORT):
                diary.append("host")

    assert time.perf_counter() - started < 1
    assert diary == ["open a", "leave a"]


async def test_open_that_is_no_context_manager_is_a_load_error() -> None:
    class Odd:
        def open(self, context):
            return "opened"

        @hookimpl
        def decide_input(self, event):
            return None

    with pytest.raises(PluginLoadError, match="app:odd"):
        async with stage(plugins=[Odd()]):
            pass


# ---- closing that fails


class FailsToClose(Living):
    error: BaseException = ValueError("it is gone")

    @asynccontextmanager
    async def open(self, context: PluginContext) -> AsyncIterator[None]:
        self.diary.append(f"open {self.name}")
        yield
        raise self.error


@pytest.mark.parametrize("error", [ValueError("it is gone"), asyncio.CancelledError()], ids=shown)
async def test_a_close_that_fails_does_not_stop_the_others(
    error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    diary: list[str] = []
    failing = FailsToClose("b", diary)
    failing.error = error

    async with stage(plugins=in_order(Living("a", diary), failing, Living("c", diary))):
        pass

    assert diary == ["open a", "open b", "open c", "leave c", "leave a"]
    assert "b_failstoclose" in caplog.text


class NeverCloses(Living):
    @asynccontextmanager
    async def open(self, context: PluginContext) -> AsyncIterator[None]:
        yield
        await asyncio.Event().wait()


class SwallowsWhileClosing(Living):
    @asynccontextmanager
    async def open(self, context: PluginContext) -> AsyncIterator[None]:
        yield
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await asyncio.sleep(0.2)


@pytest.mark.parametrize("plugin", [NeverCloses, SwallowsWhileClosing])
async def test_a_plugin_that_swallows_cancellation_cannot_hold_the_close(plugin: type[Living]) -> None:
    diary: list[str] = []
    started = time.perf_counter()

    async with asyncio.timeout(2):
        async with stage(plugins=in_order(Living("a", diary), plugin("b", diary)), config=SHORT):
            pass

    assert time.perf_counter() - started < 1
    assert diary == ["open a", "leave a"]


async def test_a_closed_host_hands_out_nothing() -> None:
    async with stage() as on:
        pass

    with pytest.raises(Exception, match="closed"):
        await on.host.session()
