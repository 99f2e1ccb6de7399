"""Decides what the offline provider replies. Pure: the same request gets the same reply."""

from __future__ import annotations

import json
from collections.abc import Mapping

import attrs
from pluggent_hookspecs import (
    FinishReason,
    Message,
    ModelParameters,
    ModelRequest,
    ModelResponse,
    Role,
    ToolCall,
    ToolSpec,
    Usage,
    thaw,
)

from pluggent_offline import messages, request_checks
from pluggent_offline.grammar import Call, GrammarError, Rounds, first_word, parse
from pluggent_offline.schema_instances import NoInstanceError, as_text, smallest

_WORDS = object()


@attrs.frozen
class Turn:
    """The last thing that the person said, and what has happened since."""

    asked: Message
    since: tuple[Message, ...]

    @property
    def rounds_done(self) -> int:
        """How often tools were called since the person spoke."""
        return sum(1 for message in self.since if message.tool_calls)


def answer(request: ModelRequest) -> ModelResponse:
    """Return the reply to *request*.

    Raises ProviderError ``bad_request`` for what cannot be done here: a parameter that means
    nothing without a model, a schema that no value was found for, a call that has to be made and
    was not typed.
    """
    choice = request_checks.checked(request)
    turn = _last_turn(request.messages)
    said = _reply(request, turn, choice)
    if isinstance(said, str):
        if choice.required and not turn.rounds_done:
            raise request_checks.refusal(
                "tool_choice: a tool has to be called, and what was typed is not a call that I can make"
            )
        message, reason = _spoken(_in_form(said, turn, request.parameters), request.parameters)
    else:
        message, reason = _calling(said)
    usage = Usage(sum(_words(each) for each in request.messages), _words(message), cost_usd=0.0)
    return ModelResponse(message, reason, usage, request.model)


def _in_form(said: str, turn: Turn, parameters: ModelParameters) -> str:
    """Return a reply in words as it was wanted: by a schema, or with a word on what cannot be read."""
    if parameters.output_schema is None:
        return messages.join(said, messages.not_looked_at(turn.asked.content))
    try:
        return as_text(smallest(parameters.output_schema))
    except NoInstanceError as error:
        raise request_checks.refusal(f"output_schema: {error}") from error


def _reply(request: ModelRequest, turn: Turn, choice: request_checks.Choice) -> str | tuple[ToolCall, ...]:
    """Return what to say, or the calls to make next."""
    tools = {tool.name: tool for tool in request.tools}
    if not turn.rounds_done and first_word(turn.asked.text) not in tools:
        return messages.introduction(tools, first_word(turn.asked.text))
    try:
        rounds = parse(turn.asked.text)
    except GrammarError as error:
        return messages.unreadable(error, tools)
    if request.parameters.parallel_tool_calls is False:
        rounds = tuple((call,) for calls in rounds for call in calls)
    allowed = {name: tool for name, tool in tools.items() if choice.allows(name)}
    return _next(request, turn, rounds, allowed, choice)


def _next(
    request: ModelRequest, turn: Turn, rounds: Rounds, tools: Mapping[str, ToolSpec], choice: request_checks.Choice
) -> str | tuple[ToolCall, ...]:
    done = turn.rounds_done
    if done >= len(rounds):
        return messages.results(turn.since)
    if choice.forbidden:
        return messages.join(messages.results(turn.since), messages.TOOLS_FORBIDDEN)
    # At first all rounds are looked at: better nothing done than half of it.
    ahead = rounds[done] if done else [call for calls in rounds for call in calls]
    for call in ahead:
        if call.name not in tools:
            return messages.join(messages.results(turn.since), messages.not_offered(call, tools, later=done > 0))
    return _calls(rounds[done], len(request.messages))


def _calls(calls: tuple[Call, ...], messages: int) -> tuple[ToolCall, ...]:
    """Return *calls* with ids that no other call of the conversation has."""
    return tuple(
        ToolCall(f"offline-{messages}-{index}", call.name, json.dumps(thaw(call.arguments), ensure_ascii=False))
        for index, call in enumerate(calls)
    )


def _calling(calls: tuple[ToolCall, ...]) -> tuple[Message, FinishReason]:
    return Message.assistant(tool_calls=calls), FinishReason.TOOL_CALLS


def _spoken(text: str, parameters: ModelParameters) -> tuple[Message, FinishReason]:
    text = text.encode(errors="replace").decode()  # what the user typed may have lone surrogates
    ends = [at for stop in parameters.stop if stop and (at := text.find(stop)) >= 0]
    text = text[: min(ends, default=len(text))]
    words, limit = text.split(), parameters.max_output_tokens
    if limit is None or len(words) <= limit:
        return Message.assistant(text), FinishReason.STOP
    return Message.assistant(" ".join(words[:limit])), FinishReason.LENGTH


def _last_turn(messages: tuple[Message, ...]) -> Turn:
    for index in range(len(messages) - 1, -1, -1):
        if messages[index].role is Role.USER:
            return Turn(messages[index], messages[index + 1 :])
    return Turn(Message.user(""), messages)


def _words(message: Message) -> int:
    return message.memo(_WORDS, _count_words)


def _count_words(message: Message) -> int:
    calls = sum(1 + len(call.arguments.split()) for call in message.tool_calls)
    return len(message.text.split()) + calls
