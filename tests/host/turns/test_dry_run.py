"""A dry run decides and records everything, and executes nothing that has effects."""

from typing import Any

import pytest
from fake_plugins import plugin
from pluggent_hookspecs import Allow, Ask, Deny, MemoryItem, ToolContext, ToolFinished, tool
from pluggent_host import Why
from pluggent_testing.fakes import Recorder, call
from pluggent_transcript.entries import Decided, Dispatched, TurnBegan
from policy_stage import Store
from talking import hosting, results, said, shape, talking

WRITE, FETCH = call("write", path="a"), call("fetch", url="u")


class Tools:
    """Tools of all kinds of effects; ``ran`` says which did."""

    def __init__(self) -> None:
        self.ran: list[str] = []

        @tool
        def write(path: str) -> str:
            """Write."""
            self.ran.append("write")
            return path

        @tool(effects=("network_read",))
        def fetch(url: str) -> str:
            """Fetch."""
            self.ran.append("fetch")
            return url

        @tool(effects=())
        def add(a: int, b: int) -> int:
            """Add."""
            self.ran.append("add")
            return a + b

        def undeclared() -> None:
            """Do something."""
            self.ran.append("undeclared")

        self.all: list[Any] = [write, fetch, add, undeclared]


@pytest.fixture
def tools() -> Tools:
    return Tools()


async def test_only_what_is_declared_pure_runs(tools: Tools):
    calls = (WRITE, FETCH, call("add", a=1, b=2), call("undeclared"))
    result, session = await said(calls, tools=tools.all, dry_run=True)

    assert (result.why, tools.ran) == (Why.COMPLETED, ["add"])
    texts = results(session.history)
    assert texts[0].startswith("Dry run: 'write' has effects and was not run.")
    assert texts[2] == "3"
    assert texts[3].startswith("Dry run: 'undeclared'")


async def test_policies_decide_and_the_decisions_are_recorded(tools: Tools):
    seen: list[bool] = []

    def decide(event: Any) -> Deny | Allow:
        seen.append(event.scope.dry_run)
        return Deny("never") if event.tool.name == "write" else Allow()

    recorder, policy = Recorder(), plugin(decide_tool_call=decide)
    _, session = await said((WRITE, FETCH), tools=tools.all, plugins=[policy, recorder], dry_run=True)

    assert seen == [True, True]
    records = session.records()
    assert [entry.decision.verdict for entry in records if isinstance(entry, Decided)].count("deny") == 1
    assert [entry.dry_run for entry in records if isinstance(entry, TurnBegan)] == [True]
    assert [event.ran for event in recorder.of(ToolFinished)] == [False, False]


async def test_a_dry_run_asks_no_person_and_continues(tools: Tools):
    def approve(event: Any) -> bool:
        raise AssertionError("a dry run asks no person")

    asks = plugin(decide_tool_call=Ask("it is Friday"))
    result, session = await said(call("add", a=1, b=2), tools=tools.all, plugins=[asks], approver=approve, dry_run=True)

    assert (result.why, tools.ran) == (Why.COMPLETED, [])
    assert "would need a person's approval (it is Friday)" in session.history[2].text


async def test_calls_below_a_tool_are_dry_too(tools: Tools):
    @tool(effects=())
    async def outer(context: ToolContext) -> str:
        """Call another tool."""
        return str((await context.call_tool("write", {"path": "x"})).for_model)

    _, session = await said(call("outer"), tools=[outer, *tools.all], dry_run=True)

    assert session.history[2].text.startswith("Dry run: 'write'")
    assert tools.ran == []


async def test_memory_is_read_and_not_written():
    @tool(effects=())
    async def note(context: ToolContext) -> str:
        """Remember."""
        memory = context.memory()
        saved = await memory.save([MemoryItem("n", "k", "text")])
        found = await memory.get("n", "k")
        return f"{len(saved)} {found} {await memory.delete('n', 'k')}"

    store = Store()
    _, session = await said(call("note"), tools=[note], plugins=[store], dry_run=True)

    assert session.history[2].text == "1 None False"
    assert store.calls == ["get"]


async def test_a_whole_session_can_be_dry_and_a_tool_called_by_hand(tools: Tools):
    async with hosting(WRITE, tools=tools.all) as host:
        dry, wet = await host.session(dry_run=True), await host.session()
        await dry.say("go")
        by_hand = await dry.call_tool("write", {"path": "b"})
        alone = await wet.call_tool("write", {"path": "b"}, dry_run=True)
        await wet.call_tool("fetch", {"url": "u"})

    assert shape(dry.history)[-1] == "assistant done"
    assert all("Dry run" in str(output.for_model) for output in (by_hand, alone))
    assert tools.ran == ["fetch"]


async def test_nothing_is_left_in_doubt_after_a_dry_run(tools: Tools):
    async with talking(WRITE, "ok", call("write", "again", path="a"), tools=tools.all) as session:
        await session.say("go", dry_run=True)
        await session.say("now for real")

    assert [entry.turn_id for entry in session.records() if isinstance(entry, Dispatched)] == ["t2"]
    assert tools.ran == ["write"]
