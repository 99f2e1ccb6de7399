"""The host: finds plugins, opens them, and hands out sessions."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import secrets
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from time import perf_counter, time
from types import MappingProxyType
from typing import Any, TypeAlias, TypeVar, cast, overload

import attrs
from pluggent_hookspecs.errors import PluggentError, ProviderError, ProviderErrorKind, SessionError
from pluggent_hookspecs.events import Scope
from pluggent_hookspecs.memory import MemoryAccess
from pluggent_hookspecs.messages import Message
from pluggent_hookspecs.models import ListsModels, ModelInfo, ModelParameters, Provider
from pluggent_hookspecs.observations import Observation, SessionOpened
from pluggent_hookspecs.plans import Plan
from pluggent_hookspecs.sessions import SessionStore

from pluggent_host.approvals import process_marker
from pluggent_host.approvals.standing import Approvals
from pluggent_host.assembly import Answerer, Approver, Parts, assemble, look_around, people, take_apart
from pluggent_host.common.running import being_cancelled, said
from pluggent_host.common.sanitize import check_given, clean_history
from pluggent_host.hooks.caller import Caller, Late
from pluggent_host.hooks.chains import Chains
from pluggent_host.hooks.event_bus import EventStream, UnrecordedJournal
from pluggent_host.plugins.catalog import PluginRecord
from pluggent_host.plugins.discovery import Discovery
from pluggent_host.plugins.loader import registered_name
from pluggent_host.plugins.lookup import session_files
from pluggent_host.session import OfferedTool, Session, offered
from pluggent_host.settings import GivenLimits, HostSettings, check_limits, limited
from pluggent_host.tools.selection import ToolChoice
from pluggent_host.tools.workspace_guard import Protected
from pluggent_host.transcript.entries import Given, SessionBegan, Transcript, rebuild
from pluggent_host.transcript.logs import MemoryTranscript, StoredTranscript
from pluggent_host.transcript.owners import adopted, refusal, scoped
from pluggent_host.turns.meter import check_names
from pluggent_host.turns.options import check, checked_metadata
from pluggent_host.turns.record import Agent, Conversation
from pluggent_host.turns.result import TurnResult

K = TypeVar("K")

DEFAULT_MODEL = "offline/demo"
"""What answers where no model is configured: no network, no key, and it says so."""

SESSIONS = "sessions"
"""The folder of transcripts in that of the state, and of the approvals that hold in all of them."""


LOGINS = "logins"
"""Where plugins keep what they log in with."""
PRIVATE = (SESSIONS, LOGINS, *(f"{store}.json{part}" for store in ("trust", "hooks") for part in ("", ".key", ".lock")))
"""What of the folder of the state is for no tool; what else is in it may be an application's."""


@attrs.frozen(eq=False)
class _Defaults:
    """What sessions get where they are not told otherwise."""

    tools: tuple[ToolChoice, ...]
    state_dir: Path | None
    workspace: Path | None

    def protected(self) -> Protected:
        """Return the folders of the host's own: sessions, and code that this process imports."""
        below = str(self.workspace or "")
        code = tuple(entry for entry in sys.path if below and os.path.realpath(entry) != below and entry)
        private = () if self.state_dir is None else tuple(str(self.state_dir / name) for name in PRIVATE)
        return Protected(private, code)


