"""Decides what the offline provider replies. Pure: the same request gets the same reply."""

from __future__ import annotations

import json
from collections.abc import Mapping

import attrs
from pluggent_hookspecs import (
    FinishReason,
    Message,
    ModelRequest,
    ModelResponse,
    ProviderError,
    ProviderErrorKind,
    Role,
    Text,
    ToolCall,
    ToolSpec,
    Usage,
    thaw,
)

from pluggent_offline import wording
from pluggent_offline.grammar import Call, GrammarError, Rounds, first_word, parse

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

    Raises ProviderError ``bad_request`` if the reply must follow a schema.
    """
    if request.parameters.output_schema is not None:
        raise ProviderError(
            ProviderErrorKind.BAD_REQUEST,
            "there is no model here that could write JSON to a schema; configure one: --model openai/gpt-5-mini",
            provider="offline",
        )
    said = _reply(request, _last_turn(request.messages))
    message, reason = _spoken(said, request.parameters.max_output_tokens) if isinstance(said, str) else _calling(said)
    usage = Usage(sum(_words(each) for each in request.messages), _words(message), cost_usd=0.0)
    return ModelResponse(message, reason, usage, request.model)


def _reply(request: ModelRequest, turn: Turn) -> str | tuple[ToolCall, ...]:
    """Return what to say, or the calls to make next."""
    tools = {tool.name: tool for tool in request.tools}
    if unseen := [part for part in turn.asked.content if not isinstance(part, Text)]:
        return wording.cannot_look_at(unseen)
    if not turn.rounds_done and first_word(turn.asked.text) not in tools:
        return wording.introduction(tools, first_word(turn.asked.text))
    try:
        rounds = parse(turn.asked.text)
    except GrammarError as error:
        return wording.unreadable(error, tools)
    if request.parameters.parallel_tool_calls is False:
        rounds = tuple((call,) for calls in rounds for call in calls)
    return _next(request, turn, rounds, tools)


def _next(
    request: ModelRequest, turn: Turn, rounds: Rounds, tools: Mapping[str, ToolSpec]
) -> str | tuple[ToolCall, ...]:
    done = turn.rounds_done
    if done >= len(rounds):
        return wording.results(turn.since)
    if request.parameters.tool_choice == "none":
        return wording.join(wording.results(turn.since), wording.TOOLS_FORBIDDEN)
    # At first all rounds are looked at: better nothing done than half of it.
    ahead = rounds[done] if done else [call for calls in rounds for call in calls]
    for call in ahead:
        if call.name not in tools:
            return wording.join(wording.results(turn.since), wording.not_offered(call, tools, later=done > 0))
    return _calls(rounds[done], len(request.messages))


def _calls(calls: tuple[Call, ...], messages: int) -> tuple[ToolCall, ...]:
    """Return *calls* with ids that no other call of the conversation has."""
    return tuple(
        ToolCall(f"offline-{messages}-{index}", call.name, json.dumps(thaw(call.arguments), ensure_ascii=False))
        for index, call in enumerate(calls)
    )


def _calling(calls: tuple[ToolCall, ...]) -> tuple[Message, FinishReason]:
    return Message.assistant(tool_calls=calls), FinishReason.TOOL_CALLS


def _spoken(text: str, limit: int | None) -> tuple[Message, FinishReason]:
    words = text.split()
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
