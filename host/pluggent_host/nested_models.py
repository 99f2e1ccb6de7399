"""A model call that a tool asks for: without the session's history and tools, under the same policies."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from time import perf_counter
from typing import Any

import attrs
from pluggent_hookspecs import errors
from pluggent_hookspecs.decisions import Ask
from pluggent_hookspecs.events import ModelRequestEvent
from pluggent_hookspecs.messages import Message, Role, Text
from pluggent_hookspecs.models import ModelParameters, ModelRequest, ModelResponse

from pluggent_host.batch import TOO_OFTEN
from pluggent_host.decided import Answered, Asked, Denied, Ready
from pluggent_host.modelcalls import ModelCallOperation, message_digest
from pluggent_host.nesting import Nesting
from pluggent_host.quoting import quoted
from pluggent_host.toolcalls import ToolCallOperation
from pluggent_host.toolset import Toolset
from pluggent_host.transcript import Spending
from pluggent_host.wellformed import clean, clean_message

NOBODY = "a person has to agree to this model call, and nobody was there to ask"
REFUSED = "a person has already refused exactly this model call"


@attrs.frozen
class Prompt:
    """What a tool wants to ask. ``why``, if there is one, is why a person has to agree first."""

    messages: tuple[Message, ...]
    parameters: ModelParameters
    why: str = ""


class NestedModelCall(ModelCallOperation):
    """A model call of a tool. With ``agreement`` a person has to agree, whatever policies allow."""

    agreement: Ask | None = None

    def doubt(self, event: ModelRequestEvent) -> Ask | None:
        return self.agreement

    def rendered(self, event: ModelRequestEvent) -> str:
        request = event.request
        most = request.parameters.max_output_tokens
        head = f"ask {quoted(request.model)} at {quoted(event.target)}, at most {most or 'any number of'} tokens back:"
        return "\n".join([head, *(line for message in request.messages for line in _lines(message))])

    async def reissued(self, changed: Any, model: str, number: int) -> ModelCallOperation:
        child = await super().reissued(changed, model, number)
        assert isinstance(child, NestedModelCall)
        child.agreement = self.agreement
        return child


def prompt_of(prompt: str | Sequence[Message], system: str, parameters: ModelParameters | None, why: str) -> Prompt:
    """Return the request that a tool makes. Raises ValueError and TypeError for what is no conversation."""
    given: Sequence[object] = (Message.user(prompt),) if isinstance(prompt, str) else tuple(prompt)
    if not given:
        raise ValueError("prompt: there is no message in it")
    above = (Message.system(clean(system)),) if system else ()
    return Prompt((*above, *map(_said, given)), parameters or ModelParameters(), why)


def _said(message: object) -> Message:
    if not isinstance(message, Message):
        raise TypeError(f"prompt: expected text or messages, got {type(message).__name__}")
    if message.role not in (Role.USER, Role.ASSISTANT) or message.tool_calls:
        what = "with calls of tools" if message.tool_calls else f"of role {message.role}"
        raise ValueError(f"prompt: a message {what}; there can be messages of user and assistant, without calls")
    return clean_message(message)


async def ask_model(nesting: Nesting, outer: ToolCallOperation, prompt: Prompt) -> ModelResponse:
    """Ask the session's model. Raises Denied and ProviderError."""
    agent, turn, services = nesting.agent, nesting.turn, nesting.services
    request = ModelRequest(agent.model.name, prompt.messages, (), prompt.parameters)
    call = NestedModelCall(
        turn, nesting.scope(outer), agent.model.provider, agent.model.capability, request, Toolset(),
        outer.event.round, lambda: services.settings.timeouts.model_s, None, services.model,
        lambda asked: nesting.put(asked, outer), nesting.next_id(outer),
    )  # fmt: skip
    if prompt.why:
        who = f"'{outer.tool.plugin}', for its tool '{outer.tool.spec.name}'"
        call.agreement = Ask(f"{who}, wants to ask the model: {clean(prompt.why)}", reach="once")
    return await _performed(nesting, outer, call, await _agreed(nesting, outer, call))


async def _agreed(
    nesting: Nesting, outer: ToolCallOperation, call: NestedModelCall
) -> Ready[ModelRequestEvent, ModelResponse] | Answered[ModelRequestEvent, ModelResponse]:
    turn = nesting.turn
    decided = await nesting.services.operations.decide(call)
    if isinstance(decided, Asked):
        fingerprint = _fingerprint(outer, decided.event)
        if fingerprint in turn.refused or not turn.may_ask():
            why = REFUSED if fingerprint in turn.refused else TOO_OFTEN
            raise errors.Denied("host", why, decided.event.digest)
        answer = await nesting.put(decided, outer)
        if isinstance(answer, Denied):
            turn.refused.add(fingerprint)
        decided = answer or decided
    match decided:
        case Denied(by=by, deny=deny):
            outer.ends_turn = outer.ends_turn or deny.ends_turn
            raise errors.Denied(by, deny.tell_model, decided.event.digest)
        case Asked():
            raise errors.Denied("host", NOBODY, decided.event.digest)
        case Ready() | Answered():
            return decided


async def _performed(
    nesting: Nesting, outer: ToolCallOperation, call: NestedModelCall,
    agreed: Ready[ModelRequestEvent, ModelResponse] | Answered[ModelRequestEvent, ModelResponse],
) -> ModelResponse:  # fmt: skip
    turn = nesting.turn
    started, failure, finish = perf_counter(), "", ""
    try:
        response = await nesting.services.operations.perform(agreed)
        finish = response.finish_reason
        return response
    except errors.Denied as refused:
        failure = refused.reason
        # What is for the person stays out of what the tool, and by it the model, reads.
        raise errors.Denied(refused.by, refused.tell_model, refused.digest) from refused
    except BaseException as error:
        failure = str(error) or type(error).__name__
        raise
    finally:
        outer.ends_turn = outer.ends_turn or call.ends_turn
        for each in call.calls(perf_counter() - started, finish, failure):
            turn.spend(each.usage)
            turn.append(Spending(call.scope.turn_id, each.model, each.usage, each.error))
            turn.tell(each.event(call.scope, outer.event.round))


def _fingerprint(outer: ToolCallOperation, event: ModelRequestEvent) -> str:
    """What the call is, whichever time it is made: who asks, and what."""
    said = b"".join(message.memo(message_digest, message_digest) for message in event.request.messages)
    return hashlib.sha256(b"model\0" + outer.tool.capability.encode() + b"\0" + said).hexdigest()


def _lines(message: Message) -> list[str]:
    texts = [part.text if isinstance(part, Text) else f"[{type(part).__name__.lower()}]" for part in message.content]
    return [f"{message.role} | {quoted(line)}" for line in "\n".join(texts).split("\n")]
