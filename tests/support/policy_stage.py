"""Puts policies on a stage: a tool that remembers what ran, and every way in that can reach it.

With it nested calls, and every use of a memory store.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import attrs
from pluggent_hookspecs import (
    DecisionMade,
    Discarded,
    MemoryAccess,
    MemoryHit,
    MemoryItem,
    MemoryPage,
    MemoryQuery,
    Message,
    ModelRequest,
    Observation,
    ReasoningShown,
    Role,
    TextShown,
    ToolContext,
    ToolOutput,
    UserNotified,
    Vote,
    hookimpl,
    tool,
)
from pluggent_hookspecs.errors import PluggentError
from pluggent_host import Host, TurnResult
from pluggent_host.assembly import Approver
from pluggent_host.session import Session
from pluggent_host.settings import HostSettings
from pluggent_plugin_loader.discovery import Discovery
from pluggent_testing.fakes import Recorder, Reply, ScriptedModel, call

T = TypeVar("T")
NAMES = "abcdefghijklmnopqrstuvwxyz"


@attrs.frozen
class Stage:
    """A host with one session, a model that does what the test says, and a subscriber."""

    host: Host
    session: Session
    model: ScriptedModel
    recorder: Recorder

    def decisions(self, operation: str = "") -> list[DecisionMade]:
        """Return what observers were told of decisions on *operation* (default: on all)."""
        return [made for made in self.recorder.of(DecisionMade) if operation in ("", made.operation)]

    def read_by_model(self) -> list[str]:
        """Return the results of tool calls as the model was last sent them."""
        return results(self.model.requests[-1].messages) if self.model.requests else []


@asynccontextmanager
async def stage(
    *replies: Reply,
    plugins: Iterable[object] = (),
    tools: Iterable[Any] = (),
    config: HostSettings = HostSettings(),  # noqa: B008 (an immutable tuple)
    approver: Approver | None = None,
    installed: bool | Discovery = False,
    state_dir: Path | None = None,
    workspace: Path | None = None,
    **session: Any,
) -> AsyncGenerator[Stage, None]:
    """Open a host and a session in which the model gives *replies*."""
    model, recorder = ScriptedModel(*replies), Recorder()
    async with (
        Host.open(
            model="scripted/m",
            plugins=[*plugins, model, recorder],
            tools=tools,
            config=config,
            approver=approver,
            installed=installed,
            state_dir=state_dir,
            workspace=workspace,
        ) as host,
        await host.session(**session) as opened,
    ):
        yield Stage(host, opened, model, recorder)


async def said(*replies: Reply, text: str = "go", **options: Any) -> tuple[Stage, TurnResult[Any]]:
    """Say one thing on a stage; return the stage, closed, and the result of the turn."""
    async with stage(*replies, **options) as on:
        return on, await on.session.say(text)


@attrs.frozen
class Watched:
    """A streamed turn: its stage, its events in order, and its result or the error that ended it."""

    on: Stage
    events: list[Any]
    result: TurnResult[Any] | None
    error: PluggentError | None

    @property
    def texts(self) -> list[str]:
        """The texts that were shown, discarded or not."""
        return [event.text for event in self.events if isinstance(event, TextShown)]

    @property
    def screen(self) -> str:
        """What a consumer is left with when the stream is over."""
        screen = ""
        for event in self.events:
            match event:
                case TextShown(text=text) | ReasoningShown(text=text):
                    screen += text
                case Discarded():
                    screen = ""
                case UserNotified(message=message):
                    screen += message.text
                case _:
                    pass
        return screen

    @property
    def kept(self) -> str:
        """Everything that observers, the history and the records have."""
        return repr((self.on.recorder.events, self.on.session.history, self.on.session.records()))


async def watched(*replies: Reply, **options: Any) -> Watched:
    """Say one thing on a stage in a streamed turn."""
    events: list[Any] = []
    async with stage(*replies, **options) as on:
        try:
            async with on.session.stream("go") as stream:
                async for event in stream:
                    events.append(event)  # noqa: PERF401 (what came before a failure is wanted)
        except PluggentError as error:
            return Watched(on, events, None, error)
        return Watched(on, events, stream.result, None)


def results(messages: Sequence[Message]) -> list[str]:
    """Return the texts of all results of tool calls in *messages*."""
    return [message.text for message in messages if message.role is Role.TOOL]


def in_order(*plugins: object) -> list[object]:
    """Return *plugins* renamed, so that their chains run them in the order given here.

    Ids of plugins given in code are made of class names, and chains are ordered by id.
    """
    for letter, plugin in zip(NAMES, plugins, strict=False):
        kind = type(plugin)
        plugin.__class__ = type(f"{letter}_{kind.__name__}", (kind,), {"__module__": kind.__module__})
    return list(plugins)


def either_way(first: object, second: object, *, turned: bool) -> list[object]:
    """Return both plugins in one order or the other, of registration and of chains."""
    return in_order(second, first) if turned else in_order(first, second)


@attrs.frozen
class Seen:
    """What came of an attempt to get ``danger`` called."""

    ran: tuple[str, ...]
    told: tuple[str, ...]
    decisions: tuple[DecisionMade, ...]
    events: tuple[Observation, ...]

    @property
    def votes(self) -> tuple[Vote, ...]:
        """All votes on all calls."""
        return tuple(vote for made in self.decisions for vote in made.votes)


Attempt = Callable[["Danger", Mapping[str, Any]], Awaitable[tuple[str, ...]]]


class Danger:
    """Tools that remember: ``danger`` is what policies are to keep from running."""

    def __init__(self, effects: tuple[str, ...] | None = None) -> None:
        self.ran: list[str] = []
        self.effects = effects

    def tools(self) -> list[Any]:
        """Return ``danger``, ``outer`` (calls danger) and ``quiet`` (does nothing)."""

        @tool(effects=self.effects)
        async def danger(path: str) -> str:
            """Do something dangerous."""
            self.ran.append(path)
            return f"did {path}"

        @tool(effects=())
        async def outer(path: str, context: ToolContext) -> str:
            """Call danger."""
            output: ToolOutput = await context.call_tool("danger", {"path": path})
            return str(output.for_model)

        @tool(effects=())
        async def quiet() -> str:
            """Do nothing."""
            return "quiet"

        return [danger, outer, quiet]


async def _said(danger: Danger, options: Mapping[str, Any], *replies: Reply) -> tuple[str, ...]:
    async with stage(*replies, tools=danger.tools(), **options) as on:
        await on.session.say("go")
        return tuple(results(on.session.history))


async def by_say(danger: Danger, options: Mapping[str, Any]) -> tuple[str, ...]:
    """The model calls it."""
    return await _said(danger, options, call("danger", path="x"))


async def by_batch(danger: Danger, options: Mapping[str, Any]) -> tuple[str, ...]:
    """The model calls it among others, side by side."""
    return await _said(danger, options, (call("quiet"), call("danger", path="x"), call("quiet", "other")))


async def by_tool(danger: Danger, options: Mapping[str, Any]) -> tuple[str, ...]:
    """Another tool calls it."""
    return await _said(danger, options, call("outer", path="x"))


async def by_stream(danger: Danger, options: Mapping[str, Any]) -> tuple[str, ...]:
    """The model calls it in a streamed turn."""
    async with stage(call("danger", path="x"), tools=danger.tools(), **options) as on:
        async with on.session.stream("go") as events:
            async for _ in events:
                pass
        return tuple(results(on.session.history))


async def by_person(danger: Danger, options: Mapping[str, Any]) -> tuple[str, ...]:
    """A person calls it without a model."""
    async with stage(tools=danger.tools(), **options) as on:
        return (str((await on.session.call_tool("danger", {"path": "x"})).for_model),)


async def by_run_sync(danger: Danger, options: Mapping[str, Any]) -> tuple[str, ...]:
    """A script without an event loop runs a turn."""
    asked: list[ModelRequest] = []

    def note(request: ModelRequest) -> Reply:
        asked.append(request)
        return "done"

    model = ScriptedModel(call("danger", path="x"), note)
    given = {"installed": False, **options}
    given["plugins"] = [*given.pop("plugins", ()), model]
    await asyncio.to_thread(lambda: Host.run_sync("go", model="scripted/m", tools=danger.tools(), **given))
    return tuple(results(asked[-1].messages)) if asked else ()


WAYS: Mapping[str, Attempt] = {
    "say": by_say,
    "stream": by_stream,
    "batch": by_batch,
    "nested": by_tool,
    "call_tool": by_person,
    "run_sync": by_run_sync,
}
"""Every way in which a tool can come to be called."""


async def reach(
    way: str, plugins: Iterable[object] = (), *, effects: tuple[str, ...] | None = None, **options: Any
) -> Seen:
    """Try to get ``danger`` called with path ``x`` by *way*, with *plugins* in between."""
    danger, listener = Danger(effects), Recorder()
    listener.__class__ = type("Listener", (Recorder,), {})
    told = await WAYS[way](danger, {**options, "plugins": [*plugins, listener]})
    return Seen(tuple(danger.ran), told, tuple(listener.of(DecisionMade)), tuple(listener.events))


def using(use: Callable[[ToolContext], Awaitable[object]], **more: Any) -> tuple[Any, list[Any]]:
    """Return a tool ``user`` that calls *use*, and the list in which what came of it is kept."""
    outcome: list[Any] = []

    @tool(name="user", effects=(), **more)
    async def user(context: ToolContext) -> str:
        """Use the context."""
        try:
            outcome.append(await use(context))
        except Exception as error:  # noqa: BLE001 (what came of it is what the test looks at)
            outcome.append(error)
        return "used"

    return user, outcome


async def run(
    use: Callable[[ToolContext], Awaitable[object]], danger: Danger, *replies: Any, timeout_s: float | None = None,
    **options: Any,
) -> tuple[list[Any], Stage]:  # fmt: skip
    user, outcome = using(use, timeout_s=timeout_s)
    async with stage(call("user"), *replies, tools=[*danger.tools(), user], **options) as on:
        await on.session.say("go")
    return outcome, on


class Store:
    """A store that remembers what was asked of it."""

    name = "notes"

    def __init__(self, *items: MemoryItem, error: Exception | None = None) -> None:
        self.items = {(item.namespace, item.key): item for item in items}
        self.calls: list[str] = []
        self.error = error

    @hookimpl
    def provide_memory(self, event: Any) -> list[object]:
        return [self]

    def _called(self, name: str) -> None:
        self.calls.append(name)
        if self.error is not None:
            raise self.error

    async def save(self, items: Any) -> tuple[MemoryItem, ...]:
        self._called("save")
        self.items.update({(item.namespace, item.key): item for item in items})
        return tuple(items)

    async def get(self, namespace: str, key: str) -> MemoryItem | None:
        self._called("get")
        return self.items.get((namespace, key))

    async def delete(self, namespace: str, key: str) -> bool:
        self._called("delete")
        return self.items.pop((namespace, key), None) is not None

    async def list(self, query: MemoryQuery) -> MemoryPage:
        self._called("list")
        return MemoryPage(tuple(i for (n, _), i in sorted(self.items.items()) if n == query.namespace), "next")

    async def search(self, namespace: str, text: str, limit: int = 10) -> tuple[MemoryHit, ...]:
        self._called("search")
        hits = [MemoryHit(item, 0.5) for (n, _), item in self.items.items() if n == namespace and text in item.text]
        return tuple(hits[:limit])

    async def aclose(self) -> None:
        self.calls.append("aclose")


def note(key: str = "k", text: str = "the text", namespace: str = "n") -> MemoryItem:
    return MemoryItem(namespace, key, text)


READS: dict[str, Callable[[MemoryAccess], Any]] = {
    "get": lambda memory: memory.get("n", "k"),
    "list": lambda memory: memory.list(MemoryQuery("n")),
    "search": lambda memory: memory.search("n", "text"),
}
WRITES: dict[str, Callable[[MemoryAccess], Any]] = {
    "save": lambda memory: memory.save([note("new")]),
    "delete": lambda memory: memory.delete("n", "k"),
}
USES = {**READS, **WRITES}


async def by_host(use: Callable[[MemoryAccess], Any], on: Stage, outcome: list[Any]) -> None:
    try:
        outcome.append(await use(on.host.memory("notes")))
    except Exception as error:  # noqa: BLE001 (what came of it is what the test looks at)
        outcome.append(error)


async def attempt(way: str, use: str, *plugins: object, store: Store, **options: Any) -> Any:
    """Use *store* as the application does, or as a tool does; return what came of it."""
    outcome: list[Any] = []

    @tool(effects=("memory",))
    async def remember(context: ToolContext) -> str:
        """Use the memory."""
        try:
            outcome.append(await USES[use](context.memory("notes")))
        except Exception as error:  # noqa: BLE001 (as above)
            outcome.append(error)
        return "used"

    async with stage(call("remember"), plugins=[*plugins, store], tools=[remember], **options) as on:
        if way == "host":
            await by_host(USES[use], on, outcome)
        elif way == "tool":
            await on.session.say("go")
        else:
            await on.session.call_tool("remember", {})
    (only,) = outcome
    return only
