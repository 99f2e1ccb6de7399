"""What the host does for a command of a plugin: tools are listed and called under all policies."""

import asyncio
from contextlib import asynccontextmanager

import attrs
import pytest
from each_of import each_of
from pluggent_cli.command_host import MOST_IDLE, CommandHost
from pluggent_hookspecs import (
    Approval,
    Ask,
    Command,
    ConfigError,
    Deny,
    SessionClosed,
    SessionError,
    SessionOpened,
    ToolContext,
    ToolOutput,
    hookimpl,
    tool,
)
from pluggent_host import SyncHost
from pluggent_testing.fakes import ScriptedModel
from saved import FileStanding as Approvals
from talking import WAIT_S, hosting
from tool_sources import Brings, Changing


@tool(effects=())
def add(a: int, b: int = 1) -> int:
    """Add two numbers."""
    return a + b


@tool(effects=("shell",))
def reboot() -> str:
    """Reboot."""
    return "rebooted"


@tool(effects=())
async def slow(context: ToolContext) -> str:
    """Tell how far it is."""
    context.progress(1, 2, "half")
    await asyncio.sleep(0)
    return "there"


class Seen:
    """A policy that takes down who asks, and denies the tool it is told to."""

    def __init__(self, deny=""):
        self.calls = []
        self.deny = deny

    @hookimpl
    def decide_tool_call(self, event):
        self.calls.append((event.tool.name, event.scope.origin, event.scope.principal))
        return Deny("not today") if event.tool.name == self.deny else None


class Sessions:
    """An observer that takes down which sessions are opened and closed, and for whom."""

    def __init__(self):
        self.ids, self.closed, self.principals = set(), set(), {}

    @hookimpl(events=(SessionOpened, SessionClosed))
    def observe(self, event):
        (self.ids if isinstance(event, SessionOpened) else self.closed).add(event.scope.session_id)
        self.principals[event.scope.session_id] = event.scope.principal


class Endless:
    """Brings a tool that never ends, and knows when it has begun and was ended."""

    def __init__(self):
        self.began, self.ended = asyncio.Event(), asyncio.Event()

        @tool(effects=())
        async def forever() -> None:
            """Never end."""
            self.began.set()
            try:
                await asyncio.Event().wait()
            finally:
                self.ended.set()

        self.tool = forever

    async def called(self, operations):
        """Return the task of a call that has begun."""
        task = asyncio.create_task(operations.call_tool("forever", {}, origin="mcp"))
        await asyncio.wait_for(self.began.wait(), WAIT_S)
        return task


@asynccontextmanager
async def lent(*things, **options):
    """Lend a host whose only plugin offers *things*."""
    operations = CommandHost(lambda: hosting(plugins=[Brings(*things)], strict=True, **options))
    try:
        yield operations
    finally:
        await operations.aclose()


async def result(name, arguments, *things, **options):
    """Return what a call of a tool of *things* on behalf of an MCP client comes to."""
    async with lent(*things, **options) as operations:
        return (await operations.call_tool(name, arguments, origin="mcp")).output


async def test_tools_are_listed_as_a_model_would_see_them():
    async with lent(add, reboot) as operations:
        tools = await operations.tools()

    assert [(tool.spec.name, tool.capability, tool.plugin, tool.effects, tool.calls) for tool in tools] == [
        ("add", "app:brings:tool/add", "app:brings", frozenset(), "allow"),
        ("reboot", "app:brings:tool/reboot", "app:brings", frozenset({"shell"}), "ask"),
    ]
    assert tools[0].spec.parameters["required"] == ("a",)


@each_of("name", ["add", "app:brings:tool/add"])
async def test_a_tool_is_called_by_its_name_or_its_id_and_policies_see_on_whose_behalf(name):
    seen = Seen()
    async with lent(add, policies=[seen]) as operations:
        done = await operations.call_tool(name, {"a": 2}, origin="mcp", principal="alice")

    assert (done.output.for_model, seen.calls) == ("3", [("add", "mcp", "claimed:alice")])


