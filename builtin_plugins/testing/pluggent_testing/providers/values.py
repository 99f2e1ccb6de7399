"""What a value that a provider hands out has to be like; each check says what is wrong."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast, get_args

import attrs
from pluggent_contract_values.as_json import from_json, to_json
from pluggent_hookspecs import (
    Delta,
    Finished,
    FinishReason,
    Json,
    Message,
    ModelRequest,
    ModelResponse,
    Part,
    Reasoning,
    Refusal,
    Role,
    Text,
    ToolCall,
    ToolCallDelta,
    Usage,
)

_PARTS = get_args(Part)
_DELTAS = get_args(Delta)
_SHARES = (("cached", "input"), ("cache_write", "input"), ("input_audio", "input"), ("reasoning", "output"),
           ("audio", "output"))  # fmt: skip


def check_reply(reply: object) -> ModelResponse:
    """Return *reply*, which is a value of the contract through and through, and makes sense."""
    value = check_value(reply)
    _check_reason(value)
    _check_shares(value.usage)
    return value


def check_value(reply: object) -> ModelResponse:
    """Return *reply*, which is a value of the contract through and through, whatever it says."""
    assert isinstance(reply, ModelResponse), f"expected a ModelResponse, got {type(reply).__name__}"
    assert isinstance(reply.finish_reason, FinishReason), f"finish_reason is {reply.finish_reason!r}"
    assert type(reply.model) is str, f"model is {reply.model!r}"
    assert type(reply.id) is str, f"id is {reply.id!r}"
    check_message(reply.message)
    check_usage(reply.usage)
    check_read_only(reply.extra, "extra")
    return reply


def _check_reason(reply: ModelResponse) -> None:
    calls = bool(reply.message.tool_calls)
    assert calls or reply.finish_reason is not FinishReason.TOOL_CALLS, "ended for tool calls, and has none"
    assert not calls or reply.finish_reason is not FinishReason.STOP, "has tool calls, and the finish_reason 'stop'"


def check_message(message: Message) -> None:
    """Check a message of the assistant."""
    assert isinstance(message, Message), f"the reply's message is {type(message).__name__}"
    assert message.role is Role.ASSISTANT, f"the reply has role {message.role}"
    assert message.tool_call_id is None, "a reply is not the result of a call"
    for part in message.content:
        check_part(part)
    ids = [call.id for call in message.tool_calls]
    assert len(set(ids)) == len(ids), f"two calls have one id: {ids}"
    for call in message.tool_calls:
        check_call(call)
    check_extra(message.extra, "extra of the message")


def check_part(part: object) -> None:
    """Check a part of a reply's content."""
    assert isinstance(part, _PARTS), f"a part of the content is {type(part).__name__}"
    if isinstance(part, Text | Refusal | Reasoning):
        assert type(part.text) is str, f"the text of a part is {type(part.text).__name__}"


def check_call(call: ToolCall) -> None:
    """Check a tool call."""
    assert isinstance(call, ToolCall), f"a tool call is {type(call).__name__}"
    assert type(call.id) is str, f"the id of a call is {call.id!r}"
    assert type(call.name) is str, f"the name of a call is {call.name!r}"
    assert type(call.arguments) is str, f"the arguments of a call are {type(call.arguments).__name__}, not text"
    assert call.id, f"a call of '{call.name}' has no id"
    assert call.name, f"the call '{call.id}' names no tool"
    check_extra(call.extra, f"extra of the call '{call.id}'")


def check_extra(extra: Mapping[str, Json], what: str) -> None:
    """Check vendor fields: below the names of wire formats, and read-only."""
    check_read_only(extra, what)
    for name, value in extra.items():
        assert isinstance(value, Mapping), (
            f"{what}: '{name}' is no object; vendor fields stand under the name of their wire format"
        )


def check_read_only(value: object, what: str) -> None:
    """Check that *value* is JSON, and frozen."""
    kind = type(value).__name__
    assert not isinstance(value, dict | list), f"{what}: a {kind} that anybody can change"
    if isinstance(value, Mapping):
        for name, item in cast("Mapping[object, object]", value).items():
            assert type(name) is str, f"{what}: the key {name!r} is no text"
            check_read_only(item, f"{what}.{name}")
    elif isinstance(value, tuple):
        for item in cast("tuple[object, ...]", value):
            check_read_only(item, what)
    else:
        assert value is None or isinstance(value, str | int | float), f"{what}: {kind} is no JSON"


