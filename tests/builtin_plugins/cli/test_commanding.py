"""What the host does for a command of a plugin: tools are listed and called under all policies."""

import asyncio
from contextlib import asynccontextmanager

import attrs
import pytest
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
from talking import WAIT_S, hosting
from tool_sources import Brings, Changing
from transcript_file import FileStanding as Approvals


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
    """A policy that takes down who asks, and denies what it is told to."""

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


@asynccontextmanager
async def lent(*things, **options):
    """Lend a host whose only plugin offers *things*."""
    operations = CommandHost(lambda: hosting(plugins=[Brings(*things)], strict=True, **options))
    try:
        yield operations
    finally:
        await operations.aclose()


async def test_tools_are_listed_as_a_model_would_see_them():
    async with lent(add, reboot) as operations:
        tools = await operations.tools()

        assert [(tool.spec.name, tool.capability, tool.plugin, tool.effects, tool.calls) for tool in tools] == [
            ("add", "app:brings:tool/add", "app:brings", frozenset(), "allow"),
            ("reboot", "app:brings:tool/reboot", "app:brings", frozenset({"shell"}), "ask"),
        ]
        assert tools[0].spec.parameters["required"] == ("a",)


@pytest.mark.parametrize("name", ["add", "app:brings:tool/add"])
async def test_a_tool_is_called_by_its_name_or_its_id_and_policies_see_on_whose_behalf(name):
    seen = Seen()
    async with lent(add, policies=[seen]) as operations:
        output = (await operations.call_tool(name, {"a": 2}, origin="mcp", principal="alice")).output

        assert output.for_model == "3"
    assert seen.calls == [("add", "mcp", "claimed:alice")]


@pytest.mark.parametrize("name", ["ad", "app:brings:tool/ad"])
async def test_a_tool_that_there_is_not_is_an_error(name):
    async with lent(add) as operations:
        with pytest.raises(ConfigError, match=f"there is no tool '{name}'; did you mean"):
            await operations.call_tool(name, {}, origin="mcp")


@pytest.mark.parametrize(
    ("arguments", "says"), [({}, "invalid arguments for 'add'"), ({"a": 1, "b": "x"}, "invalid arguments for 'add'")]
)
async def test_arguments_that_do_not_fit_are_a_result(arguments, says):
    async with lent(add) as operations:
        output = (await operations.call_tool("add", arguments, origin="mcp")).output

        assert output.is_error
        assert says in output.for_model


async def test_a_denial_is_a_result_with_its_reason():
    async with lent(add, policies=[Seen(deny="add")]) as operations:
        output = (await operations.call_tool("add", {"a": 1}, origin="mcp")).output

        assert output == ToolOutput.error("Denied: not today")


async def test_what_needs_approval_is_denied_with_a_text_that_says_how_to_let_it_run():
    async with lent(reboot) as operations:
        output = (await operations.call_tool("reboot", {}, origin="mcp")).output

        assert output.is_error
        assert "needs a person's approval, and nobody was there" in output.for_model
        assert "under [effects], what 'app:brings:tool/reboot' really does" in output.for_model


async def test_a_live_approver_is_asked_on_behalf_of_whoever_calls():
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


@pytest.mark.parametrize(("origin", "name"), [("mcp", "claimed:curl"), ("mcp", "curl"), ("mcp", ""), ("cli", "curl")])
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


@pytest.mark.parametrize(("origin", "name"), [("mcp", "ann"), ("mcp", "claimed:ann"), ("mcp", ""), ("cli", "ann")])
async def test_a_name_that_a_client_claims_uses_no_approval_that_stands(tmp_path, origin, name):
    """Policy 36: not even one that an earlier version gave to the same name."""
    standing = Approvals(tmp_path / "sessions")
    asked = []

    class Asks:
        @hookimpl
        def decide_tool_call(self, event):
            return Ask("sure?")

    def approve(event):
        asked.append(event.scope)
        return False if event.scope.claimed else Approval(agreed=True, reach="always")

    more = {"policies": [Asks()], "approver": approve, "state_dir": tmp_path}
    async with lent(add, **more) as operations:
        for _ in range(2):
            await operations.call_tool("add", {"a": 1}, origin="cli")
        (kept,) = standing.all()
        for principal in ("ann", "claimed:ann"):
            standing.keep(attrs.evolve(kept, principal=principal))
        refused = await operations.call_tool("add", {"a": 1}, origin=origin, principal=name)

    assert refused.output.is_error
    assert [scope.claimed for scope in asked] == [False, True]


