"""A whole answer of chat completions, as real servers write it, becomes a ModelResponse.

Also the readings that streams need too: content, usage, why it ended, ids of calls.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias, cast

import msgspec
from pluggent_hookspecs import (
    Audio,
    FinishReason,
    Image,
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
    Usage,
    freeze,
)

from pluggent_openai.errors import Faults

Object: TypeAlias = Mapping[str, Any]

_REASONS = {
    "stop": FinishReason.STOP,
    "length": FinishReason.LENGTH,
    "tool_calls": FinishReason.TOOL_CALLS,
    "content_filter": FinishReason.CONTENT_FILTER,
    # other servers' words
    "function_call": FinishReason.TOOL_CALLS,
    "end_turn": FinishReason.STOP,
    "eos": FinishReason.STOP,
    "eos_token": FinishReason.STOP,
    "stop_sequence": FinishReason.STOP,
    "max_tokens": FinishReason.LENGTH,
}
_ANSWER = frozenset({"id", "object", "model", "choices", "usage"})
_CHOICE = frozenset({"index", "message", "delta", "finish_reason"})
_MESSAGE = frozenset({"role", "content", "refusal", "tool_calls", "function_call", "reasoning_content", "reasoning"})


class MalformedError(Exception):
    """An answer is not of the shape that chat completions have."""


def decode(data: bytes) -> Any:
    """Return the JSON value of *data*. Raises MalformedError, also for endless nesting."""
    try:
        return msgspec.json.decode(data)
    except msgspec.DecodeError as error:
        raise MalformedError(f"is not JSON: {error}") from error
    except RecursionError as error:
        raise MalformedError("is nested too deeply") from error


def read_reply(data: bytes, request: ModelRequest, faults: Faults) -> ModelResponse:
    """Return the reply in *data*. Raises ProviderError: the error it holds, or ``protocol``."""
    try:
        answer = as_object(decode(data), "the answer")
        if says_error(answer):
            raise faults.from_payload(answer)
        return _response(answer, request, faults)
    except MalformedError as error:
        shown = faults.shown(data) or "(empty)"
        raise faults.protocol(f"answered with what is no chat completion: {error}: {shown}") from error
    except RecursionError as error:
        raise faults.protocol("answered with JSON that is nested too deeply") from error


def says_error(answer: Object) -> bool:
    """Whether an answer, or a piece of a streamed one, is an error object."""
    return bool(answer.get("error")) or (answer.get("object") == "error" and "choices" not in answer)


def _response(answer: Object, request: ModelRequest, faults: Faults) -> ModelResponse:
    choices = answer.get("choices")
    if not isinstance(choices, list) or not choices:
        raise MalformedError("it has no choices")
    choice = as_object(cast("list[object]", choices)[0], "choices[0]")
    if says_error(choice):
        raise faults.from_payload(choice)
    message = read_message(as_object(choice.get("message"), "choices[0].message"), request)
    said = choice.get("finish_reason")
    if said is None and not message.content and not message.tool_calls:
        raise MalformedError("it holds neither text, refusal nor calls, and no finish_reason")
    extra = frozen(_unknown(answer, _ANSWER) | _unknown(choice, _CHOICE) | unknown_reason(said))
    return ModelResponse(
        message, finish_reason(said, calls=bool(message.tool_calls)), read_usage(answer.get("usage")),
        as_text(answer.get("model")), as_text(answer.get("id")), extra,
    )  # fmt: skip


def read_message(message: Object, request: ModelRequest) -> Message:
    """Return an assistant's message as the contract has it; vendor fields go into ``extra``."""
    parts: list[Part] = []
    if thought := as_text(message.get("reasoning_content")) or as_text(message.get("reasoning")):
        parts.append(Reasoning(thought))
    parts += read_content(message.get("content"))
    if refusal := as_text(message.get("refusal")):
        parts.append(Refusal(refusal))
    extra = _unknown(message, _MESSAGE)
    audio = extra.get("audio")
    if isinstance(audio, Mapping) and isinstance(audio.get("data"), str):
        # What is sent back is the id; the sound is a part of its own.
        parts.append(Audio(cast("str", audio["data"]), transcript=as_text(audio.get("transcript")) or None))
        extra["audio"] = {"id": audio.get("id")}
    return Message(Role.ASSISTANT, tuple(parts), tuple(_calls(message, request)), extra=extra)


def _calls(message: Object, request: ModelRequest) -> Iterator[ToolCall]:
    ids = CallIds(request)
    calls = message.get("tool_calls")
    if calls is None and message.get("function_call"):
        calls = [{"function": message["function_call"]}]
    if calls is not None and not isinstance(calls, list):
        raise MalformedError("tool_calls is no list")
    for entry in cast("list[object]", calls or []):
        call = as_object(entry, "a tool call")
        function = as_object(call.get("function"), "a tool call's function")
        name = function.get("name")
        if not isinstance(name, str) or not name:
            raise MalformedError("a tool call names no function")
        yield ToolCall(ids.unique(call.get("id")), name, arguments_text(function.get("arguments")) or "{}")


