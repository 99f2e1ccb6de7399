"""A whole answer of chat completions, as real servers write it, becomes a ModelResponse.

Also the readings that streams need too: content, why it ended, ids of calls.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import msgspec
from pluggent_hookspecs import (
    Audio,
    Delta,
    FinishReason,
    Image,
    Json,
    Message,
    ModelRequest,
    ModelResponse,
    Part,
    Reasoning,
    ReasoningDelta,
    Refusal,
    ReplyMeta,
    Role,
    Text,
    TextDelta,
    ToolCall,
    Usage,
    VendorPart,
)
from pluggent_provider_http.call_ids import CallIds
from pluggent_provider_http.delta_batch import Batch
from pluggent_provider_http.payload import MalformedError, Object, as_object, as_text, decode_whole
from pluggent_provider_http.server_errors import Faults
from pluggent_provider_http.token_counts import as_tokens, as_usd, plausible

from pluggent_openai.chat.content import NEVER_SENT, SIGNED, VENDOR, call_extra, custom_arguments
from pluggent_openai.chat.failed_calls import FailedCall, failed_call, failed_call_in
from pluggent_openai.chat.fragments import NOTHING
from pluggent_openai.chat.think_tags import ThinkTags
from pluggent_openai.dialects import Dialect

_STOPS = ("stop", "end_turn", "eos", "eos_token", "stop_sequence", "complete", "completed")
_LENGTHS = ("length", "max_tokens", "model_length", "max_output_tokens", "model_context_window_exceeded")
_CALLS = ("tool_calls", "function_call", "tool_use", "tool_call")
_FILTERS = (
    "content_filter", "content_filtered", "refusal", "safety", "recitation", "blocklist", "prohibited_content", "spii",
    "language", "model_armor", "guardrail_intervened", "sensitive", "error_toxic",
)  # fmt: skip
_REASONS: Mapping[str, FinishReason] = {
    **dict.fromkeys(_STOPS, FinishReason.STOP),
    **dict.fromkeys(_LENGTHS, FinishReason.LENGTH),
    **dict.fromkeys(_CALLS, FinishReason.TOOL_CALLS),
    **dict.fromkeys(_FILTERS, FinishReason.CONTENT_FILTER),
}
"""Words of OpenAI, Mistral, TGI, Cohere, Gemini, Bedrock, Zhipu, Anthropic; gateways pass them on. See README.md."""
_NO_REASON = ("", "null")
"""What servers write in place of null while a reply is under way (Snowflake Cortex; DashScope)."""
NAMELESS = "a tool call names no function"
ANSWER = frozenset({"id", "object", "model", "choices", "usage", "obfuscation", "service_tier"})
"""Fields of an answer, and of a piece of a streamed one, that have a place of their own or mean nothing."""
CHOICE = frozenset({"index", "message", "delta", "finish_reason"})
MESSAGE = frozenset(
    {"role", "content", "refusal", "tool_calls", "function_call", "reasoning_content", "reasoning", "audio", "images"}
)


def read_reply(
    data: bytes, request: ModelRequest, dialect: Dialect, faults: Faults, notes: tuple[str, ...] = ()
) -> ModelResponse:
    """Return the reply in *data*. Raises ProviderError: the error it holds, or ``protocol``."""
    try:
        answer = as_object(decode_whole(data), "the answer")
        if says_error(answer):
            if (failed := failed_call(answer)) is not None:
                return _meant(failed, request, faults, notes)
            raise faults.from_payload(answer)
        return _response(answer, request, dialect, faults, notes)
    except MalformedError as error:
        shown = faults.shown(data) or "(empty)"
        raise faults.protocol(f"answered with what is not a chat completion: {error}: {shown}") from error
    except RecursionError as error:
        raise faults.protocol("answered with JSON that is nested too deeply") from error


def read_refusal(
    body: bytes, request: ModelRequest, faults: Faults, notes: tuple[str, ...] = ()
) -> ModelResponse | None:
    """Return the reply that a refusal is, because it holds the call that the model meant; None if it is none."""
    failed = failed_call_in(body)
    return None if failed is None else _meant(failed, request, faults, notes)


def _meant(failed: FailedCall, request: ModelRequest, faults: Faults, notes: tuple[str, ...]) -> ModelResponse:
    call = ToolCall(CallIds(request).unique(None), failed.name, failed.arguments)
    meta = ReplyMeta(notes=(*notes, failed_note(failed, faults)))
    return ModelResponse(Message(Role.ASSISTANT, (), (call,)), FinishReason.TOOL_CALLS, meta=meta)


def failed_note(failed: FailedCall, faults: Faults) -> str:
    """Return what the meta of a reply says of a call that the server had refused."""
    return faults.shown(f"the server refused the call of {failed.name}, which is handed on as it is: {failed.reason}")


def says_error(answer: Object) -> bool:
    """Whether an answer, or a piece of a streamed one, is an error object."""
    return bool(answer.get("error")) or (answer.get("object") == "error" and "choices" not in answer)


def _response(
    answer: Object, request: ModelRequest, dialect: Dialect, faults: Faults, notes: tuple[str, ...]
) -> ModelResponse:
    choices = answer.get("choices")
    if not isinstance(choices, list) or not choices:
        raise MalformedError("it has no choices")
    first, *others = cast("list[object]", choices)
    choice = as_object(first, "choices[0]")
    if says_error(choice):
        raise faults.from_payload(choice)
    extra = unknown(answer, ANSWER) | unknown(choice, CHOICE)
    told = as_object(choice.get("message"), "choices[0].message")
    message = _message(told, request, dialect, extra)
    said = said_reason(choice.get("finish_reason"))
    if not message.content and not message.tool_calls:
        if names_calls(told):
            raise MalformedError(NAMELESS)
        if not said:
            raise MalformedError("it holds neither text, refusal nor calls, and no finish_reason")
    usage, counters = read_usage(answer.get("usage"), dialect)
    reason = finish_reason(said, calls=bool(message.tool_calls))
    extra |= unknown_reason(said, reason) | some(usage=counters, choices=others)
    meta = ReplyMeta(service_tier=as_text(answer.get("service_tier")), notes=notes)
    return ModelResponse(message, reason, usage, as_text(answer.get("model")), as_text(answer.get("id")), extra, meta)


def _message(message: Object, request: ModelRequest, dialect: Dialect, extra: dict[str, Json]) -> Message:
    """Return an assistant's message as the contract has it; what has no place in it goes into *extra*."""
    parts: list[Part] = []
    if thought := thinking_of(message):
        parts.append(Reasoning(thought))
    content = read_content(message.get("content"))
    parts += _parted(content) if dialect.think_tags and not parts else content
    if refusal := as_text(message.get("refusal")):
        parts.append(Refusal(refusal))
    parts += read_images(message.get("images"))
    own, rest = split_fields(unknown(message, MESSAGE), dialect)
    if isinstance(sound := message.get("audio"), dict):
        parts += read_audio(cast("Object", sound), audio_format(request, "wav"), own, extra)
    calls, said_of_calls = _calls(message, request, dialect)
    extra |= some(message=rest, tool_calls=said_of_calls)
    return Message(Role.ASSISTANT, tuple(parts), calls, extra={VENDOR: own} if own else {})


