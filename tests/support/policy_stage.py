"""Puts policies on a stage: a tool that remembers what ran, and every way in that can reach it.

With it what tests of policies share: orders, forms, nested calls, and every use of a memory store.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import attrs
import pytest
from pluggent_hookspecs import (
    Allow,
    ApprovalEvent,
    DecisionMade,
    MemoryAccess,
    MemoryHit,
    MemoryItem,
    MemoryPage,
    MemoryQuery,
    Message,
    ModelRequest,
    Observation,
    Role,
    ToolContext,
    ToolOutput,
    Vote,
    hookimpl,
    tool,
)
from pluggent_host import Host
from pluggent_host.assembly import Approver
from pluggent_host.plugins.discovery import Discovery
from pluggent_host.session import Session
from pluggent_host.settings import HostSettings
from pluggent_testing.fakes import Recorder, Reply, ScriptedModel, call

T = TypeVar("T")
NAMES = "abcdefghijklmnopqrstuvwxyz"


@attrs.frozen
class Stage:
    """A host with one session, a model that does what the test says, and somebody who listens."""

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


both_forms = pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
both_orders = pytest.mark.parametrize("turned", [False, True], ids=["policy-first", "policy-last"])
every_way = pytest.mark.parametrize("way", WAYS)


def policy(answer: Callable[[], object], *, is_async: bool = False) -> object:
    """Return a policy that decides about ``danger`` by calling *answer*."""

    class Policy:
        @hookimpl
        def decide_tool_call(self, event: Any) -> object:
            return answer() if event.tool.name == "danger" else None

    class AsyncPolicy:
        @hookimpl
        async def decide_tool_call(self, event: Any) -> object:
            await asyncio.sleep(0)
            return answer() if event.tool.name == "danger" else None

    return AsyncPolicy() if is_async else Policy()


class Friendly:
    """Another plugin that has no objection and passes everything on."""

    @hookimpl
    def decide_tool_call(self, event: Any) -> object:
        return Allow("fine with me")

    @hookimpl
    async def around_tool_call(self, event: Any, call_next: Callable[[], Awaitable[Any]]) -> Any:
        return await call_next()


class OddError(BaseException):
    pass


DANGER = "app:tools:tool/danger"
ASKS = HostSettings(effects={DANGER: ("shell",)})


def deciding(hook: str, *answers: object) -> object:
    """Return a plugin whose *hook* gives *answers* one after the other, the last one for ever."""
    waiting = list(answers)

    def decide(self: object, event: object) -> object:
        return waiting.pop(0) if len(waiting) > 1 else waiting[0]

    decide.__name__ = hook
    return type("Decider", (), {hook: hookimpl(decide)})()


def yes(event: ApprovalEvent) -> bool:
    return True


class Twice:
    @hookimpl
    async def around_tool_call(self, event: Any, call_next: Callable[[], Awaitable[Any]]) -> Any:
        await call_next()
        return await call_next()


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