def check_usage(usage: Usage) -> None:
    """Check counts of tokens: unknown, or not negative."""
    assert isinstance(usage, Usage), f"usage is {type(usage).__name__}"
    for name, value in attrs.asdict(usage).items():
        if name == "estimated":
            assert value is False, "only the host estimates"
        elif value is not None:
            kinds = (int, float) if name == "cost_usd" else (int,)
            assert type(value) in kinds, f"usage.{name} is {value!r}"
            assert value >= 0, f"usage.{name} is negative: {value}"


def _check_shares(usage: Usage) -> None:
    for part, total in _SHARES:
        share, all_of_it = getattr(usage, part), getattr(usage, total)
        if share is not None and all_of_it is not None:
            assert share <= all_of_it, f"usage.{total} ({all_of_it}) does not include usage.{part} ({share})"
    read, written = usage.cached, usage.cache_write
    if usage.input is not None and read is not None and written is not None:
        assert read + written <= usage.input, f"usage.input ({usage.input}) does not include {read} and {written}"


def check_deltas(deltas: Sequence[Delta]) -> None:
    """Check the deltas of one whole stream."""
    assert deltas, "the stream brought nothing"
    for delta in deltas:
        assert isinstance(delta, _DELTAS), f"a delta is {type(delta).__name__}"
        check_frozen(delta)
    ends = [index for index, delta in enumerate(deltas) if isinstance(delta, Finished)]
    assert ends, "the stream ended without Finished"
    assert len(ends) == 1, f"Finished came {len(ends)} times"
    assert ends == [len(deltas) - 1], f"{len(deltas) - 1 - ends[0]} deltas came after Finished"
    check_call_deltas([delta for delta in deltas if isinstance(delta, ToolCallDelta)])


def check_call_deltas(deltas: Iterable[ToolCallDelta]) -> None:
    """Check the pieces of tool calls: id and name in the first of an index, and nowhere else."""
    known: dict[int, ToolCallDelta] = {}
    with_extra: set[int] = set()
    for delta in deltas:
        assert type(delta.index) is int, f"the index of a call is {delta.index!r}"
        assert delta.index >= 0, f"the index of a call is {delta.index}"
        assert type(delta.arguments) is str, f"arguments of a call are {type(delta.arguments).__name__}, not text"
        first = known.setdefault(delta.index, delta)
        if first is delta:
            assert delta.id, f"the first delta of call {delta.index} has no id"
            assert delta.name, f"the first delta of call {delta.index} has no name"
        else:
            assert not delta.id, f"the id of call {delta.index} is given again: '{delta.id}'"
            assert not delta.name, f"the name of call {delta.index} is given again: '{delta.name}'"
        assert not (delta.extra and delta.index in with_extra), f"extra of call {delta.index} is given again"
        with_extra |= {delta.index} if delta.extra else set()


def check_frozen(value: Any) -> None:
    """Check that no field of an attrs value can be set."""
    cls = cast("Any", type(value))
    for field in attrs.fields(cls):
        try:
            setattr(value, field.name, getattr(value, field.name))
        except attrs.exceptions.FrozenInstanceError:
            continue
        raise AssertionError(f"{cls.__name__}.{field.name} can be set; hand out the contract's own values")


def check_written_down(value: object, type_: Any) -> None:
    """Check that *value* is the same after it was JSON."""
    assert from_json(to_json(value), type_) == value, f"{value} is another value after it was JSON"


# ---- comparing ---------------------------------------------------------------------------


def calls_of(reply: ModelResponse) -> list[tuple[str, object]]:
    """Return the calls of *reply* by name and arguments, as the model made them."""
    return [(name, arguments) for _, name, arguments, _ in calls_of_message(reply.message)]


def calls_of_message(message: Message) -> list[tuple[str, str, object, Mapping[str, Json]]]:
    """Return the calls of *message*, arguments as what they say and not as how they are spaced."""
    return [(call.id, call.name, json.loads(call.arguments), call.extra) for call in message.tool_calls]


def told_by(reply: ModelResponse) -> list[object]:
    """Return what two replies to one request have in common: all but the ids that a server gives anew."""
    usage = attrs.evolve(reply.usage)
    return [list(reply.message.content), calls_of(reply), reply.finish_reason, usage, reply.model]


def snapshot(request: ModelRequest) -> bytes:
    """Return *request* as it is now, to be compared with what it is later."""
    return to_json(request)