def _parted(content: list[Part]) -> list[Part]:
    """Return *content* with the thinking at its beginning taken out of the text, where tags enclose it."""
    if not content or not isinstance(first := content[0], Text) or not first.text.lstrip().startswith("<"):
        return content
    tags, batch = ThinkTags(), Batch()
    tags.feed(first.text, batch)
    tags.end(batch)
    return [*(_part_of(delta) for delta in batch.done()), *content[1:]]


def _part_of(delta: Delta) -> Part:
    assert isinstance(delta, TextDelta | ReasoningDelta)
    return Text(delta.text) if isinstance(delta, TextDelta) else Reasoning(delta.text)


def split_fields(fields: dict[str, Json], dialect: Dialect) -> tuple[dict[str, Json], dict[str, Json]]:
    """Part what belongs to the message, to be kept and sent back, from what the server has only said of it."""
    own = {name: value for name, value in fields.items() if name in NEVER_SENT or dialect.takes_back(name)}
    return own, {name: value for name, value in fields.items() if name not in own}


def thinking_of(message: Object) -> str:
    """Return the thinking that a message, or a piece of one, has in fields other than its content."""
    return as_text(message.get("reasoning_content")) or as_text(message.get("reasoning"))


def _calls(message: Object, request: ModelRequest, dialect: Dialect) -> tuple[tuple[ToolCall, ...], dict[str, Json]]:
    ids = CallIds(request)
    calls: list[ToolCall] = []
    said: dict[str, Json] = {}
    for entry in call_entries(message):
        fields = as_object(entry, "a tool call")
        name, arguments = _called(fields)
        extra, rest = call_extra(fields, dialect)
        calls.append(ToolCall(ids.unique(fields.get("id")), name, arguments, extra))
        if rest:
            said[calls[-1].id] = rest
    return tuple(calls), said


