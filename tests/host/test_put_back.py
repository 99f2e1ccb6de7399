"""What tools changed can be put back after undo(): by calls under all policies, that no policy saw before."""

from pathlib import Path
from typing import Any

from pluggent_hookspecs import Deny, ToolCallEvent, ToolContext, ToolOutput, ToolResultEvent, UndoCall, hookimpl, tool
from pluggent_host import Host, HostSettings
from pluggent_testing.fakes import ScriptedModel, call
from pluggent_transcript.entries import Settled


class Notes:
    """Notes by name, and a tool that writes one."""

    def __init__(self) -> None:
        self.notes = {"a": "old a"}

    @tool(effects=())
    def write(self, name: str, text: str) -> ToolOutput:
        """Write a note."""
        before = self.notes.get(name, "")
        self.notes[name] = text
        return ToolOutput("written", undo=(UndoCall("write", {"name": name, "text": before}),))

    @tool(effects=())
    async def both(self, context: ToolContext) -> ToolOutput:
        """Write two notes by the other tool."""
        await context.call_tool("write", {"name": "a", "text": "inner a"})
        return await context.call_tool("write", {"name": "b", "text": "inner b"})


def opened(notes: Notes, *replies: Any, **options: Any) -> Any:
    return Host.open(
        model="scripted/m", plugins=[ScriptedModel(*replies)], tools=[notes.write, notes.both], installed=False,
        config=HostSettings(fsync="off"), **options,
    )  # fmt: skip


WRITES = [call("write", "1", name="a", text="new a"), call("write", "2", name="a", text="newer a"), "done"]


async def test_effects_are_put_back_the_last_first():
    notes = Notes()
    async with opened(notes, *WRITES) as host, await host.session() as session:
        await session.say("go")
        exchange = await session.undo()
        assert (notes.notes, len(exchange.put_backs)) == ({"a": "newer a"}, 2)

        made = await session.put_back(exchange)

    assert notes.notes == {"a": "old a"}
    assert [(each.arguments["text"], output.for_model) for each, output in made] == [
        ("new a", "written"), ("old a", "written"),
    ]  # fmt: skip


async def test_it_outlives_the_process(tmp_path: Path):
    notes = Notes()
    async with opened(notes, *WRITES, state_dir=tmp_path) as host, await host.session("s") as session:
        await session.say("go")

    async with opened(notes, state_dir=tmp_path) as host, await host.session("s") as session:
        await session.put_back(await session.undo())

    assert notes.notes == {"a": "old a"}


async def test_inner_calls_of_tools_with_effects_are_put_back_too():
    notes = Notes()
    effects = {"app:tools:tool/write": ("x:note",), "app:tools:tool/both": ("x:note",)}
    async with Host.open(
        model="scripted/m", plugins=[ScriptedModel(call("both", "1"), "done")], tools=[notes.write, notes.both],
        installed=False, config=HostSettings(fsync="off", effects=effects), approver=lambda _: True,
    ) as host, await host.session() as session:  # fmt: skip
        await session.say("go")
        assert notes.notes == {"a": "inner a", "b": "inner b"}
        await session.put_back(await session.undo())

    assert notes.notes == {"a": "old a", "b": ""}


class Watch:
    """Sees all calls and results, and denies what it is told to."""

    def __init__(self, denied: str = "") -> None:
        self.denied = denied
        self.outputs: list[ToolOutput] = []

    @hookimpl
    def decide_tool_call(self, event: ToolCallEvent) -> Deny | None:
        return Deny("not this") if event.arguments.get("text") == self.denied else None

    @hookimpl
    def transform_tool_result(self, event: ToolResultEvent) -> None:
        self.outputs.append(event.output)


async def test_neither_a_policy_nor_the_model_sees_what_would_be_put_back_and_policies_decide_about_it():
    notes, watch = Notes(), Watch(denied="old a")
    async with opened(notes, *WRITES, policies=[watch]) as host, await host.session() as session:
        result = await session.say("go")
        assert [output.undo for output in watch.outputs] == [(), ()]
        assert "old a" not in str(session.history)
        exchange = await session.undo()
        made = await session.put_back(exchange)

    assert result.text == "done"
    assert [output.is_error for _, output in made] == [False, True]
    assert notes.notes == {"a": "new a"}


async def test_a_tool_that_is_not_offered_any_more_is_named():
    notes = Notes()
    async with opened(notes, *WRITES) as host, await host.session() as session:
        await session.say("go")
        exchange = await session.undo()
        async with await host.session(tools=[]) as other:
            made = await other.put_back(exchange)

    assert {output.for_model for _, output in made} == {
        "Error: 'app:tools:tool/write' is not among the tools of this session."
    }


async def test_what_is_too_large_to_keep_is_not_offered():
    notes = Notes()
    notes.notes["a"] = "x" * 4_000_001
    async with opened(notes, *WRITES) as host, await host.session() as session:
        await session.say("go")
        exchange = await session.undo()

    assert [each.arguments["text"] for each in exchange.put_backs] == ["new a"]


async def test_an_undo_that_is_no_call_is_an_error_of_the_tool():
    @tool(effects=())
    def odd() -> ToolOutput:
        return ToolOutput("done", undo=("write",))  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]

    async with Host.open(
        model="scripted/m", plugins=[ScriptedModel(call("odd", "1"), "done")], tools=[odd], installed=False
    ) as host, await host.session() as session:  # fmt: skip
        await session.say("go")
        (settled,) = [entry for entry in session.records() if isinstance(entry, Settled)]

    assert settled.message.is_error
    assert "undo" in settled.message.text


async def test_a_tool_that_is_there_for_putting_back_alone_is_offered_to_no_model():
    made: list[str] = []

    @tool(effects=(), tags=["undo"])
    def restore(name: str) -> str:
        """Put a note back."""
        made.append(name)
        return "restored"

    @tool(effects=())
    def remove(name: str) -> ToolOutput:
        """Remove a note."""
        return ToolOutput("removed", undo=(UndoCall("restore", {"name": name}),))

    model = ScriptedModel((call("remove", "1", name="a"), call("restore", "2", name="b")), "done")
    async with Host.open(
        model="scripted/m", plugins=[model], tools=[remove, restore], installed=False
    ) as host, await host.session() as session:  # fmt: skip
        await session.say("go")
        assert [spec.name for spec in model.requests[0].tools] == [each.name for each in session.tools] == ["remove"]
        assert made == []
        await session.put_back(await session.undo())

    assert made == ["a"]
