"""The host: finds plugins, opens them, and hands out sessions."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from pathlib import Path
from time import time
from typing import Any

import pluggent_hookspecs
from pluggent_hookspecs.errors import ConfigError, SessionError
from pluggent_hookspecs.events import (
    ApprovalEvent,
    DecisionMade,
    Observation,
    PluginStateChanged,
    Scope,
    SessionOpened,
)
from pluggent_hookspecs.hooks import hookimpl
from pluggent_hookspecs.memory import MemoryAccess, MemoryStore
from pluggent_hookspecs.messages import Message
from pluggent_hookspecs.models import ModelParameters, Provider
from pluggent_hookspecs.plans import Plan

from pluggent_host.calling import Caller
from pluggent_host.catalog import Catalog, PluginRecord, catalog
from pluggent_host.chains import Chains, build
from pluggent_host.conversation import Agent, Conversation, Services
from pluggent_host.discovery import Discovery, discover
from pluggent_host.memories import Memory
from pluggent_host.nearest import nearest
from pluggent_host.observers import Observers
from pluggent_host.operations import Journal, Operations
from pluggent_host.pluginset import PluginSet
from pluggent_host.session import Session
from pluggent_host.settings import HostSettings, Limits
from pluggent_host.threads import Threads
from pluggent_host.toolbox import ToolChoice, Toolbox
from pluggent_host.transcript import Given, MemoryTranscript, SessionBegan, Transcript, rebuild
from pluggent_host.turn import TurnResult
from pluggent_host.version import VERSION

DEFAULT_MODEL = "offline/demo"
"""What answers where no model is configured: no network, no key, and it says so."""

Approver = Callable[[ApprovalEvent], Awaitable[bool | None] | bool | None]


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
        self, plugins: PluginSet, services: Services, observers: Observers, toolbox: Toolbox, defaults: _Defaults
    ) -> None:
        self._plugins = plugins
        self._services = services
        self._observers = observers
        self._toolbox = toolbox
        self._defaults = defaults
        self._sessions: set[Session] = set()
        self._providers: dict[str, tuple[str, Provider, str]] = {}
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
        settings: Mapping[str, Any] | None = None,
        system: str = "",
        limits: Limits | None = None,
        strict: bool | None = None,
        config: HostSettings | None = None,
        installed: bool | Discovery = True,
        acknowledged: Callable[[PluginRecord], bool] | None = None,
        state_dir: str | os.PathLike[str] | None = None,
        workspace: str | os.PathLike[str] | None = None,
    ) -> AsyncIterator[Host]:
        """Open a host. No file is read; everything is composed here.

        *model* is ``provider/model`` (default: ``offline/demo``, which needs nothing). *tools*
        are what sessions offer: functions, Tool objects, names of installed tools or tool
        plugins, or ``"*"`` for all that are installed. *plugins* and *policies* are plugin
        objects of your own; the application counts as the operator. *approver* answers asks: it
        gets an ApprovalEvent and returns True, False or None. *settings* maps plugin ids to their
        settings. *config* holds everything else (see HostSettings); what is given here wins.

        *installed* False uses no installed plugin at all. *acknowledged* is asked about every
        third-party package with hooks; where it says no, the host does not open. *state_dir*
        makes sessions durable, in its folder ``sessions``; without it they last as long as they
        are open. *workspace* is the folder that tools work in.

        Raises ConfigError and PluginError, before anything has run.
        """
        merged = _merged(config or HostSettings(), model, system, limits, strict, settings)
        host = await cls._assemble(
            merged, plugins, policies, approver, tuple(tools), installed, acknowledged, _path(state_dir), _path(workspace)
        )
        try:
            yield host
        finally:
            await host._close()

    @classmethod
    def run_sync(cls, prompt: str, **options: Any) -> TurnResult:
        """Open a host with *options* (see ``open``), run one turn, close it, return the result.

        For scripts without an event loop. Raises SessionError inside a running one.

        >>> Host.run_sync("hello").why
        <Why.COMPLETED: 'completed'>
        """
        with contextlib.suppress(RuntimeError):
            asyncio.get_running_loop()
            raise SessionError("Host.run_sync() was called inside a running event loop; use `await session.say(…)` there")

        async def main() -> TurnResult:
            async with cls.open(**options) as host, await host.session() as session:
                return await session.say(prompt)

        return asyncio.run(main())

    @classmethod
    async def _assemble(
        cls, settings: HostSettings, plugins: Iterable[object], policies: Iterable[object], approver: Approver | None,
        tools: tuple[ToolChoice, ...], installed: bool | Discovery, acknowledged: Callable[[PluginRecord], bool] | None,
        state_dir: Path | None, workspace: Path | None,
    ) -> Host:  # fmt: skip
        found = _catalog(settings, installed, acknowledged)
        early: list[PluginStateChanged] = []
        tellers: list[Callable[[Observation], None]] = [early.append]  # type: ignore[list-item] # only states come so early
        pluginset = PluginSet(found, settings, VERSION, lambda event: tellers[-1](event))
        pluginset.register_in_code([*plugins, *policies, *([_Approver(approver)] if approver is not None else [])])
        pluginset.load_hooks()
        _check_required(settings, pluginset)
        chains = build(pluginset.manager, settings, {record.id: record.version for record in found.records})
        threads = Threads()
        caller = Caller(threads)
        observers = Observers(chains["observe"], caller, settings.timeouts.observe_s)
        toolbox = Toolbox(pluginset, settings)
        pluginset.tools_named = toolbox.named
        tellers.append(observers.tell)
        operations = Operations(chains, caller, settings, observers.tell)
        host_holder: list[Host] = []
        services = Services(
            operations, caller, threads, chains, settings, observers.tell,
            lambda store, journal, scope: host_holder[0]._memory(store, journal, scope),
        )  # fmt: skip
        host = cls(pluginset, services, observers, toolbox, _Defaults(settings, tools, state_dir, workspace))
        host_holder.append(host)
        try:
            await pluginset.open_hooks()
            for event in early:
                observers.tell(event)
        except BaseException:
            await host._close()
            raise
        return host

    async def _close(self) -> None:
        self._closed = True
        for session in tuple(self._sessions):
            await session.aclose()
        close_s = self._services.settings.timeouts.close_s
        await self._observers.close(close_s)
        await self._plugins.aclose()
        await self._services.caller.close(close_s)
        self._services.threads.close()

    # ---- sessions ------------------------------------------------------------------------

    async def session(
        self,
        id: str = "",
        *,
        model: str = "",
        system: str | None = None,
        tools: Iterable[ToolChoice] | None = None,
        parameters: ModelParameters | None = None,
        limits: Limits | None = None,
        history: Iterable[Message] = (),
        origin: str = "api",
        agent: str = "",
        principal: str = "",
        channel: str = "",
        chat_id: str = "",
    ) -> Session:
        """Open a session. With ``state_dir``, an *id* that exists goes on where it stopped.

        *model*, *system* and *tools* default to the host's; *history* precedes the first turn of
        a new session. A call that a crash interrupted is closed, never repeated. Raises
        ConfigError for an unknown model or tool, SessionError if another process has the session.
        """
        self._alive()
        chosen = self._defaults.tools if tools is None else tuple(tools)
        toolset = await self._toolbox.toolset(chosen)
        id = id or f"s{int(time()):x}-{secrets.token_hex(4)}"
        transcript = self._transcript(id)
        try:
            past = rebuild(transcript.entries())
            name = model or past.model or self._services.settings.model or DEFAULT_MODEL
            if name not in self._providers:
                self._providers[name] = await self._provider(name)
            capability, provider, model_name = self._providers[name]
            text = system if system is not None else past.system or self._services.settings.system
            began = () if past.model or past.turns else (SessionBegan(id, time(), name, text),)
            given = tuple(history) if not past.messages else ()
            transcript.append(*began, *((Given(given),) if given else ()), *past.closing)
            conversation = Conversation(transcript, (*past.messages, *given), past.unsure)
        except BaseException:
            transcript.close()
            raise
        who = Agent(
            provider, capability, model_name, Message.system(text) if text else None, toolset,
            parameters or ModelParameters(), limits or self._services.settings.limits, self._defaults.workspace,
        )  # fmt: skip
        scope = Scope(id, "", origin, agent, principal, channel, chat_id, str(self._defaults.workspace or ""))
        session = Session(self._services, conversation, who, scope, past.turns, past.usage, self._sessions.discard)
        self._sessions.add(session)
        self._services.tell(SessionOpened(scope, name, tuple(toolset), self._services.chains.digest))
        return session

    def _transcript(self, id: str) -> Transcript:
        if self._defaults.state_dir is None:
            return MemoryTranscript()
        # Only durable sessions need the converter of all types behind it.
        from pluggent_host.transcript_file import FileTranscript  # noqa: PLC0415

        return FileTranscript(self._defaults.state_dir / "sessions", id)

    # ---- capabilities --------------------------------------------------------------------

    def memory(self, store: str = "", *, principal: str = "") -> MemoryAccess:
        """Return a memory store by name (default: the only one), each call under the memory policies."""
        self._alive()
        return self._memory(store, _HostJournal(self._services.tell), Scope(origin="api", principal=principal))

    def _memory(self, store: str, journal: Journal, scope: Scope) -> MemoryAccess:
        return Memory(lambda: self._store(store), self._services.operations, journal, scope)

    async def _store(self, name: str) -> tuple[str, MemoryStore]:
        self._alive()
        for offer in await self._plugins.offers("memory", ()):
            for store in offer.things:
                if name in ("", store.name):
                    return f"{offer.plugin}:memory/{store.name}", store
        usable = self._plugins.catalog.available("memory")
        if not name and len(usable) == 1:
            name = usable[0].name
        if not name:
            have = ", ".join(record.name for record in usable) or "none"
            raise ConfigError("memory", [f"say which memory store; installed: {have}"])
        offer = await self._plugins.offer(self._plugins.catalog.find("memory", name))
        return f"{offer.plugin}:memory/{offer.things[0].name}", offer.things[0]

    async def parse_plan(self, text: str, goal: str = "", *, parser: str = "json") -> Plan:
        """Return the plan in *text*, read by the installed parser called *parser*. Raises PlanParseError."""
        self._alive()
        offer = await self._plugins.offer(self._plugins.catalog.find("parser", parser))
        plan: Plan = offer.things[0].parse(text, goal)
        return plan

    async def _provider(self, model: str) -> tuple[str, Provider, str]:
        name, slash, rest = model.partition("/")
        if not slash or not name or not rest:
            raise ConfigError("model", [f"{model!r} is no model: write provider/model, such as openai/gpt-5-mini"])
        for offer in await self._plugins.offers("provider", ()):
            for provider in offer.things:
                if provider.name == name:
                    return f"{offer.plugin}:provider/{name}", provider, rest
        known = self._plugins.catalog.available("provider")
        if not any(record.name == name for record in known):
            for offer in await self._plugins.offers("provider", [r for r in known if r.id in self._services.settings.plugins]):
                for provider in offer.things:
                    if provider.name == name:
                        return f"{offer.plugin}:provider/{name}", provider, rest
        offer = await self._plugins.offer(self._plugins.catalog.find("provider", name))
        for provider in offer.things:
            if provider.name == name:
                return f"{offer.plugin}:provider/{name}", provider, rest
        have = [provider.name for provider in offer.things]
        raise ConfigError("model", [f"plugin '{offer.plugin}' provides {', '.join(have)}, not {name!r}{nearest(name, have)}"])

    # ---- looking in ----------------------------------------------------------------------

    @property
    def plugins(self) -> tuple[tuple[PluginRecord, str, str], ...]:
        """Every installed plugin with its state now and the reason for it."""
        from pluggent_host.loading import registered_name  # noqa: PLC0415

        return tuple(
            (record, *self._plugins.states.get(registered_name(record), (record.state, record.reason)))
            for record in self._plugins.catalog.records
        )

    @property
    def chains(self) -> Chains:
        """The hook chains in force, in order, and the digest that names them."""
        return self._services.chains

    def _alive(self) -> None:
        if self._closed:
            raise SessionError("the host is closed; open another one with Host.open(…)")


class _Defaults:
    """What sessions get where they are not told otherwise."""

    def __init__(
        self, settings: HostSettings, tools: tuple[ToolChoice, ...], state_dir: Path | None, workspace: Path | None
    ) -> None:
        self.settings = settings
        self.tools = tools
        self.state_dir = state_dir
        self.workspace = workspace


class _Approver:
    """An application's approver function as a plugin object."""

    def __init__(self, approve: Approver) -> None:
        self._approve = approve

    @hookimpl
    def resolve_approval(self, event: ApprovalEvent) -> Awaitable[bool | None] | bool | None:
        return self._approve(event)


