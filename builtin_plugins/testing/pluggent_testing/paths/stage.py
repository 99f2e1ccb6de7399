"""Puts an entry path on a stage: the suite's model, tools and store, and a log of all that happens."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from pathlib import Path
from typing import Any, Protocol

import attrs
from pluggent_cli.sessions.explain import as_document as as_explanation, explain
from pluggent_cli.sessions.export import as_document, as_markdown
from pluggent_cli.sessions.reader import read_session
from pluggent_cli.sessions.store import Sessions
from pluggent_contract_values.as_json import to_json
from pluggent_hookspecs import Json, errors
from pluggent_hookspecs.background import BatchResult, BatchTicket, Ticket
from pluggent_hookspecs.embeddings import Embedder, EmbeddingRequest, EmbeddingResponse
from pluggent_hookspecs.errors import ProviderError, ProviderErrorKind
from pluggent_hookspecs.events import ProvideEvent, Scope
from pluggent_hookspecs.markers import hookimpl
from pluggent_hookspecs.memory import MemoryHit, MemoryItem, MemoryPage, MemoryQuery, MemoryStore
from pluggent_hookspecs.models import Delta, ModelRequest, ModelResponse, Provider, deltas
from pluggent_hookspecs.observations import Discarded, TextShown
from pluggent_hookspecs.tools import HostedTool, ToolContext, ToolOutput, ToolSpec, UndoCall, tool
from pluggent_host.host import Host
from pluggent_host.inspection import Chains
from pluggent_host.sync import SyncHost
from pluggent_host.turns.result import TurnResult
from pluggent_plugin_loader.validation import HOLDING

from pluggent_testing.fakes import ScriptedEmbedder, ScriptedModel
from pluggent_testing.later.fakes import LaterModel
from pluggent_testing.paths.operations import EntryPath

ENTERED = "entered"
EXECUTED = ("asked", "ran", "wrote", "read", "questioned", "embedded", "counted")


@attrs.frozen(eq=False)
class Noted:
    """One thing that happened: what it was, and its value. ``hook`` names the hook that fired."""

    what: str
    value: Any
    hook: str = ""


class Log:
    """What happened on a path, in order: hooks that fired, and what was executed."""

    def __init__(self) -> None:
        self.noted: list[Noted] = []

    def note(self, what: str, value: object, hook: str = "") -> None:
        """Note one thing."""
        self.noted.append(Noted(what, value, hook))

    def of(self, *what: str) -> list[Noted]:
        """Return everything of these kinds, in order."""
        return [each for each in self.noted if each.what in what]

    def after(self, what: str, *, until: str = "") -> list[Noted]:
        """Return what follows the first thing of kind *what*, up to the next one of kind *until*."""
        kinds = [each.what for each in self.noted]
        start = kinds.index(what) + 1
        end = kinds.index(until, start) if until in kinds[start:] else len(kinds)
        return self.noted[start:end]


class Opener(Protocol):
    """How the application opens hosts."""

    def open_host(self, **options: Any) -> AbstractAsyncContextManager[Host]: ...
    def open_sync_host(self, **options: Any) -> SyncHost: ...
    def run_sync(self, prompt: str, **options: Any) -> TurnResult[Any]: ...


@attrs.define(eq=False)
class Stage:
    """One run of one path. ``options`` are what every host of it is opened with.

    ``folder`` is its own and need not be there yet. ``ours`` are the suite's own plugins with
    hooks, ``watching`` the ids that its witness may have.
    """

    path: EntryPath
    opener: Opener
    folder: Path
    log: Log
    options: dict[str, Any]
    returned: list[str] = attrs.field(factory=list[str])
    ours: tuple[object, ...] = ()
    chains: Chains | None = None
    watching: tuple[str, ...] = ("app:witness", "paths-witness")

    @property
    def held(self) -> bool:
        """Whether a plugin holds streams until the whole reply has passed it, so that no delta is shown before."""
        impls = [] if self.chains is None else [impl for hook in HOLDING for impl in self.chains[hook]]
        return self.options["config"].stream != "provisional" and any(impl.incremental is None for impl in impls)

    def open_sync(self) -> SyncHost:
        """Open a host for code without a loop."""
        host = self.opener.open_sync_host(**self.options)
        self.chains = host.chains
        return host

    @property
    def state_dir(self) -> Path:
        """Where sessions are kept."""
        return self.folder / "state"

    async def attempt(self, doing: Awaitable[Any]) -> Any:
        """Return what *doing* comes to, or None if it raised one of our errors; both are kept as returned."""
        try:
            return self.keep(await doing)
        except errors.PluggentError as error:
            return self.keep(error)

    async def enter(self, doing: Awaitable[Any]) -> Any:
        """As ``attempt``, for what begins a turn or a call by hand."""
        self.log.note(ENTERED, "")
        return await self.attempt(doing)

    def enter_sync(self, doing: Callable[[], Any]) -> Any:
        """As ``enter``, for what is called without a loop."""
        self.log.note(ENTERED, "")
        try:
            return self.keep(doing())
        except errors.PluggentError as error:
            return self.keep(error)

    def keep(self, value: Any) -> Any:
        """Keep that the application was given *value*; return it, None for an error."""
        self.returned.append(f"{value!r} {value}" if isinstance(value, Exception) else repr(value))
        return None if isinstance(value, Exception) else value

    def public(self) -> str:
        """Return everything that reached anybody: callers, models, observers, sinks, files, what is made of files."""
        told = [repr(each.value) for each in self._told()]
        return "\n".join([*self.returned, *told, *self._kept()])

    def watched(self, parent_id: str = "") -> str:
        """Return everything that callers, observers, sinks and consumers of events have of a run, or below one call.

        Not what models have, nor the history, which is what they are given.
        """
        events = [each.value for each in self.log.of("observed", "recorded", "streamed")]
        if parent_id:
            return "\n".join(repr(each) for each in events if getattr(each, "scope", Scope()).parent_id == parent_id)
        returned = [each for each in self.returned if "<Role.TOOL" not in each]
        return "\n".join([*returned, *map(repr, events), *(repr(each.value) for each in self.log.of("told"))])

    def records(self) -> str:
        """Return everything that observers, sinks and files have."""
        return "\n".join([*(repr(each.value) for each in self.log.of("observed", "recorded")), *self._kept()])

    def _told(self) -> list[Noted]:
        told = self.log.of("observed", "recorded", "streamed", "asked", "embedded", "counted", "told")
        if self.options["config"].stream != "provisional":
            return told
        # What is shown provisionally may be discarded; what came before such an event is void.
        last = max((place for place, each in enumerate(told) if isinstance(each.value, Discarded)), default=0)
        return [each for place, each in enumerate(told) if place > last or not isinstance(each.value, TextShown)]

    def _kept(self) -> list[str]:
        folder = self.state_dir / "sessions"
        kept = [file.read_bytes().decode("utf-8", "replace") for file in sorted(folder.rglob("*")) if file.is_file()]
        for file in sorted(folder.glob("*.jsonl")):
            session = read_session(Sessions.in_files(folder), file.stem)
            kept += [to_json(as_document(session)).decode(), as_markdown(session)]
            kept += [repr(as_explanation(explain(session.id, turn))) for turn in session.turns]
        return kept


# ---- what can be executed ---------------------------------------------------------------


class Model(LaterModel):
    """A model of a path: it streams as the path says, as one batch, or broken off after some."""

    def __init__(self, log: Log, name: str, path: EntryPath) -> None:
        hosted = [HostedTool(f"{name}:hosted/{each}", ()) for each in path.hosted]
        super().__init__(*(path.replies if name == "paths" else path.other), hosted=hosted)
        self.name = name
        self._log = log
        self._path = path

    async def complete(self, request: ModelRequest) -> ModelResponse:
        self._log.note("asked", request)
        return await super().complete(request)

    async def submit(self, request: ModelRequest) -> Ticket:
        """Begin a run; its reply is streamed as any other."""
        self._log.note("asked", request)
        return await super().submit(request)

    async def attach(self, ticket: Ticket, request: ModelRequest) -> AsyncGenerator[Sequence[Delta]]:
        """Yield the reply of a run."""
        async with aclosing(ScriptedModel.stream(self, request)) as batches:
            async for batch in batches:
                yield batch

    async def submit_batch(self, requests: Mapping[str, ModelRequest], key: str) -> BatchTicket:
        """Take a batch."""
        for request in requests.values():
            self._log.note("asked", request)
        return await super().submit_batch(requests, key)

    async def batch_results(
        self, ticket: BatchTicket, requests: Mapping[str, ModelRequest]
    ) -> AsyncGenerator[Sequence[BatchResult]]:
        """Yield the results, which are what a model says."""
        for id, request in requests.items():
            yield (BatchResult(id, "done", await ScriptedModel.complete(self, request)),)

    async def count(self, request: ModelRequest) -> int:
        """Count a token for each message."""
        self._log.note("counted", request)
        return len(request.messages)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Sequence[Delta]]:
        if self._path.whole:
            yield deltas(await self.complete(request))
            return
        self._log.note("asked", request)
        async with aclosing(super().stream(request)) as batches:
            shown = 0
            async for batch in batches:
                if shown == self._path.cut:
                    # Of a kind that no plugin retries.
                    raise ProviderError(ProviderErrorKind.BAD_REQUEST, "cut off", provider=self.name)
                shown += 1
                yield batch


class Store:
    """A memory store that notes what is done with it; three things are in it from the beginning."""

    name = "paths"

    def __init__(self, log: Log) -> None:
        self._log = log
        self._items = {
            ("paths", key): MemoryItem("paths", key, f"kept-{key}") for key in ("key-one", "key-two", "key-three")
        }

    @hookimpl
    def provide_memory(self, event: ProvideEvent) -> list[MemoryStore]:
        return [self]

    async def save(self, items: Sequence[MemoryItem]) -> tuple[MemoryItem, ...]:
        self._log.note("wrote", [(item.key, item.text) for item in items])
        return tuple(items)

    async def delete(self, namespace: str, key: str) -> bool:
        self._log.note("wrote", [(key, "")])
        return (namespace, key) in self._items

    async def get(self, namespace: str, key: str) -> MemoryItem | None:
        self._log.note("read", key)
        return self._items.get((namespace, key))

    async def list(self, query: MemoryQuery) -> MemoryPage:
        self._log.note("read", query.prefix)
        return MemoryPage((self._items["paths", "key-two"],))

    async def search(self, namespace: str, text: str, limit: int = 10) -> tuple[MemoryHit, ...]:
        self._log.note("read", text)
        return (MemoryHit(self._items["paths", "key-three"], 1.0),)

    async def aclose(self) -> None:
        """Close nothing: it is only memory."""


class PathEmbedder(ScriptedEmbedder):
    """The embedder of a path: it fails as often as the path says. The name of its model is what it says."""

    name = "paths"

    def __init__(self, log: Log, path: EntryPath) -> None:
        super().__init__(*[_UNUSABLE] * path.failures)
        self._log = log

    async def embed(self, request: EmbeddingRequest) -> EmbeddingResponse:
        self._log.note("embedded", request)
        return attrs.evolve(await super().embed(request), model="vector-two")


_UNUSABLE = ProviderError(ProviderErrorKind.AUTHENTICATION, "no entry", provider="paths")
"""Of a kind that no plugin retries."""


class Capabilities:
    """Two models, the store and the embedder as one plugin, for hosts that are given them in code."""

    def __init__(self, models: Sequence[Model], store: Store, embedder: PathEmbedder) -> None:
        self._models = models
        self._store = store
        self._embedder = embedder

    @hookimpl
    def provide_providers(self, event: ProvideEvent) -> list[Provider]:
        return [*self._models]

    @hookimpl
    def provide_memory(self, event: ProvideEvent) -> list[MemoryStore]:
        return [self._store]

    @hookimpl
    def provide_embedders(self, event: ProvideEvent) -> list[Embedder]:
        return [self._embedder]


@attrs.frozen(eq=False)
class ProbeTool:
    """A tool as an object."""

    spec: ToolSpec
    run: Callable[[str, ToolContext], Awaitable[ToolOutput | str]]

    def call(self, arguments: Mapping[str, Json], context: ToolContext) -> Awaitable[ToolOutput | Json]:
        """Run with the mark that it is called with."""
        return self.run(str(arguments["mark"]), context)


_MARKED: Mapping[str, Json] = {
    "type": "object",
    "properties": {"mark": {"type": "string"}},
    "required": ["mark"],
    "additionalProperties": False,
}
_MADE: Mapping[str, Mapping[str, Any]] = {
    "tool": {},
    "writing": {"effects": None},
    "alone": {"exclusive": True},
    "showing": {},
    "failing": {"idempotent": True},
    "nested": {},
    "deep": {},
    "undoable": {},
}
_PURE: Mapping[str, Any] = {"effects": ()}
_SPECS = {
    name: ToolSpec(f"probe_{name}", "Do something.", _MARKED, **{**_PURE, **more}) for name, more in _MADE.items()
}
"""Made once: reading functions for each of hundreds of hosts takes longer than all the rest."""


class Tools:
    """The tools of a path. Each notes the mark that it is called with, and its result carries it."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage

    @hookimpl
    def provide_tools(self, event: ProvideEvent) -> list[Any]:
        return self.all()

    def all(self) -> list[Any]:
        """Return all of them: as functions if the path wants some, else as objects."""
        objects = [ProbeTool(spec, getattr(self, f"_{name}")) for name, spec in _SPECS.items()]
        return [*self._functions(), *objects[1:]] if self._stage.path.functions else objects

    def _ran(self, mark: str) -> str:
        self._stage.log.note("ran", mark)
        return f"result-{mark}"

    async def _tool(self, mark: str, context: ToolContext) -> str:
        return self._ran(mark)

    _writing = _alone = _tool

    async def _showing(self, mark: str, context: ToolContext) -> ToolOutput:
        return ToolOutput(self._ran(mark), for_user=f"shown-{mark}")

    async def _undoable(self, mark: str, context: ToolContext) -> ToolOutput:
        return ToolOutput(self._ran(mark), undo=(UndoCall("probe_tool", {"mark": "mark-back"}),))

    async def _failing(self, mark: str, context: ToolContext) -> str:
        raise RuntimeError(self._ran(mark))

    async def _nested(self, mark: str, context: ToolContext) -> str:
        own, nested = self._ran(mark), self._stage.path.nested
        return f"{own} of {'' if nested is None else await nested(context, self._stage)}"

    async def _deep(self, mark: str, context: ToolContext) -> str:
        own = self._ran(mark)
        output = await context.call_tool("probe_tool", {"mark": "mark-lowest"})
        return f"{own} of {output.for_model}"

    def _functions(self) -> list[Any]:
        @tool(effects=())
        async def probe_tool(mark: str) -> str:
            """Do something."""
            return self._ran(mark)

        @tool(effects=())
        def probe_blocking(mark: str) -> str:
            """Do something in a thread."""
            return self._ran(mark)

        return [probe_tool, probe_blocking]