def call_entries(message: Object) -> list[object]:
    """Return the calls that a message, or a piece of one, has, without those that say nothing.

    Some servers send an empty ``function_call`` or an empty entry of ``tool_calls`` beside a text.
    """
    given: object = message.get("tool_calls") or []
    if not isinstance(given, list):
        raise MalformedError("tool_calls is not a list")
    entries = [entry for entry in cast("list[object]", given) if not _says_nothing(entry)]
    if entries or not message.get("function_call"):
        return entries
    old = {"index": 0, "function": message["function_call"]}  # before tool_calls there was one call without id
    return [] if _says_nothing(old) else [old]


def names_calls(message: Object) -> bool:
    """Whether a message, or a piece of one, has a field for calls that is not empty."""
    return bool(message.get("tool_calls") or message.get("function_call"))


def _says_nothing(entry: object) -> bool:
    """Whether an entry of ``tool_calls`` has neither id, name nor arguments."""
    if not isinstance(entry, Mapping):
        return entry is None
    fields = cast("Object", entry)
    inner = [fields.get("function"), fields.get("custom")]
    if not all(each is None or isinstance(each, Mapping) for each in inner):
        return False
    called = [cast("Object", each) for each in inner if each is not None]
    return not fields.get("id") and not any(value for each in called for value in each.values())


def _called(fields: Object) -> tuple[str, str]:
    if fields.get("type") == "custom" and fields.get("custom") is not None:
        custom = as_object(fields["custom"], "a tool call's custom")
        name, arguments = custom.get("name"), custom_arguments(as_text(custom.get("input")))
    else:
        function = as_object(fields.get("function"), "a tool call's function")
        name, arguments = function.get("name"), arguments_text(function.get("arguments")) or "{}"
    if not isinstance(name, str) or not name:
        raise MalformedError(NAMELESS)
    return name, arguments


def read_content(content: object) -> list[Part]:
    """Return the parts of a content that is null, a text, or a list of parts."""
    if content is None or content == "":
        return []
    if isinstance(content, str):
        return [Text(content)]
    if not isinstance(content, list):
        raise MalformedError(f"content is {type(content).__name__}, not a text")
    return [_content_part(item) for item in cast("list[object]", content)]


def _content_part(item: object) -> Part:
    if isinstance(item, str):
        return Text(item)
    part = as_object(item, "a part of the content")
    match part.get("type"):
        case "text" | "output_text":
            return Text(as_text(part.get("text")))
        case "refusal":
            return Refusal(as_text(part.get("refusal")))
        case "thinking" | "reasoning":
            return _thinking(part)
        case "image_url":
            return _image(part)
        case str(kind) if kind:
            return VendorPart(VENDOR, part)
        case _:
            raise MalformedError("the content has a part without a type")


def _thinking(part: Object) -> Reasoning:
    # Mistral nests parts of text in "thinking"
    inner = part.get("thinking", part.get("text"))
    thought = "".join(each.text for each in read_content(inner) if isinstance(each, Text | Reasoning))
    signature = as_text(part.get("signature"))
    return Reasoning(thought, f"{SIGNED}{signature}" if signature else None)


def read_images(images: object) -> list[Part]:
    """Return images in a field other than the content (OpenRouter)."""
    if not isinstance(images, list):
        return []
    return [_image(as_object(item, "an image")) for item in cast("list[object]", images)]


def _image(part: Object) -> Image:
    url: Any = part.get("image_url")
    found = as_text(cast("Object", url).get("url") if isinstance(url, dict) else url)
    head, comma, data = found.partition(",")
    if comma and head.startswith("data:") and head.endswith(";base64"):
        return Image(data=data, media_type=head[5:-7] or "image/png")
    return Image(url=found)


def audio_format(request: ModelRequest, usual: str) -> str:
    """Return the format in which sound was asked for."""
    asked = request.parameters.extra.get("audio")
    return as_text(asked.get("format")) or usual if isinstance(asked, Mapping) else usual