async def test_progress_is_told_while_the_call_runs():
    told = []
    async with lent(slow) as operations:
        done = await operations.call_tool("slow", {}, origin="mcp", on_progress=lambda *step: told.append(step))

        assert done.output.for_model == "there"
    assert told == [(1, 2, "half")]


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
        for number in range(MOST_IDLE):
            await operations.call_tool("add", {"a": 1}, origin="mcp", principal=f"client {number}")
        await operations.call_tool("add", {"a": 1}, origin="mcp", principal="client 0")
        assert len(opened.ids) == MOST_IDLE
        await operations.call_tool("add", {"a": 1}, origin="mcp", principal="one more")
        assert len(opened.closed) == 1
        (closed,) = opened.closed
        assert (operations.origin_of(closed), opened.principals[closed]) == ("", "claimed:client 1")

        again = await operations.call_tool("add", {"a": 1}, origin="mcp", principal="client 1")

    assert again.output.for_model == "2"


async def test_cancelling_whoever_waits_cancels_the_call():
    began, ended = asyncio.Event(), asyncio.Event()

    @tool(effects=())
    async def forever() -> None:
        """Never end."""
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async with lent(forever, add) as operations:
        task = asyncio.create_task(operations.call_tool("forever", {}, origin="mcp"))
        await asyncio.wait_for(began.wait(), WAIT_S)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

        assert ended.is_set()
        assert (await operations.call_tool("add", {"a": 1}, origin="mcp")).output.for_model == "2"


async def test_closing_ends_calls_that_still_run():
    began, ended = asyncio.Event(), asyncio.Event()

    @tool(effects=())
    async def forever() -> None:
        """Never end."""
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async with lent(forever) as operations:
        task = asyncio.create_task(operations.call_tool("forever", {}, origin="mcp"))
        await asyncio.wait_for(began.wait(), WAIT_S)

    with pytest.raises(SessionError, match="closed in the middle"):
        await task
    assert ended.is_set()
    with pytest.raises(SessionError, match="the command has ended"):
        await operations.tools()


def test_a_command_runs_in_one_way():
    async def run_with(options, operations):
        return 0

    assert Command("x", "X.", run_with=run_with).run is None
    with pytest.raises(TypeError, match="'x' needs one of run and run_with"):
        Command("x", "X.")
    with pytest.raises(TypeError, match="'x' needs one of run and run_with"):
        Command("x", "X.", lambda _: 0, run_with=run_with)


async def test_a_host_says_which_tools_a_session_would_offer():
    async with hosting(tools=[add], plugins=[Brings(reboot)]) as host:
        assert [tool.name for tool in await host.tools()] == ["add", "reboot"]
        assert [tool.capability for tool in await host.tools(slow)] == ["app:brings:tool/reboot", "app:tools:tool/slow"]


def test_a_host_without_a_loop_says_so_too():
    with SyncHost.open(installed=False, tools=[add], plugins=[ScriptedModel()], model="scripted/m") as host:
        assert [tool.name for tool in host.tools()] == ["add"]


async def test_a_host_that_nobody_needs_is_not_opened():
    def never():
        raise AssertionError("opened")

    operations = CommandHost(never)

    assert await operations.aclose() is None


async def test_a_tool_that_came_later_can_be_called_as_soon_as_it_is_listed():
    source = Changing("old")
    async with lent(source) as operations:
        assert (await operations.call_tool("old", {}, origin="mcp")).output.for_model == "old is fine"
        source.now("new")
        assert [tool.spec.name for tool in await operations.tools()] == ["new"]

        assert (await operations.call_tool("new", {}, origin="mcp")).output.for_model == "new is fine"
        with pytest.raises(ConfigError, match="there is no tool 'old'"):
            await operations.call_tool("old", {}, origin="mcp")