@each_of("name", ["ad", "app:brings:tool/ad"])
async def test_a_tool_that_is_not_there_is_an_error(name):
    with pytest.raises(ConfigError, match=f"there is no tool '{name}'; did you mean"):
        await result(name, {}, add)


@each_of("arguments", [{}, {"a": 1, "b": "x"}])
async def test_arguments_that_do_not_fit_are_a_result(arguments):
    output = await result("add", arguments, add)

    assert (output.is_error, "invalid arguments for 'add'" in output.for_model) == (True, True)


async def test_a_denial_is_a_result_with_its_reason():
    assert await result("add", {"a": 1}, add, policies=[Seen(deny="add")]) == ToolOutput.error("Denied: not today")


async def test_what_needs_approval_is_denied_with_a_text_that_says_how_to_let_it_run():
    output = await result("reboot", {}, reboot)

    assert output.is_error
    assert "needs a person's approval, and no approver answered" in output.for_model
    assert "under [effects], what 'app:brings:tool/reboot' really does" in output.for_model


async def test_a_live_approver_is_asked_on_behalf_of_the_caller():
    asked = []

    def approve(event):
        asked.append((event.capability, event.scope.origin, event.scope.principal))
        return event.scope.origin == "cli"

    async with lent(reboot, approver=approve) as operations:
        agreed = await operations.call_tool("reboot", {}, origin="cli")
        refused = await operations.call_tool("reboot", {}, origin="mcp", principal="bob")

    assert (agreed.output.for_model, refused.output.is_error) == ("rebooted", True)
    assert "[effects]" not in refused.output.for_model
    assert asked == [("app:brings:tool/reboot", "cli", ""), ("app:brings:tool/reboot", "mcp", "claimed:bob")]


CLAIMED = pytest.mark.parametrize(
    ("origin", "name"), [("mcp", "claimed:ann"), ("mcp", "ann"), ("mcp", ""), ("cli", "ann")]
)


@CLAIMED
async def test_a_name_that_a_client_claims_is_given_no_approval_beyond_the_call(tmp_path, origin, name):
    """Policy 36."""
    asked = []

    def approve(event):
        asked.append((event.reach, event.scope.claimed))
        return Approval(agreed=True, reach="always")

    async with lent(reboot, approver=approve, state_dir=tmp_path) as operations:
        for _ in range(2):
            await operations.call_tool("reboot", {}, origin=origin, principal=name)

    assert asked == [("once", True)] * 2
    assert Approvals(tmp_path / "sessions").all() == ()


@CLAIMED
async def test_a_name_that_a_client_claims_uses_no_approval_that_stands(tmp_path, origin, name):
    """Policy 36: not even one that an earlier version gave to the same name."""
    standing = Approvals(tmp_path / "sessions")
    asked = []

    class Asks:
        @hookimpl
        def decide_tool_call(self, event):
            return Ask("sure?")

    def approve(event):
        asked.append(event.scope.claimed)
        return False if event.scope.claimed else Approval(agreed=True, reach="always")

    async with lent(add, policies=[Asks()], approver=approve, state_dir=tmp_path) as operations:
        for _ in range(2):
            await operations.call_tool("add", {"a": 1}, origin="cli")
        (kept,) = standing.all()
        for principal in ("ann", "claimed:ann"):
            standing.keep(attrs.evolve(kept, principal=principal))
        refused = await operations.call_tool("add", {"a": 1}, origin=origin, principal=name)

    assert (refused.output.is_error, asked) == (True, [False, True])


async def test_progress_is_emitted_while_the_call_runs():
    steps = []
    async with lent(slow) as operations:
        done = await operations.call_tool("slow", {}, origin="mcp", on_progress=lambda *step: steps.append(step))

    assert (done.output.for_model, steps) == ("there", [(1, 2, "half")])