def read_audio(sound: Object, format_: str, own: dict[str, Json], extra: dict[str, Json]) -> list[Part]:
    """Return the sound of a reply. Its id, by which it is sent back, goes into *own*, until when into *extra*."""
    if sound.get("id"):
        own["audio"] = {"id": sound["id"]}
    extra |= some(audio=unknown(sound, frozenset({"id", "data", "transcript"})))
    data, transcript = as_text(sound.get("data")), as_text(sound.get("transcript"))
    return [Audio(data, format_, transcript or None)] if data or transcript else []


def said_reason(value: object) -> str:
    """Return why a server says that a reply has ended, empty if it does not say it.

    >>> said_reason("Stop"), said_reason(""), said_reason(None)
    ('Stop', '', '')
    """
    said = "" if value is None else str(value)
    return "" if said.lower() in _NO_REASON else said


def finish_reason(said: str, *, calls: bool) -> FinishReason:
    """Return why a reply ended. Calls decide where the server said nothing or just ``stop``."""
    reason = _REASONS.get(said.lower(), FinishReason.OTHER)
    if calls and (reason is FinishReason.STOP or not said):
        return FinishReason.TOOL_CALLS
    return FinishReason.OTHER if reason is FinishReason.TOOL_CALLS and not calls else reason


def unknown_reason(said: str, reason: FinishReason) -> dict[str, Json]:
    """Return what the server said where the contract has no word for it, to be kept."""
    return {"finish_reason": said} if said and reason is FinishReason.OTHER else {}


def unknown(fields: Object, known: frozenset[str]) -> dict[str, Json]:
    """Return the vendor's own fields of an object that are not empty."""
    return {name: value for name, value in fields.items() if name not in known and value not in NOTHING}


def some(**found: Any) -> dict[str, Json]:
    """Return what was found at all."""
    return {name: value for name, value in found.items() if value}


def arguments_text(arguments: object) -> str:
    """Return a call's arguments as text: as they came, or encoded if they came as JSON."""
    if arguments is None:
        return ""
    return arguments if isinstance(arguments, str) else msgspec.json.encode(arguments).decode()


COUNTERS: Mapping[str, str] = {
    "prompt_tokens": "input",
    "completion_tokens": "output",
    "prompt_cache_hit_tokens": "cached",  # DeepSeek
    "cached_tokens": "cached",  # Moonshot
}
"""Counters and the fields of Usage that have them."""
DETAILS: Mapping[str, Mapping[str, str]] = {
    "prompt_tokens_details": {
        "cached_tokens": "cached",
        "cache_write_tokens": "cache_write",
        "audio_tokens": "input_audio",
    },
    "completion_tokens_details": {"reasoning_tokens": "reasoning", "audio_tokens": "audio"},
}
"""The same inside other fields; where both have one, this one counts."""


def read_usage(said: object, dialect: Dialect) -> tuple[Usage, dict[str, Json]]:
    """Return the counts that the contract has, and every other one that is not 0, as the server wrote it.

    What the server did not say stays None, and so does what is no count: that is among the others.
    """
    if not isinstance(said, dict):
        return Usage(), {}
    found: dict[str, Any] = {}
    rest: dict[str, Json] = {}
    for name, value in cast("Object", said).items():
        if isinstance(value, dict):
            if more := _details(cast("Object", value), DETAILS.get(name, {}), found):
                rest[name] = more
        elif name in COUNTERS and (count := as_tokens(value)) is not None:
            found.setdefault(COUNTERS[name], count)
        elif value:
            rest[name] = value
    both = found.get("input", 0) + found.get("output", 0)
    if "output" in found and rest.get("total_tokens") == both + found.get("reasoning", 0):
        found["output"] += rest.pop("total_tokens") - both  # xAI counts thinking beside the rest
    elif rest.get("total_tokens") == both:
        del rest["total_tokens"]
    if dialect.cost and (cost := as_usd(rest.get("cost"))) is not None:
        found["cost_usd"] = cost
        del rest["cost"]
    usage, wrong = plausible(Usage(**found))
    return usage, rest | some(impossible=wrong)


def _details(details: Object, known: Mapping[str, str], found: dict[str, Any]) -> dict[str, Json]:
    rest: dict[str, Json] = {}
    for name, value in details.items():
        if name in known and (count := as_tokens(value)) is not None:
            found[known[name]] = count
        elif value:
            rest[name] = value
    return rest
