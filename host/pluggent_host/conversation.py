"""What a session holds between turns, and what a host lends to every turn."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from time import time
from typing import Any

import attrs
from pluggent_hookspecs.events import Observation, Scope
from pluggent_hookspecs.memory import MemoryAccess
from pluggent_hookspecs.messages import Message
from pluggent_hookspecs.models import ModelParameters

from pluggent_host.calling import Caller
from pluggent_host.capabilities import Model
from pluggent_host.chains import Chains
from pluggent_host.memories import AskSomebody
from pluggent_host.operation import Journal
from pluggent_host.operations import Operations
from pluggent_host.outputs import OutputForm
from pluggent_host.settings import HostSettings, Limits
from pluggent_host.threads import Threads
from pluggent_host.toolset import Toolset
from pluggent_host.transcript import Entry, Transcript, TurnBegan
from pluggent_host.watchers import Watchers


@attrs.frozen(eq=False)
class Services:
    """What every turn of a host shares."""

    operations: Operations
    caller: Caller
    threads: Threads
    chains: Chains
    settings: HostSettings
    tell: Callable[[Observation], None]
    memory: Callable[[str, Journal, Scope, Iterator[int], AskSomebody], MemoryAccess]
    watchers: Watchers
    model: Callable[[str], Awaitable[Model]]


@attrs.frozen(eq=False)
class Agent:
    """Whom a session talks to, and with which tools."""

    model: Model
    system: Message | None
    tools: Toolset
    parameters: ModelParameters
    limits: Limits
    workspace: Path | None
    protected: tuple[str, ...] = ()
    form: OutputForm[Any] | None = None


class Conversation:
    """Messages and their transcript: what is in ``messages`` has been appended before."""

    def __init__(self, transcript: Transcript, messages: tuple[Message, ...], unsure: frozenset[str]) -> None:
        self.transcript = transcript
        self.messages = messages
        self.unsure = set(unsure)

    def append(self, *entries: Entry) -> None:
        """Make *entries* durable."""
        if entries:
            self.transcript.append(*entries)

    def add(self, *messages: Message) -> None:
        """Take *messages* into the conversation."""
        if messages:
            self.messages = (*self.messages, *messages)


def began(scope: Scope, services: Services) -> TurnBegan:
    """Return the first entry of a turn."""
    chains = services.chains.digest
    return TurnBegan(scope.turn_id, time(), scope.origin, chains, scope.dry_run, scope.metadata)