class Host:
    """Plugins, policies and sessions. Everything it knows is its own: two hosts share nothing.

    >>> async def main():
    ...     async with Host.open(model="offline/demo") as host:
    ...         session = await host.session()
    ...         return (await session.say("hello")).why
    >>> asyncio.run(main())
    <Why.COMPLETED: 'completed'>
    """

    def __init__(
        self, parts: Parts, defaults: _Defaults, store: SessionStore | None = None, approvals: Approvals | None = None
    ) -> None:
        self._parts = parts
        self._store = store
        self._approvals = approvals
        self._defaults = defaults
        self._sessions: set[Session] = set()
        self._numbers = itertools.count(1)
        self._closed = False

    # ---- opening and closing -------------------------------------------------------------

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
    ) -> AsyncGenerator[Host]:
        """Open a host. No file is read; everything is composed here.

        *model* is ``provider/model`` (default: ``offline/demo``, which needs nothing). *tools*
        are what sessions offer: functions, Tool objects, names of installed tools or tool
        plugins, or ``"*"`` for all that are installed. *plugins* and *policies* are plugin
        objects of your own; the application counts as the operator. *approver* answers asks: it
        gets an ApprovalEvent and returns True, False, an Approval, or None to leave it open.
        *answerer* answers what tools ask a person for: it gets a QuestionEvent and returns Accepted,
        Declined, Cancelled or None.
        *settings* maps plugin ids to their settings. *config* holds everything else (see
        HostSettings); what is given here wins.

        *installed* False uses no installed plugin at all. *acknowledged* is asked about every
        third-party package with hooks; where it says no, the host does not open. *state_dir*
        makes sessions durable, in its folder ``sessions``, by the plugin pluggent-state-files. *sessions* is
        another store to keep them in, or the name of an installed one (default: ``config.sessions``); with
        neither they last as long as they are open. *workspace* is the folder that tools work in.

        Raises ConfigError and PluginError, before anything has run.
        """
        _check_types(tools=tools, limits=limits, config=config, settings=settings)
        merged = _merged(config or HostSettings(), model, system, limits, strict=strict, plugins=settings)
        found = look_around(merged, installed=installed, acknowledged=acknowledged)
        merged = merged._replace(grants=merged.grants.filled_in(found.first_party))
        in_code = [*plugins, *policies, *people(approver, answerer)]
        defaults = _Defaults(tuple(tools), _path(state_dir), _path(workspace))
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
        """Close every session, then every plugin in reverse order. Safe twice; ``open`` calls it."""
        if self._closed:
            return
        self._closed = True
        for session in tuple(self._sessions):
            await session.aclose()
        await take_apart(self._parts)

    @classmethod
    def run_sync(cls, prompt: str, **options: Any) -> TurnResult[Any]:
        """Open a host with *options* (see ``open``), run one turn, close it, return the result.

        For scripts without an event loop. Raises SessionError inside a running one.

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

    # ---- sessions ------------------------------------------------------------------------

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
        """Open a session. With ``state_dir``, an *id* that exists goes on where it stopped.

        *principal* is who asks, *claimed* that only a client itself says so. A stored session belongs to the
        principal that began it, one that nobody in particular began to the first that opens it. Another one
        is refused (SessionOwnerError) unless the operator grants it (``Grants.sessions``), a claimed one always.

        *model*, *system* and *tools* default to the host's; *history* precedes the first turn of
        a new session. *limits*, *metadata* and *dry_run* hold for every turn of it, see TurnOptions; metadata
        of a new session is kept with it. A call that a crash interrupted is closed, never repeated. Raises
        ConfigError for an unknown model or tool, SessionError if another process has the session.
        """
        self._alive()
        _check_types(tools=tools, limits=limits, config=None, settings=None)
        checked_metadata(metadata)
        check("model", model, str)
        check("system", system, str)
        check("parameters", parameters, ModelParameters)
        check("dry_run", dry_run, bool)
        check("principal", principal, str)
        check("claimed", claimed, bool)
        principal, claimed = scoped(principal, claimed=claimed)
        parts, settings = self._parts, self._parts.services.settings
        offer = await parts.toolbox.tools(self._defaults.tools if tools is None else tuple(tools))
        own = limited(settings.limits, limits)
        check_names(own.per_tool, offer.current)
        check_names([name for name in settings.stops_batch if "*" not in name], offer.current, "stops_batch")
        id = id or f"s{int(time()):x}-{secrets.token_hex(4)}"
        transcript = await self._transcript(id)
        try:
            past = rebuild(transcript.entries())
            if (refused := refusal(id, past, principal, settings.grants, claimed=claimed)) is not None:
                raise refused  # noqa: TRY301 (the transcript is given up below like after every other failure)
            name = model or past.model or settings.model or DEFAULT_MODEL
            found = await parts.capabilities.model(name)
            text = system if system is not None else past.system or settings.system
            about = {**past.metadata, **(metadata or {})}
            began = (
                ()
                if past.began
                else (SessionBegan(id, time(), name, text, metadata=about, principal=principal, claimed=claimed),)
            )
            given = () if past.began else _whole(history)
            transcript.append(*began, *adopted(id, past, principal), *((Given(given),) if given else ()), *past.closing)
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
            self._defaults.protected(),
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
        parts.services.tell(SessionOpened(scope, name, tuple(offer.current), parts.services.chains.digest))
        return session

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
        """Follow what happens in this host, all of its sessions: events of these *kinds* (default: all).

        >>> async def watch(host):
        ...     async with host.events(TurnEnded) as events:
        ...         async for event in events:
        ...             print(event.scope.session_id, event.why)
        """
        self._alive()
        return self._parts.events.streams.stream(kinds)

    # ---- capabilities --------------------------------------------------------------------

    async def tools(self, *choices: ToolChoice) -> tuple[OfferedTool, ...]:
        """Return the tools that a session with these *choices* would offer (default: the host's)."""
        self._alive()
        return offered((await self._parts.toolbox.tools(choices or self._defaults.tools)).current)

    def tools_changed(self, *choices: ToolChoice) -> bool:
        """Say whether ``tools()`` with the same *choices* has something new to say since it was called last."""
        self._alive()
        return self._parts.toolbox.changed(choices or self._defaults.tools)

    def memory(self, store: str = "", *, principal: str = "") -> MemoryAccess:
        """Return a memory store by name (default: the only one), each call under the memory policies."""
        self._alive()
        journal = UnrecordedJournal(self._parts.services.tell)
        scope = Scope(origin="api", principal=principal)
        services = self._parts.services
        return services.memory(store, journal, scope, self._numbers, services.operations.settle)

    async def models(self, provider: str = "", *, timeout_s: float | None = None) -> Mapping[str, Models]:
        """Return which models *provider* has, or every provider, under its name.

        The value is what it says, in its order, or the error that kept it from saying so:
        NoModelList where it never does. All are asked side by side, each for *timeout_s* seconds
        (default: the settings' ``timeouts.source_s``). Raises ConfigError or PluginError for a
        named *provider* that there is not, or that cannot be used.
        """
        self._alive()
        services = self._parts.services
        limit_s = services.settings.timeouts.source_s if timeout_s is None else timeout_s
        return await models_of(await self._parts.capabilities.providers(provider), services.caller, limit_s)

    async def parse_plan(self, text: str, goal: str = "", *, parser: str = "json") -> Plan:
        """Return the plan in *text*, read by the installed parser called *parser*. Raises PlanParseError."""
        self._alive()
        return (await self._parts.capabilities.parser(parser)).parse(text, goal)

    # ---- looking in ----------------------------------------------------------------------

    async def load_all(self) -> None:
        """Load every plugin that may run, and list all tools, now instead of when they are needed.

        ``plugins`` says what became of each. Raises ConfigError for settings of tools that there are not.
        """
        self._alive()
        await self._parts.plugins.load_all()
        await self._parts.toolbox.tools(("*",))

    @property
    def plugins(self) -> tuple[tuple[PluginRecord, str, str], ...]:
        """Every installed plugin with its state now and the reason for it."""
        states = self._parts.plugins.states
        return tuple(
            (record, *states.get(registered_name(record) if record.is_first else "", (record.state, record.reason)))
            for record in self._parts.plugins.catalog.records
        )

    @property
    def chains(self) -> Chains:
        """The hook chains in force, in order, and the digest that names them."""
        return self._parts.services.chains

    def _alive(self) -> None:
        if self._closed:
            raise SessionError("the host is closed; open another one with Host.open(…)")


def _check_types(*, tools: object, limits: object, config: object, settings: object) -> None:
    """Raise TypeError for the mistakes of a caller without a type checker that would else be told late or oddly."""
    if isinstance(tools, str):
        raise TypeError(f"tools: expected several, got the text {tools!r}; write tools=[{tools!r}]")
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
        check_given(messages)
    except ValueError as error:
        raise SessionError(f"the given history is not whole: {error}") from error
    return clean_history(messages)


def _merged(
    base: HostSettings,
    model: str,
    system: str,
    limits: GivenLimits | None,
    *,
    strict: bool | None,
    plugins: Mapping[str, Any] | None,
) -> HostSettings:
    return base._replace(
        model=model or base.model,
        system=system or base.system,
        limits=limited(base.limits, limits),
        strict=base.strict if strict is None else strict,
        plugins={**base.plugins, **(plugins or {})},
    )


def _path(value: str | os.PathLike[str] | None) -> Path | None:
    return None if value is None else Path(value).expanduser().resolve()


# ---- model lists -------------------------------------------------------------------------


Models: TypeAlias = tuple[ModelInfo, ...] | PluggentError
"""What one provider has, or why that is not known."""


class NoModelList(PluggentError):  # noqa: N818 (a fact, not a failure)
    """A provider cannot say which models it has; they can be used all the same."""

    def __init__(self, provider: str) -> None:
        self.provider = provider
        super().__init__(f"the provider '{provider}' does not say which models it has; see its documentation")


async def models_of(
    providers: Mapping[str, Provider | PluggentError], caller: Caller, limit_s: float
) -> Mapping[str, Models]:
    """Return what each provider has, under its name; one that fails hides no other. Each has *limit_s* seconds."""
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
        found = await caller.bounded(provider.list_models(), lambda: deadline - perf_counter())
    except KeyboardInterrupt:
        raise
    except PluggentError as error:
        return error
    except Late:
        return ProviderError(ProviderErrorKind.TIMEOUT, f"gave no list within {limit_s:g} s", provider=name)
    except asyncio.CancelledError as error:
        if being_cancelled():
            raise
        return _broken(name, f"failed in list_models: {said(error)}")
    except BaseException as error:  # noqa: BLE001 (a plugin may raise anything; it becomes a value)
        return _broken(name, f"failed in list_models: {said(error)}")
    return _checked(name, found)


def _checked(name: str, found: object) -> Models:
    items = tuple(cast("Sequence[object]", found)) if isinstance(found, Sequence) else (found,)
    models = tuple(item for item in items if isinstance(item, ModelInfo))
    wrong = [type(item).__name__ for item in items if not isinstance(item, ModelInfo)]
    if wrong:
        return _broken(name, f"list_models returned {wrong[0]} where ModelInfo is wanted")
    return models


def _broken(name: str, problem: str) -> ProviderError:
    return ProviderError(ProviderErrorKind.PROTOCOL, problem, provider=name)
