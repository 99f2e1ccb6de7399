"""The host: finds plugins, opens them, and opens sessions."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import os
import secrets
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from time import perf_counter, time
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, cast, overload

import attrs
from pluggent_contract_values.sanitize import check_history, clean_history
from pluggent_hookspecs.embeddings import EmbeddingRequest, EmbeddingResponse, EmbeddingRole
from pluggent_hookspecs.errors import PluggentError, ProviderError, ProviderErrorKind, SessionError, SessionOwnerError
from pluggent_hookspecs.events import Scope
from pluggent_hookspecs.memory import MemoryAccess
from pluggent_hookspecs.messages import Message
from pluggent_hookspecs.models import ListsModels, ModelInfo, ModelParameters, ModelRequest, Provider
from pluggent_hookspecs.observations import Observation, SessionOpened
from pluggent_hookspecs.plans import Plan
from pluggent_hookspecs.sessions import SessionStore
from pluggent_hookspecs.tools import ToolSpec
from pluggent_plugin_loader.catalog import PluginRecord
from pluggent_plugin_loader.discovery import Discovery
from pluggent_plugin_loader.loader import registered_name
from pluggent_transcript.entries import Given, SessionAdopted, SessionBegan, Transcript
from pluggent_transcript.limits import GivenLimits, check_limits, limited
from pluggent_transcript.logs import MemoryTranscript, StoredTranscript
from pluggent_transcript.rebuild import Rebuilt, rebuild
from pluggent_transcript.standing import Approvals
from pluggent_transcript.stored import StoredSessions

from pluggent_host.assembly import Answerer, Approver, Parts, assemble, look_around, people, take_apart
from pluggent_host.common import process_marker
from pluggent_host.common.running import comes_from_outside, said
from pluggent_host.hooks.caller import Caller, Late
from pluggent_host.hooks.event_bus import EventStream, UnrecordedJournal
from pluggent_host.hooks.order import Chains
from pluggent_host.operations.embedding import EmbeddingOperation, check_request, embedded
from pluggent_host.operations.token_count import CountOperation, counted
from pluggent_host.plugins.lookup import session_files
from pluggent_host.session import OfferedTool, Session, offered
from pluggent_host.settings import Grants, HostSettings
from pluggent_host.tools.selection import ToolChoice
from pluggent_host.tools.workspace_guard import Protected, protected_by
from pluggent_host.turns.meter import check_names
from pluggent_host.turns.options import check, checked_metadata
from pluggent_host.turns.record import Agent, Conversation
from pluggent_host.turns.result import TurnResult

if TYPE_CHECKING:  # see Host.batches
    from pluggent_host.batches import HostBatches

K = TypeVar("K")

DEFAULT_MODEL = "offline/demo"
"""The model of a host without one: no network, no key."""


@attrs.frozen(eq=False, repr=False)
class _Defaults:
    """The options of sessions that give none of their own."""

    tools: tuple[ToolChoice, ...]
    state_dir: Path | None
    workspace: Path | None
    private: tuple[str, ...] = ()


@attrs.define(eq=False, repr=False, slots=False)
class Host:
    """Plugins, policies and sessions. Two hosts share nothing.

    >>> async def main():
    ...     async with Host.open(model="offline/demo") as host:
    ...         session = await host.session()
    ...         return (await session.say("hello")).why
    >>> asyncio.run(main())
    <Why.COMPLETED: 'completed'>
    """

    _parts: Parts
    _defaults: _Defaults
    _store: SessionStore | None = None
    _approvals: Approvals | None = None
    _guard: tuple[list[str], Protected] | None = attrs.field(default=None, init=False)
    """What is protected, and the ``sys.path`` that it was found for: to look takes a quarter of a short session."""
    _sessions: set[Session] = attrs.field(factory=set["Session"], init=False)
    _numbers: Iterator[int] = attrs.field(factory=lambda: itertools.count(1), init=False)
    _closed: bool = attrs.field(default=False, init=False)

    @classmethod
    @contextlib.asynccontextmanager
    async def open(
        cls,
        *,
        model: str = "",
        tools: Iterable[ToolChoice] = (),
        plugins: Iterable[object] = (),
        policies: Iterable[object] = (),
        approver: Approver | None = None,
        answerer: Answerer | None = None,
        settings: Mapping[str, Any] | None = None,
        system: str = "",
        limits: GivenLimits | None = None,
        strict: bool | None = None,
        config: HostSettings | None = None,
        installed: bool | Discovery = True,
        acknowledged: Callable[[PluginRecord], bool] | None = None,
        state_dir: str | os.PathLike[str] | None = None,
        sessions: str | SessionStore = "",
        workspace: str | os.PathLike[str] | None = None,
        private: Iterable[str | os.PathLike[str]] = (),
    ) -> AsyncGenerator[Host]:
        """Open a host from these options alone; no settings file is read.

        **Parameters:**

        - *model*: ``provider/model`` (default: ``offline/demo``, which needs no network and no key).
        - *tools*: the tools of sessions: functions, Tool objects, names of installed tools or tool plugins, or
          ``"*"`` for all that are installed.
        - *plugins*, *policies*: plugin objects of your own; the application counts as the operator.
        - *approver*: answers asks: gets an ApprovalEvent, returns True, False, an Approval, or None for no answer.
        - *answerer*: answers questions of tools: gets a QuestionEvent, returns Accepted, Declined, Cancelled or None.
        - *settings*: {plugin id: its settings}. *config*: everything else (see HostSettings); the other options win.
        - *installed*: False for no installed plugin at all. *acknowledged* gets every third-party package with hooks;
          if it returns False, the host does not open.
        - *state_dir*: keeps sessions in its folder ``sessions``, by the plugin pluggent-state-files. *sessions*:
          another store, or the name of an installed one (default: ``config.sessions``). Without both, sessions last
          as long as they are open.
        - *workspace*: the folder that tools work in. *private*: your files and folders that are for no tool, besides
          those of the host in *state_dir*.

        Raises ConfigError and PluginError, before anything has run.
        """
        _check_types(tools=tools, limits=limits, config=config, settings=settings, private=private)
        base = config or HostSettings()
        merged = base._replace(
            model=model or base.model,
            system=system or base.system,
            limits=limited(base.limits, limits),
            strict=base.strict if strict is None else strict,
            plugins={**base.plugins, **(settings or {})},
        )
        found = look_around(merged, installed=installed, acknowledged=acknowledged)
        merged = merged._replace(grants=merged.grants.filled_in(found.first_party))
        in_code = [*plugins, *policies, *people(approver, answerer)]
        own = tuple(str(_path(each)) for each in private)
        defaults = _Defaults(tuple(tools), _path(state_dir), _path(workspace), own)
        chosen = sessions or merged.sessions
        with process_marker.marked():
            files = None if defaults.state_dir is None or chosen else session_files(defaults.state_dir, found)
            parts = await assemble(merged, found, in_code)
            try:
                named = await parts.capabilities.sessions(chosen) if isinstance(chosen, str) and chosen else None
            except BaseException:
                await take_apart(parts)
                raise
            store = chosen if not isinstance(chosen, str) else named or files
            approvals = None if store is None else Approvals(store.approvals(), at_once=store is files)
            host = cls(parts, defaults, store, approvals)
            try:
                yield host
            finally:
                await host.aclose()

    async def aclose(self) -> None:
        """Close every session, then every plugin in reverse order. Safe twice; leaving ``open`` calls it."""
        if self._closed:
            return
        self._closed = True
        for session in tuple(self._sessions):
            await session.aclose()
        await take_apart(self._parts)

    @classmethod
    def run_sync(cls, prompt: str, **options: Any) -> TurnResult[Any]:
        """Open a host with *options* (see ``open``), run one turn, close the host, return the result.

        For scripts without an event loop. Raises SessionError in a thread that runs one.

        >>> Host.run_sync("hello").why
        <Why.COMPLETED: 'completed'>
        """
        with contextlib.suppress(RuntimeError):
            asyncio.get_running_loop()
            raise SessionError(
                "Host.run_sync() was called inside a running event loop; use `await session.say(…)` there"
            )

        async def main() -> TurnResult[Any]:
            async with cls.open(**options) as host, await host.session() as session:
                return await session.say(prompt)

        return asyncio.run(main())

    async def session(
        self,
        id: str = "",
        *,
        model: str = "",
        system: str | None = None,
        tools: Iterable[ToolChoice] | None = None,
        parameters: ModelParameters | None = None,
        limits: GivenLimits | None = None,
        history: Iterable[Message] = (),
        metadata: Mapping[str, str] | None = None,
        dry_run: bool = False,
        origin: str = "api",
        agent: str = "",
        principal: str = "",
        channel: str = "",
        chat_id: str = "",
        claimed: bool = False,
    ) -> Session:
        """Open a session, a stored one by its *id*.

        **Parameters:**

        - *model*, *system*, *tools*: default to the host's. *history*: messages before the first turn of a new
          session.
        - *parameters*, *limits*, *metadata*, *dry_run*, *origin*: hold for every turn, see TurnOptions; metadata of a
          new session is stored with it.
        - *principal*: who asks (default: ``HostSettings.principal``); *claimed*: only the client itself says so. A
          stored session belongs to the principal that began it, else to the first that opens it; others get a
          SessionOwnerError, claimed ones always, the rest unless the operator grants them (``Grants.sessions``).
        - *agent*, *channel*, *chat_id*: seen by policies and records, see Scope.

        A call that a crash interrupted is closed, never repeated. Raises ConfigError for an unknown model or tool,
        SessionError if the session is open already, in another process or in this one.
        """
        self._alive()
        _check_types(tools=tools, limits=limits)
        checked_metadata(metadata)
        for option, value in (("model", model), ("system", system), ("principal", principal)):
            check(option, value, str)
        check("parameters", parameters, ModelParameters)
        check("dry_run", dry_run, bool)
        check("claimed", claimed, bool)
        parts, settings = self._parts, self._parts.services.settings
        principal, claimed = scoped(principal or ("" if claimed else settings.principal), claimed=claimed)
        offer = await parts.toolbox.tools(self._defaults.tools if tools is None else tuple(tools))
        own = settings.limits if limits is None else limited(settings.limits, limits)
        if own.per_tool:
            check_names(own.per_tool, offer.current)
        if settings.stops_batch:
            check_names([name for name in settings.stops_batch if "*" not in name], offer.current, "stops_batch")
        id = id or f"s{int(time()):x}-{secrets.token_hex(4)}"
        transcript = await self._transcript(id)
        try:
            past = rebuild(transcript.entries())
            if (refused := refusal(id, past, principal, settings.grants, claimed=claimed)) is not None:
                raise refused  # noqa: TRY301 (the transcript is closed below as after every other failure)
            adopting = adopted(id, past, principal)
            name = model or past.model or settings.model or DEFAULT_MODEL
            found = await parts.capabilities.model(name)
            text = system if system is not None else past.system or settings.system
            about = {**past.metadata, **(metadata or {})}
            given = () if past.began else _whole(history)
            began = SessionBegan(id, time(), name, text, metadata=about, principal=principal, claimed=claimed)
            new = () if past.began else (began,)
            transcript.append(*new, *adopting, *((Given(given),) if given else ()), *past.closing)
            if (written := transcript.flush()) is not None:
                await written
        except BaseException:
            await transcript.aclose()
            raise
        who = Agent(
            found,
            Message.system(text) if text else None,
            offer,
            parameters or ModelParameters(),
            own,
            self._defaults.workspace,
            self._protected(),
        )
        scope = Scope(
            id, "", origin, agent, principal, channel, chat_id, str(self._defaults.workspace or ""),
            dry_run=dry_run, metadata=about, claimed=claimed,
        )  # fmt: skip
        conversation = Conversation(
            transcript, (*past.messages, *given), past.doubts, past.waiting, past.standing, self._approvals, past.void
        )
        session = Session(parts.services, conversation, who, scope, past.turns, past.usage, self._sessions.discard)
        self._sessions.add(session)
        parts.services.emit(SessionOpened(scope, name, tuple(offer.current), parts.services.chains.digest))
        return session

    def _protected(self) -> Protected:
        if self._guard is None or self._guard[0] != sys.path:
            known = self._defaults
            self._guard = list(sys.path), protected_by(known.state_dir, known.workspace, known.private)
        return self._guard[1]

    async def _transcript(self, id: str) -> Transcript:
        if self._store is None:
            return MemoryTranscript()
        log = self._store.open(id)
        transcript = StoredTranscript(await log if isinstance(log, Awaitable) else log, id)
        try:
            await transcript.load()
        except BaseException:
            await transcript.aclose()
            raise
        return transcript

    @overload
    def events(self) -> EventStream[Observation]: ...
    @overload
    def events(self, *kinds: type[K]) -> EventStream[K]: ...
    def events(self, *kinds: type[Any]) -> EventStream[Any]:
        """Subscribe to events of these *kinds* (default: all) in all sessions of this host.

        >>> async def watch(host):
        ...     async with host.events(TurnEnded) as events:
        ...         async for event in events:
        ...             print(event.scope.session_id, event.why)
        """
        self._alive()
        return self._parts.events.streams.stream(kinds)

    async def tools(self, *choices: ToolChoice) -> tuple[OfferedTool, ...]:
        """Return the tools of a session with these *choices* (default: the host's)."""
        self._alive()
        return offered((await self._parts.toolbox.tools(choices or self._defaults.tools)).current.offered)

    def tools_changed(self, *choices: ToolChoice) -> bool:
        """Say whether the result of ``tools()`` with the same *choices* has changed since its last call."""
        self._alive()
        return self._parts.toolbox.changed(choices or self._defaults.tools)

    def memory(self, store: str = "", *, principal: str = "") -> MemoryAccess:
        """Return a memory store by name (default: the only one), each call under the memory policies."""
        self._alive()
        journal = UnrecordedJournal(self._parts.services.emit)
        scope = Scope(origin="api", principal=principal or self._parts.services.settings.principal)
        services = self._parts.services
        return services.memory(store, journal, scope, self._numbers, services.operations.settle)

    async def embed(
        self,
        model: str,
        texts: Iterable[str],
        *,
        role: EmbeddingRole = "document",
        dimensions: int | None = None,
        truncate: bool = False,
        principal: str = "",
    ) -> EmbeddingResponse:
        """Return the vectors of *texts*, float32, one for each in their order; see Vectors.

        **Parameters:**

        - *model*: ``embedder/model``, such as ``openai/text-embedding-3-small``.
        - *role*: what the texts are, ``query`` or ``document``; *dimensions*: the size of the vectors (default: the
          model's own); *truncate*: cut texts that are too long, instead of refusing them. See EmbeddingRequest.
        - *principal*: who asks (default: ``HostSettings.principal``).

        The texts pass the policies (``transform_embedding_request``, ``decide_embedding_request``), ledgers pay for
        them, and the vectors pass the result hooks. Any number of texts may be given; they are sent in as many calls
        as the vendor needs. Raises EmbeddingIncomplete, with the vectors that came, if a later call fails; its first
        ``len(error.response.vectors)`` texts need not be sent again. Raises ProviderError, Denied (also where a
        policy asks and no approver answers), ConfigError for an unknown embedder.
        """
        self._alive()
        capability, embedder, own = await self._parts.capabilities.embedder(model)
        request = EmbeddingRequest(own, texts, role, dimensions, truncate)
        try:
            check_request(request)
        except ValueError as error:
            raise TypeError(str(error)) from None
        services = self._parts.services
        scope = Scope(origin="api", principal=principal or services.settings.principal)
        journal = UnrecordedJournal(services.emit)
        id, attempt_s = f"embed.{next(self._numbers)}", services.settings.timeouts.model_s
        operation = EmbeddingOperation(journal, scope, id, (capability, embedder), request, attempt_s)
        return await embedded(services.operations, operation, services.operations.settle)

    async def count(
        self,
        model: str,
        messages: Iterable[Message],
        *,
        tools: Iterable[ToolSpec] = (),
        parameters: ModelParameters | None = None,
        principal: str = "",
    ) -> int:
        """Return how many tokens a request has, as its vendor counts them; it is not answered.

        *model* is ``provider/model``. The vendor reads the request, so it passes the policies on model requests
        (``transform_model_request``, ``decide_model_request``). Raises NoTokenCount if the provider never counts,
        ProviderError, Denied (also where a policy asks and no approver answers), ConfigError for an unknown model.
        """
        self._alive()
        found = await self._parts.capabilities.model(model)
        request = ModelRequest(found.name, tuple(messages), tuple(tools), parameters or ModelParameters())
        for message in request.messages:
            check("messages", message, Message)
        request = attrs.evolve(request, messages=clean_history(request.messages))
        services = self._parts.services
        scope = Scope(origin="api", principal=principal or services.settings.principal)
        journal, id = UnrecordedJournal(services.emit), f"count.{next(self._numbers)}"
        operation = CountOperation(journal, scope, id, found, request, services.settings.timeouts.model_s)
        return await counted(services.operations, operation, services.operations.settle)

    async def models(self, provider: str = "", *, timeout_s: float | None = None) -> Mapping[str, Models]:
        """Return {provider: its models, or the error that hides them} for *provider*, or for all.

        The error is NoModelList for a provider that never lists its models. All are asked concurrently, each for
        *timeout_s* seconds (default: ``timeouts.source_s`` of the settings). Raises ConfigError or PluginError for a
        named *provider* that is unknown or unusable.
        """
        self._alive()
        services = self._parts.services
        limit_s = services.settings.timeouts.source_s if timeout_s is None else timeout_s
        return await models_of(await self._parts.capabilities.providers(provider), services.caller, limit_s)

    async def parse_plan(self, text: str, goal: str = "", *, parser: str = "json") -> Plan:
        """Return the plan in *text*, read by the installed parser called *parser*. Raises PlanParseError."""
        self._alive()
        return (await self._parts.capabilities.parser(parser)).parse(text, goal)

    async def load_all(self) -> None:
        """Load every plugin that may run, list all tools and check their schemas now instead of on first use.

        ``plugins`` has the results. Raises ConfigError for settings of unknown tools.
        """
        self._alive()
        await self._parts.plugins.load_all()
        await self._parts.toolbox.tools(("*",))
        self._parts.toolbox.check_schemas()

    @property
    def plugins(self) -> tuple[tuple[PluginRecord, str, str], ...]:
        """Every installed plugin with its state now and the reason for it."""
        states = self._parts.plugins.states
        return tuple(
            (record, *states.get(registered_name(record) if record.is_first else "", (record.state, record.reason)))
            for record in self._parts.plugins.catalog.records
        )

    @property
    def failures(self) -> Mapping[str, PluggentError]:
        """The error of each plugin that has failed, by capability id."""
        errors = self._parts.plugins.errors
        named = {record.capability: registered_name(record) for record in self._parts.plugins.catalog.records}
        return MappingProxyType({id: errors[name] for id, name in named.items() if name in errors})

    @property
    def sessions(self) -> StoredSessions:
        """The sessions in the store of this host, to be listed, read and deleted without being opened."""
        return StoredSessions(self._store)

    @property
    def batches(self) -> HostBatches:
        """Many requests that a vendor answers together, later: submitted, found again, read, cancelled."""
        from pluggent_host.batches import HostBatches  # 3 ms, and most programs have no batch

        return HostBatches(self._parts.services, self._parts.capabilities, self._alive)

    @property
    def chains(self) -> Chains:
        """The hook chains in force, in order, and their digest."""
        return self._parts.services.chains

    def _alive(self) -> None:
        if self._closed:
            raise SessionError("the host is closed; open another one with Host.open(…)")


def _check_types(
    *, tools: object, limits: object, config: object = None, settings: object = None, private: object = ()
) -> None:
    """Raise TypeError for mistakes that would otherwise fail late or with an unclear message."""
    for name, given in (("tools", tools), ("private", private)):
        if isinstance(given, str | os.PathLike):  # whose letters are several, too
            one = repr(f"{given}")
            raise TypeError(f"{name}: expected several, got {one}; write {name}=[{one}]")
    if limits is not None:
        check_limits(limits)
    if config is not None and not isinstance(config, HostSettings):
        raise TypeError(f"config: expected HostSettings(…), got {type(config).__name__}")
    if settings is not None and not isinstance(settings, Mapping):
        raise TypeError(f"settings: expected {{plugin id: its settings}}, got {type(settings).__name__}")


def _whole(history: Iterable[Message]) -> tuple[Message, ...]:
    messages = tuple(history)
    for message in messages:
        check("history", message, Message)
    try:
        check_history(messages)
    except ValueError as error:
        raise SessionError(f"the given history is not whole: {error}") from error
    return clean_history(messages)


def _path(value: str | os.PathLike[str] | None) -> Path | None:
    return None if value is None else Path(value).expanduser().resolve()


Models: TypeAlias = tuple[ModelInfo, ...] | PluggentError
"""The models of one provider, or the error that hides them."""


class NoModelList(PluggentError):  # noqa: N818 (a fact, not a failure)
    """A provider does not list its models; they can be used all the same."""

    def __init__(self, provider: str) -> None:
        self.provider = provider
        super().__init__(f"the provider '{provider}' does not say which models it has; see its documentation")


async def models_of(
    providers: Mapping[str, Provider | PluggentError], caller: Caller, limit_s: float
) -> Mapping[str, Models]:
    """Return {provider: its models or its error}; each is asked for at most *limit_s* seconds."""
    async with asyncio.TaskGroup() as group:
        asked = {name: group.create_task(_asked(name, one, caller, limit_s)) for name, one in providers.items()}
    return MappingProxyType({name: task.result() for name, task in asked.items()})


async def _asked(name: str, provider: Provider | PluggentError, caller: Caller, limit_s: float) -> Models:
    if isinstance(provider, PluggentError):
        return provider
    if not isinstance(provider, ListsModels):
        return NoModelList(name)
    deadline = perf_counter() + limit_s
    try:
        found = cast("object", await caller.bounded(provider.list_models(), lambda: deadline - perf_counter()))
    except PluggentError as error:
        return error
    except Late:
        return ProviderError(ProviderErrorKind.TIMEOUT, f"gave no list within {limit_s:g} s", provider=name)
    except BaseException as error:
        if comes_from_outside(error):
            raise
        return _broken(name, f"failed in list_models: {said(error)}")
    items = tuple(cast("Sequence[object]", found)) if isinstance(found, Sequence) else (found,)
    models = tuple(item for item in items if isinstance(item, ModelInfo))
    if wrong := [type(item).__name__ for item in items if not isinstance(item, ModelInfo)]:
        return _broken(name, f"list_models returned {wrong[0]} where ModelInfo is wanted")
    return models


def _broken(name: str, problem: str) -> ProviderError:
    return ProviderError(ProviderErrorKind.PROTOCOL, problem, provider=name)


CLAIMED = "claimed:"
"""How a principal begins that only a client itself names: no rule about a proven one fits it."""

log = logging.getLogger("pluggent.sessions")


def scoped(principal: str | None, *, claimed: bool) -> tuple[str, bool]:
    """Return the principal as scopes have it, and whether it is only claimed.

    >>> scoped("alice", claimed=True), scoped("claimed:bob", claimed=False), scoped("", claimed=True)
    (('claimed:alice', True), ('claimed:bob', True), ('', True))
    """
    name = principal or ""
    if name.startswith(CLAIMED):
        return name, True
    return (f"{CLAIMED}{name}" if claimed and name else name), claimed


def refusal(
    session_id: str, past: Rebuilt, principal: str, grants: Grants, *, claimed: bool
) -> SessionOwnerError | None:
    """Return why *principal* may not open the session of *past*; None if it may."""
    if not past.began:
        return None
    own = not past.claimed and past.principal in ("", principal)
    granted = bool(principal) and principal in grants.sessions
    if not claimed and (own or granted):
        return None
    return SessionOwnerError(session_id, past.principal, by=principal, claimed=past.claimed, unproven=claimed)


def adopted(session_id: str, past: Rebuilt, principal: str) -> tuple[SessionAdopted, ...]:
    """Return the entry that gives a session without an owner to *principal*; none for other sessions."""
    if not past.began or past.principal or past.claimed or not principal:
        return ()
    log.warning("session '%s' had no owner and belongs to '%s' from now on", session_id, principal)
    return (SessionAdopted(principal, time()),)