def read_content(content: object) -> list[Part]:
    """Return the parts of a content that is null, a text, or a list of parts."""
    if content is None or content == "":
        return []
    if isinstance(content, str):
        return [Text(content)]
    if not isinstance(content, list):
        raise MalformedError(f"content is {type(content).__name__}, not a text")
    return [part for item in cast("list[object]", content) for part in _content_part(item)]


def _content_part(item: object) -> list[Part]:
    if isinstance(item, str):
        return [Text(item)]
    part = as_object(item, "a part of the content")
    match part.get("type"):
        case "text" | "output_text":
            return [Text(as_text(part.get("text")))]
        case "refusal":
            return [Refusal(as_text(part.get("refusal")))]
        case "thinking" | "reasoning":
            # Mistral nests parts of text in "thinking"
            inner = part.get("thinking", part.get("text"))
            return [Reasoning("".join(p.text for p in read_content(inner) if isinstance(p, Text | Reasoning)))]
        case "image_url":
            url: Any = part.get("image_url")
            return [Image(url=as_text(cast("Object", url).get("url") if isinstance(url, dict) else url))]
        case kind:
            raise MalformedError(f"the content has a part of the unknown type {kind!r}")


def read_usage(usage: object) -> Usage:
    """Return the token counts; what the server did not say stays None."""
    if not isinstance(usage, Mapping):
        return Usage()
    counts = cast("Object", usage)
    sent, made = counts.get("prompt_tokens_details"), counts.get("completion_tokens_details")
    cached = _count(sent, "cached_tokens")
    return Usage(
        input=_count(counts, "prompt_tokens"),
        output=_count(counts, "completion_tokens"),
        cached=cached if cached is not None else _count(counts, "prompt_cache_hit_tokens"),  # DeepSeek
        reasoning=_count(made, "reasoning_tokens"),
        audio=_count(made, "audio_tokens"),
    )


def _count(counts: object, name: str) -> int | None:
    value = cast("Object", counts).get(name) if isinstance(counts, Mapping) else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def finish_reason(said: object, *, calls: bool) -> FinishReason:
    """Return why a reply ended. Calls decide where the server said nothing or just ``stop``."""
    reason = FinishReason.STOP if said is None else _REASONS.get(str(said).lower(), FinishReason.OTHER)
    return FinishReason.TOOL_CALLS if calls and reason is FinishReason.STOP else reason


def unknown_reason(said: object) -> dict[str, Json]:
    """Return a reason that the contract has no word for, to be kept."""
    return {} if said is None or str(said).lower() in _REASONS else {"finish_reason": str(said)}


def unknown_fields(chunk: Object) -> dict[str, Json]:
    """Return the vendor's own fields of an answer or of a piece of a streamed one."""
    return _unknown(chunk, _ANSWER)


def frozen(extra: dict[str, Json]) -> Mapping[str, Json]:
    """Return *extra* read-only all the way down, as everything that is handed out."""
    return cast("Mapping[str, Json]", freeze(extra))


def _unknown(fields: Object, known: frozenset[str]) -> dict[str, Json]:
    return {name: value for name, value in fields.items() if name not in known and value not in (None, [], {})}


def arguments_text(arguments: object) -> str:
    """Return a call's arguments as text: as they came, or encoded if they came as JSON."""
    if arguments is None:
        return ""
    return arguments if isinstance(arguments, str) else msgspec.json.encode(arguments).decode()


def as_object(value: object, what: str) -> Object:
    """Return *value* if it is a JSON object. Raises MalformedError naming *what* is none."""
    if not isinstance(value, dict):
        raise MalformedError(f"{what} is no object")
    return cast("Object", value)


def as_text(value: object) -> str:
    """Return *value* if it is a text, otherwise the empty one."""
    return value if isinstance(value, str) else ""


class CallIds:
    """Gives every call of a reply an id of its own, also where the server gives none or one twice.

    A missing one becomes ``call_<n>``, the first that neither the reply nor the request's
    history has, so that a repeated request has the same ids.
    """

    def __init__(self, request: ModelRequest) -> None:
        self._request = request
        self._used: set[str] = set()
        self._history: frozenset[str] | None = None
        self._next = 0

    def unique(self, given: object) -> str:
        """Return *given* if it can stand, otherwise one that is new."""
        chosen = given if isinstance(given, str) and given and given not in self._used else self._made()
        self._used.add(chosen)
        return chosen

    def _made(self) -> str:
        if self._history is None:
            # Walks the history, but only for servers that give no ids.
            self._history = frozenset(call.id for message in self._request.messages for call in message.tool_calls)
        while (made := f"call_{self._next}") in self._used or made in self._history:
            self._next += 1
        return made
