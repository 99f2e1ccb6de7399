"""The person at a client, asked by elicitation: for an approval, or for data that a tool requests.

The host asks only if the operator granted it (see Requester). A client is a program; only the
operator can know whether a person really answers there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from mcp.shared.exceptions import MCPError
from mcp_types import ElicitRequest, ElicitRequestFormParams, ElicitResult
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pluggent_hookspecs import (
    Accepted,
    Approval,
    ApprovalEvent,
    Cancelled,
    Declined,
    Elicited,
    QuestionEvent,
    thaw,
)
from pydantic import ValidationError

from pluggent_mcp.serving.exchanges import Context, can_answer, current

APPROVE = "approve"
FORM: dict[str, Any] = {
    "type": "object",
    "properties": {
        APPROVE: {
            "type": "boolean",
            "title": "Let this run, once",
            "description": "What is shown above and nothing else.",
            # A client that fills in what is missing refuses.
            "default": False,
        }
    },
    "required": [APPROVE],
}
ASKS = "This needs your approval:"
LONGEST_QUESTION = 20_000
"""Characters of a question; a longer one cannot be judged in a form and is not asked."""


def client_person(context: Context, may_ask: Callable[[], bool]) -> ClientPerson | None:
    """Return the person at the client of *context*; None if it does not support elicitation.

    *may_ask* is called before each question.
    """
    return ClientPerson(context, may_ask) if can_answer(context) else None


class ClientPerson:
    """Asked over the connection of the request that made a call. Implements Requester."""

    def __init__(self, context: Context, may_ask: Callable[[], bool]) -> None:
        self._context = context
        self._may_ask = may_ask
        self._exchange = current()

    async def approve(self, event: ApprovalEvent) -> Approval | None:
        """Ask for an approval of exactly *event*. A form without a yes is a denial; a cancelled one answers nothing."""
        said = await self._asked(approval_text(event), FORM)
        if said is None or said.action == "cancel":
            return None
        agreed = said.action == "accept" and (said.content or {}).get(APPROVE) is True
        return Approval(agreed, reason="answered at the client")

    async def answer(self, event: QuestionEvent) -> Elicited | None:
        """Ask for the data of *event*."""
        said = await self._asked(event.rendered, cast("dict[str, Any]", thaw(event.schema)))
        if said is None:
            return None
        match said.action:
            case "accept":
                return Accepted(said.content or {})
            case "decline":
                return Declined()
            case "cancel":
                return Cancelled("it was left at the client")

    async def _asked(self, text: str, schema: dict[str, Any]) -> ElicitResult | None:
        """Return the answer, None without one. The host sets the deadline."""
        if len(text) > LONGEST_QUESTION or not self._may_ask():
            return None
        try:
            if self._context.protocol_version in MODERN_PROTOCOL_VERSIONS:
                question = ElicitRequest(params=ElicitRequestFormParams(message=text, requested_schema=schema))
                return None if self._exchange is None else await self._exchange.ask(question, ElicitResult)
            return await self._context.session.elicit_form(text, schema, self._context.request_id)
        except (MCPError, ValidationError):
            return None  # the client cannot ask, or its answer is invalid


def approval_text(event: ApprovalEvent) -> str:
    """Return the question: the request as the host rendered it, with the reasons of the policies.

    >>> from pluggent_hookspecs import Scope
    >>> print(approval_text(ApprovalEvent(Scope(), "tool_call", "d1", "call reboot", (("acme", "is it late?"),))))
    This needs your approval:
    <BLANKLINE>
    call reboot
    <BLANKLINE>
    acme asks: is it late?
    """
    asks = "\n".join(f"{plugin} asks: {_plain(text)}" for plugin, text in event.asks if text)
    return "\n\n".join(part for part in (ASKS, event.rendered, asks) if part)


def _plain(text: str) -> str:
    return "".join(char if char.isprintable() else " " for char in text)