class _HostJournal:
    """Where operations outside any session leave their traces: with the observers."""

    def __init__(self, tell: Callable[[Observation], None]) -> None:
        self.tell = tell

    def record(self, decision: DecisionMade) -> None:
        """Nothing but observers keeps what belongs to no session."""


def _merged(
    base: HostSettings, model: str, system: str, limits: Limits | None, strict: bool | None,
    plugins: Mapping[str, Any] | None,
) -> HostSettings:  # fmt: skip
    return base._replace(
        model=model or base.model,
        system=system or base.system,
        limits=limits or base.limits,
        strict=base.strict if strict is None else strict,
        plugins={**base.plugins, **(plugins or {})},
    )


def _path(value: str | os.PathLike[str] | None) -> Path | None:
    return None if value is None else Path(value).expanduser().resolve()


def _catalog(
    settings: HostSettings, installed: bool | Discovery, acknowledged: Callable[[PluginRecord], bool] | None
) -> Catalog:
    found = Discovery(()) if installed is False else discover() if installed is True else installed
    known = catalog(
        found, settings.selection, pluggent_hookspecs.__version__, aliases=settings.aliases, required=settings.required
    )
    problems = [str(problem) for problem in known.problems if problem.fatal]
    if unknown := sorted(settings.plugins.keys() - {record.id for record in known.records}):
        ids = {record.id for record in known.records}
        problems += [f"settings for '{id}', which is not installed{nearest(id, ids)}" for id in unknown]
    if acknowledged is not None:
        problems += [
            f"plugin '{record.id}' {record.version} has hooks that see everything and was not accepted yet;"
            f" accept it: pluggent trust --plugin {record.id}, or leave it out: --without {record.id}"
            for record in known.available("hooks")
            if not acknowledged(record)
        ]
    if problems:
        raise ConfigError("plugins", problems)
    return known


def _check_required(settings: HostSettings, plugins: PluginSet) -> None:
    problems: list[str] = []
    for id, hooks in settings.required.items():
        if plugins.states.get(id, ("", ""))[0] != "active":
            problems.append(f"plugin '{id}' is required and does not run: install it, or take it out of [required]")
            continue
        have = {
            caller.name
            for caller in plugins.manager.get_hookcallers(plugins.manager.get_plugin(id)) or ()
        }
        problems += [f"plugin '{id}' is required to implement {hook} and does not" for hook in hooks if hook not in have]
    if problems:
        raise ConfigError("required", problems)


