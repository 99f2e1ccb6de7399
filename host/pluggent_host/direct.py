"""A tool called by a person or an application, not by a model: the same path, no conversation."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

from pluggent_hookspecs._frozen import Json, thaw
from pluggent_hookspecs.events import Scope
from pluggent_hookspecs.messages import Message, ToolCall, Usage
from pluggent_hookspecs.tools import ToolOutput

from pluggent_host.batch import run_batch
from pluggent_host.conversation import Agent, Conversation, Services, began
from pluggent_host.transcript import TurnOver
from pluggent_host.turn import Turn


class _DirectTurn(Turn):
    """A turn whose results join no conversation."""

    @property
    def pauses(self) -> bool:
        return False  # who calls by hand is there to be asked, or nobody is

    def add(self, *messages: Message) -> None:
        """Take nothing."""


async def call_directly(
    services: Services,
    conversation: Conversation,
    agent: Agent,
    scope: Scope,
    name: str,
    arguments: str | Mapping[str, Json],
    book: Callable[[Usage], None],
) -> ToolOutput:
    """Run one call as a batch of one and return its output, failures and denials included; *book* what it used."""
    text = arguments if isinstance(arguments, str) else json.dumps(thaw(arguments), ensure_ascii=False)
    turn = _DirectTurn(services, conversation, agent, scope, None)
    turn.append(began(scope, services))
    try:
        run = await run_batch(turn, await agent.offer.latest(), (ToolCall(f"{scope.turn_id}.direct", name, text),), 0)
    finally:
        book(turn.usage)
        turn.append(TurnOver(scope.turn_id, "direct", usage=turn.usage))
    return run.outputs[0]
