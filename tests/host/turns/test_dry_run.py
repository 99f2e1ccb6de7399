"""A dry run decides and records everything, and executes nothing that has effects."""

from typing import Any

from pluggent_hookspecs import Allow, Ask, Deny, MemoryItem, ToolContext, ToolFinished, hookimpl, tool
from pluggent_host import Host, Why
from pluggent_host.transcript.entries import Decided, Dispatched, TurnBegan
from pluggent_testing.fakes import Recorder, ScriptedModel, call
from talking import hosting, shape, talking


class Ran:
    def __init__(self) -> None:
        self.names: list[str] = []

    def tools(self) -> list[Any]:
        @tool(effects=("filesystem_write",))
        def write(path: str) -> str:
            """Write."""
            self.names.append("write")
            return path

        @tool(effects=("network_read",))
        def fetch(url: str) -> str:
            """Fetch."""
            self.names.append("fetch")
            return url

        @tool(effects=())
        def add(a: int, b: int) -> int:
            """Add."""
            self.names.append("add")
            return a + b

        def undeclared() -> None:
            """Do something."""
            self.names.append("undeclared")

        return [write, fetch, add, undeclared]


async def test_only_what_is_declared_pure_runs():
    ran = Ran()
    calls = (call("write", path="a"), call("fetch", url="u"), call("add", a=1, b=2), call("undeclared"))
    async with talking(calls, "ok", tools=ran.tools()) as session:
        result = await session.say("go", dry_run=True)

        assert result.why is Why.COMPLETED
        assert ran.names == ["add"]
        texts = [message.text for message in session.history if message.tool_call_id]
    assert texts[0].startswith("Dry run: 'write' has effects and was not run.")
    assert texts[2] == "3"
    assert texts[3].startswith("Dry run: 'undeclared'")


async def test_policies_decide_and_the_decisions_are_recorded():
    class Policy:
        def __init__(self) -> None:
            self.seen: list[bool] = []

        @hookimpl
        def decide_tool_call(self, event: Any) -> Deny | Allow:
            self.seen.append(event.scope.dry_run)
            return Deny("never") if event.tool.name == "write" else Allow()

    ran, recorder, policy = Ran(), Recorder(), Policy()
    calls = (call("write", path="a"), call("fetch", url="u"))
    async with talking(calls, "ok", tools=ran.tools(), plugins=[policy, recorder]) as session:
        await session.say("go", dry_run=True)
        decided = [entry.decision.verdict for entry in session.records() if isinstance(entry, Decided)]
        began = [entry.dry_run for entry in session.records() if isinstance(entry, TurnBegan)]

    assert policy.seen == [True, True]
    assert decided.count("deny") == 1
    assert began == [True]
    assert [event.ran for event in recorder.of(ToolFinished)] == [False, False]


async def test_nobody_is_asked_and_the_turn_goes_on():
    class Asks:
        @hookimpl
        def decide_tool_call(self, event: Any) -> Ask:
            return Ask("it is Friday")

    def approve(event: Any) -> bool:
        raise AssertionError("a dry run asks nobody")

    ran = Ran()
    async with talking(call("add", a=1, b=2), tools=ran.tools(), plugins=[Asks()], approver=approve) as session:
        result = await session.say("go", dry_run=True)

        assert result.why is Why.COMPLETED
        assert "would need a person's approval (it is Friday)" in session.history[2].text
    assert ran.names == []


async def test_calls_below_a_tool_are_dry_too():
    ran = Ran()

    @tool(effects=())
    async def outer(context: ToolContext) -> str:
        """Call another tool."""
        return str((await context.call_tool("write", {"path": "x"})).for_model)

    async with talking(call("outer"), tools=[outer, *ran.tools()]) as session:
        await session.say("go", dry_run=True)

        assert session.history[2].text.startswith("Dry run: 'write'")
    assert ran.names == []


async def test_memory_is_read_and_not_written():
    @tool(effects=())
    async def note(context: ToolContext) -> str:
        """Remember."""
        memory = context.memory()
        saved = await memory.save([MemoryItem("n", "k", "text")])
        found = await memory.get("n", "k")
        return f"{len(saved)} {found} {await memory.delete('n', 'k')}"

    model = ScriptedModel(call("note"))
    async with Host.open(model="scripted/m", plugins=[model], tools=[note]) as host:
        session = await host.session(dry_run=True)
        await session.say("go")

        assert session.history[2].text == "1 None False"


async def test_a_whole_session_can_be_dry_and_a_tool_called_by_hand():
    ran = Ran()
    async with hosting(call("write", path="a"), tools=ran.tools()) as host:
        dry = await host.session(dry_run=True)
        await dry.say("go")
        by_hand = await dry.call_tool("write", {"path": "b"})
        wet = await host.session()
        alone = await wet.call_tool("write", {"path": "b"}, dry_run=True)
        await wet.call_tool("fetch", {"url": "u"})

        assert shape(dry.history)[-1] == "assistant done"
    assert "Dry run" in str(by_hand.for_model)
    assert "Dry run" in str(alone.for_model)
    assert ran.names == ["fetch"]


async def test_nothing_is_left_in_doubt_after_a_dry_run():
    ran = Ran()
    async with talking(call("write", path="a"), "ok", call("write", "again", path="a"), tools=ran.tools()) as session:
        await session.say("go", dry_run=True)
        await session.say("now for real")

        dispatched = [entry.turn_id for entry in session.records() if isinstance(entry, Dispatched)]
        assert dispatched == ["t2"]
    assert ran.names == ["write"]
