"""The ways that entry paths go: each is a function of a Stage, and of a host unless it opens one itself."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from contextlib import aclosing
from typing import Any

from pluggent_cli.command_host import CommandHost
from pluggent_hookspecs.attachments import file, image
from pluggent_hookspecs.errors import PluggentError
from pluggent_hookspecs.memory import MemoryItem, MemoryQuery
from pluggent_hookspecs.messages import Message, Part
from pluggent_hookspecs.models import ModelParameters
from pluggent_host.host import Host
from pluggent_host.inspection import SyncTurnStream

from pluggent_testing.paths.parts import TEXTS, remembered, said, streamed
from pluggent_testing.paths.stage import Stage

Way = Callable[[Stage, Host], Coroutine[Any, Any, None]]

LATER = ModelParameters(background=True)
PNG = b"\x89PNG\r\n\x1a\n" + bytes(24)


def saying_once(text: str = "said-1", **options: Any) -> Way:
    """Return the way of one turn."""

    async def way(on: Stage, host: Host) -> None:
        async with await host.session() as session:
            await said(on, session, text, **options)

    return way


async def chat(on: Stage, host: Host) -> None:
    """Say several things."""
    async with await host.session() as session:
        await said(on, session, "said-1")
        await said(on, session, "said-2")
        on.keep(session.history)
        on.keep(session.records())


async def stream_background(on: Stage, host: Host) -> None:
    """Watch a turn whose replies are made in the background."""
    async with await host.session(parameters=LATER) as session:
        await streamed(on, session.stream("said-1"))


async def batch(on: Stage, host: Host) -> None:
    """Send two requests as a batch, and read their results."""
    sent = await on.enter(host.batches.submit("paths/m", {"a": "said-1", "b": "said-2"}))
    if sent is not None:
        try:
            async for result in host.batches.results(sent):
                on.keep(result)
        except PluggentError as error:
            on.keep(error)


async def stream(on: Stage, host: Host) -> None:
    """Watch a turn."""
    async with await host.session() as session:
        await streamed(on, session.stream("said-1"))


async def resume(on: Stage, host: Host) -> None:
    """Answer a turn that was paused."""
    async with await host.session() as session:
        await said(on, session, "said-1")
        on.keep(session.pending)
        if session.paused:
            await on.enter(session.resume({each.call_id: True for each in session.pending}))


async def stream_resume(on: Stage, host: Host) -> None:
    """Watch how a turn that was paused goes on."""
    async with await host.session() as session:
        await said(on, session, "said-1")
        if session.paused:
            await streamed(on, session.stream_resume({each.call_id: True for each in session.pending}))


async def resume_elsewhere(on: Stage, host: Host) -> None:
    """Answer a turn that was paused in a session that was closed since."""
    async with await host.session("left") as session:
        await said(on, session, "said-1")
    async with await host.session("left") as session:
        if session.paused:
            await on.enter(session.resume({each.call_id: True for each in session.pending}))


def calling(name: str, mark: str = "one") -> Way:
    """Return the way of a tool called by hand."""

    async def way(on: Stage, host: Host) -> None:
        async with await host.session() as session:
            await on.enter(session.call_tool(f"probe_{name}", {"mark": f"mark-{mark}"}))

    return way


def lent(
    *calls: tuple[str, str], origin: str = "cli", listed: bool = True
) -> Callable[[Stage], Coroutine[Any, Any, None]]:
    """Return the way of a command: it lists tools, unless it knows ids, and makes *calls*: of a name, with a mark."""

    async def way(on: Stage) -> None:
        async with aclosing(CommandHost(lambda: on.opener.open_host(**on.options))) as operations:
            if listed:
                on.keep(await operations.tools("probe_*"))
            for name, mark in calls:
                await on.enter(
                    operations.call_tool(name, {"mark": f"mark-{mark}"}, origin=origin, principal="a caller")
                )

    return way


async def memory(on: Stage, host: Host) -> None:
    """Use memory without a session."""
    await remembered(on, host.memory("paths"))


async def embedding(on: Stage, host: Host) -> None:
    """Embed two texts without a session."""
    await on.enter(host.embed("paths/m", TEXTS))


async def count(on: Stage, host: Host) -> None:
    """Let a vendor count the tokens of a request."""
    await on.enter(host.count("paths/m", [Message.user("said-1")]))


async def history(on: Stage, host: Host) -> None:
    """Begin with a history."""
    given = [Message.user("earlier"), Message.assistant("before")]
    async with await host.session(history=given) as session:
        await said(on, session, "said-1")


async def reopened(on: Stage, host: Host) -> None:
    """Go on with a session that was closed."""
    for text in ("said-1", "said-2"):
        async with await host.session("kept") as session:
            await said(on, session, text)


async def undone(on: Stage, host: Host) -> None:
    """Take something back and say something else."""
    async with await host.session() as session:
        await said(on, session, "said-1")
        await on.attempt(session.undo())
        await said(on, session, "said-2")


async def put_back(on: Stage, host: Host) -> None:
    """Take something back, and put back what it changed."""
    async with await host.session() as session:
        await said(on, session, "said-1")
        exchange = await session.undo()
        if exchange is not None and exchange.put_backs:
            await on.enter(session.put_back(exchange))


async def another_model(on: Stage, host: Host) -> None:
    """Let another model go on."""
    async with await host.session() as session:
        await said(on, session, "said-1")
        await session.use(model="paths-other/m")
        await said(on, session, "said-2")


async def files(on: Stage, host: Host) -> None:
    """Say a picture and a document."""
    on.folder.mkdir()
    (on.folder / "picture.png").write_bytes(PNG)
    (on.folder / "notes.txt").write_bytes(b"notes")
    content: list[str | Part] = ["said-1", image(on.folder / "picture.png"), file(on.folder / "notes.txt")]
    async with await host.session() as session:
        await on.enter(session.say(content))


def sync_say(on: Stage) -> None:
    """Say something without a loop."""
    with on.open_sync() as host, host.session() as session:
        on.enter_sync(lambda: session.say("said-1"))


def sync_stream(on: Stage) -> None:
    """Watch a turn without a loop."""
    with on.open_sync() as host, host.session() as session:
        on.enter_sync(lambda: _followed(on, session.stream("said-1")))


def _followed(on: Stage, stream: SyncTurnStream[Any]) -> Any:
    with stream as events:
        for event in events:
            on.log.note("streamed", event)
    return events.result


def sync_call_tool(on: Stage) -> None:
    """Call a tool by hand, without a loop."""
    with on.open_sync() as host, host.session() as session:
        on.enter_sync(lambda: session.call_tool("probe_tool", {"mark": "mark-one"}))


def sync_resume(on: Stage) -> None:
    """Answer a turn that was paused, without a loop."""
    with on.open_sync() as host, host.session() as session:
        on.enter_sync(lambda: session.say("said-1"))
        if session.pending:
            on.enter_sync(lambda: session.resume({each.call_id: True for each in session.pending}))


def sync_memory(on: Stage) -> None:
    """Use memory without a loop."""
    with on.open_sync() as host:
        store = host.memory("paths")
        on.enter_sync(lambda: store.save([MemoryItem("paths", "key-new", "item-new")]))
        on.enter_sync(lambda: store.delete("paths", "key-gone"))
        on.enter_sync(lambda: store.get("paths", "key-one"))
        on.enter_sync(lambda: store.list(MemoryQuery("paths", prefix="key-two")))
        on.enter_sync(lambda: store.search("paths", "key-three"))


def sync_count(on: Stage) -> None:
    """Let a vendor count tokens, without a loop."""
    with on.open_sync() as host:
        on.enter_sync(lambda: host.count("paths/m", [Message.user("said-1")]))


def sync_batch(on: Stage) -> None:
    """Send two requests as a batch, and read their results, without a loop."""
    with on.open_sync() as host:
        sent = on.enter_sync(lambda: host.batches.submit("paths/m", {"a": "said-1", "b": "said-2"}))
        try:
            for result in host.batches.results(sent) if sent is not None else ():
                on.keep(result)
        except PluggentError as error:
            on.keep(error)


def sync_embedding(on: Stage) -> None:
    """Embed two texts without a loop."""
    with on.open_sync() as host:
        on.enter_sync(lambda: host.embed("paths/m", TEXTS))


def sync_stream_resume(on: Stage) -> None:
    """Watch how a turn that was paused goes on, without a loop."""
    with on.open_sync() as host, host.session() as session:
        on.enter_sync(lambda: session.say("said-1"))
        if session.pending:
            answers = {each.call_id: True for each in session.pending}
            on.enter_sync(lambda: _followed(on, session.stream_resume(answers)))


def run_sync(on: Stage) -> None:
    """Run one turn in a script."""
    on.enter_sync(lambda: on.opener.run_sync("said-1", **on.options))