async def test_several_calls_run_side_by_side_and_sessions_are_used_again():
    barrier = asyncio.Barrier(2)

    @tool(effects=())
    async def meet() -> str:
        """Wait for the other one."""
        await barrier.wait()
        return "met"

    opened = Sessions()
    async with lent(meet, policies=[opened]) as operations:
        for _ in range(3):
            both = asyncio.gather(*(operations.call_tool("meet", {}, origin="mcp") for _ in range(2)))
            assert [done.output.for_model for done in await asyncio.wait_for(both, WAIT_S)] == ["met", "met"]

    assert len(opened.ids) == 2


async def test_few_sessions_are_kept_and_the_one_unused_for_longest_is_closed():
    opened = Sessions()
    async with lent(add, policies=[opened]) as operations:
        for name in [*(f"client {number}" for number in range(MOST_IDLE)), "client 0"]:
            await operations.call_tool("add", {"a": 1}, origin="mcp", principal=name)
        assert len(opened.ids) == MOST_IDLE
        await operations.call_tool("add", {"a": 1}, origin="mcp", principal="one more")
        (closed,) = opened.closed
        assert (operations.origin_of(closed), opened.principals[closed]) == ("", "claimed:client 1")

        again = await operations.call_tool("add", {"a": 1}, origin="mcp", principal="client 1")

    assert again.output.for_model == "2"


async def test_cancelling_the_caller_cancels_the_call():
    endless = Endless()
    async with lent(endless.tool, add) as operations:
        task = await endless.called(operations)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

        assert endless.ended.is_set()
        assert (await operations.call_tool("add", {"a": 1}, origin="mcp")).output.for_model == "2"


async def test_closing_ends_calls_that_still_run():
    endless = Endless()
    async with lent(endless.tool) as operations:
        task = await endless.called(operations)

    with pytest.raises(SessionError, match="closed in the middle"):
        await task
    assert endless.ended.is_set()
    with pytest.raises(SessionError, match="the command has ended"):
        await operations.tools()


def test_a_command_runs_in_one_way():
    async def run_with(options, operations):
        return 0

    assert Command("x", "X.", run_with=run_with).run is None
    for wrong in ({}, {"run": lambda _: 0, "run_with": run_with}):
        with pytest.raises(TypeError, match="'x' needs one of run and run_with"):
            Command("x", "X.", **wrong)


async def test_a_host_says_which_tools_a_session_would_offer():
    async with hosting(tools=[add], plugins=[Brings(reboot)]) as host:
        assert [tool.name for tool in await host.tools()] == ["add", "reboot"]
        assert [tool.capability for tool in await host.tools(slow)] == ["app:brings:tool/reboot", "app:tools:tool/slow"]


def test_a_host_without_a_loop_says_so_too():
    with SyncHost.open(installed=False, tools=[add], plugins=[ScriptedModel()], model="scripted/m") as host:
        assert [tool.name for tool in host.tools()] == ["add"]


async def test_a_host_that_is_not_needed_is_not_opened():
    def never():
        raise AssertionError("opened")

    assert await CommandHost(never).aclose() is None


async def test_a_tool_that_came_later_can_be_called_as_soon_as_it_is_listed():
    source = Changing("old")
    async with lent(source) as operations:
        assert (await operations.call_tool("old", {}, origin="mcp")).output.for_model == "old is fine"
        waiting = asyncio.create_task(operations.changed())
        source.now("new")
        await asyncio.wait_for(waiting, WAIT_S)
        assert [tool.spec.name for tool in await operations.tools()] == ["new"]

        assert (await operations.call_tool("new", {}, origin="mcp")).output.for_model == "new is fine"
        with pytest.raises(ConfigError, match="there is no tool 'old'"):
            await operations.call_tool("old", {}, origin="mcp")
        waiting = asyncio.create_task(operations.changed())
        await asyncio.sleep(0)
        assert not waiting.done()
        waiting.cancel()
