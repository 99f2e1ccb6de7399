"""A ModelRequest as the bytes of a chat completions request.

Each message and each tool is encoded once and kept in its memo; a body is a join of those
pieces, so a request costs no more for a long history than the join.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any, Literal, TypeAlias, cast

import attrs
import msgspec
from pluggent_hookspecs import (
    Audio,
    File,
    Image,
    Json,
    Message,
    ModelParameters,
    ModelRequest,
    Part,
    ProviderErrorKind,
    Reasoning,
    Refusal,
    Role,
    Text,
    ToolSpec,
    thaw,
)

from pluggent_openai.errors import Faults

_encode = msgspec.json.Encoder().encode
_TOOL = "pluggent_openai tool"
_OWN = frozenset({"model", "messages", "tools", "stream"})
_NOT_STRICT = frozenset(
    [
        "allOf",
        "oneOf",
        "not",
        "if",
        "then",
        "else",
        "default",
        "dependentRequired",
        "dependentSchemas",
        "contains",
        "patternProperties",
        "propertyNames",
        "minProperties",
        "maxProperties",
        "uniqueItems",
        "unevaluatedProperties",
    ]
)
_NO_PARAMETERS: dict[str, Json] = {"type": "object", "properties": {}}

Object: TypeAlias = dict[str, Any]


class UnsendableError(Exception):
    """A request holds something that chat completions cannot carry."""


@attrs.frozen
class _WithMedia:
    """A tool's result, which takes text only, and the rest of it, to follow in a user message."""

    result: bytes
    media: bytes


Piece: TypeAlias = bytes | _WithMedia


@attrs.frozen
class Dialect:
    """Where servers differ in what they want to be sent."""

    max_tokens_field: Literal["max_completion_tokens", "max_tokens"] = "max_completion_tokens"
    reasoning_field: str = ""
    stream_usage: bool = True

    def encode(self, request: ModelRequest, faults: Faults, *, stream: bool) -> bytes:
        """Return the body of *request*. Raises ProviderError ``bad_request`` naming what cannot be sent."""
        try:
            return self._body(request, stream=stream)
        except (UnsendableError, TypeError, ValueError, OverflowError, RecursionError) as error:
            # UnicodeEncodeError (a lone surrogate) is a ValueError, a huge integer an OverflowError.
            problem = f"the request cannot be sent: {error}"
            raise faults.error(ProviderErrorKind.BAD_REQUEST, problem) from error

    def _body(self, request: ModelRequest, *, stream: bool) -> bytes:
        # Messages are encoded alike for all servers but for this field, so the key names it.
        key, make = f"pluggent_openai message {self.reasoning_field}", self._message
        pieces = [message.memo(key, make) for message in request.messages]
        body = b'{"model":%b,"messages":[%b]' % (_encode(request.model), b",".join(_arranged(pieces)))
        if request.tools:
            tools = b",".join([cast("bytes", tool.memo(_TOOL, _tool)) for tool in request.tools])
            body = b'%b,"tools":[%b]' % (body, tools)
        rest = self._rest(request, stream=stream)
        return b"%b,%b" % (body, _encode(rest)[1:]) if rest else body + b"}"

    def _rest(self, request: ModelRequest, *, stream: bool) -> Object:
        parameters = request.parameters
        rest = _sampling(parameters)
        if parameters.max_output_tokens is not None:
            rest[self.max_tokens_field] = parameters.max_output_tokens
        if parameters.output_schema is not None:
            rest["response_format"] = _response_format(parameters.output_schema)
        if request.tools:
            _add_tool_choice(rest, parameters)
        if stream:
            rest["stream"] = True
            if self.stream_usage:
                rest["stream_options"] = {"include_usage": True}
        for name, value in parameters.extra.items():
            if name in rest or name in _OWN:
                raise UnsendableError(f"parameters.extra: '{name}' is already set by the provider; leave it out")
            rest[name] = thaw(value)
        return rest

    def _message(self, message: Message) -> Piece:
        if message.role is Role.TOOL:
            return _tool_result(message)
        out: Object = {"role": message.role.value, "content": _content(message)}
        if message.name is not None:
            out["name"] = message.name
        if message.tool_calls:
            out["tool_calls"] = [
                {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
                for call in message.tool_calls
            ]
        if self.reasoning_field and (thought := _thought(message)):
            out[self.reasoning_field] = thought
        return _encode(_with_extra(out, message))


def _arranged(pieces: list[Piece]) -> list[bytes]:
    """Put what tools returned beside text behind the last result of their batch."""
    if _WithMedia not in set(map(type, pieces)):
        return cast("list[bytes]", pieces)
    out: list[bytes] = []
    waiting: list[bytes] = []
    for piece in pieces:
        if isinstance(piece, _WithMedia):
            out.append(piece.result)
            waiting.append(piece.media)
            continue
        if waiting and not piece.startswith(b'{"role":"tool"'):
            out.append(_user_with(waiting))
            waiting = []
        out.append(piece)
    return [*out, _user_with(waiting)] if waiting else out


def _user_with(media: list[bytes]) -> bytes:
    return b'{"role":"user","content":[%b]}' % b",".join(media)


def _tool_result(message: Message) -> Piece:
    if message.tool_call_id is None:
        raise UnsendableError("a message of role tool has no tool_call_id")
    text = "\n".join(part.text for part in message.content if isinstance(part, Text | Refusal))
    out = {"role": "tool", "content": text, "tool_call_id": message.tool_call_id}
    result = _encode(_with_extra(out, message))
    media = [_media(part) for part in message.content if isinstance(part, Image | Audio | File)]
    if not media:
        return result
    label = {"type": "text", "text": f"Returned by tool call {message.tool_call_id}:"}
    return _WithMedia(result, _encode([label, *media])[1:-1])


def _content(message: Message) -> str | list[Object] | None:
    parts = [part for part in message.content if not isinstance(part, Reasoning)]
    if not parts:
        return None if message.tool_calls else ""
    if len(parts) == 1 and isinstance(parts[0], Text):
        return parts[0].text
    return [_part(part, message.role) for part in parts]


def _part(part: Part, role: Role) -> Object:
    if isinstance(part, Text):
        return {"type": "text", "text": part.text}
    if isinstance(part, Refusal):
        return {"type": "refusal", "refusal": part.text}
    if role is Role.USER and isinstance(part, Image | Audio | File):
        return _media(part)
    if role is Role.ASSISTANT:
        # Chat completions takes back no media from the assistant; a history that holds some
        # (from another provider, say) stays usable.
        spoken = part.transcript if isinstance(part, Audio) else None
        return {"type": "text", "text": spoken or f"({type(part).__name__.lower()} not shown)"}
    raise UnsendableError(f"a message of role {role} cannot hold {type(part).__name__}, only a user's message can")


def _media(part: Image | Audio | File) -> Object:
    if isinstance(part, Audio):
        return {"type": "input_audio", "input_audio": {"data": part.data, "format": part.format}}
    if isinstance(part, File):
        return {"type": "file", "file": _file(part)}
    url = part.url if part.url is not None else _data_url(part.media_type, part.data, part)
    image = {"url": url} if part.detail is None else {"url": url, "detail": part.detail}
    return {"type": "image_url", "image_url": image}


def _file(part: File) -> Object:
    if part.file_id is not None:
        return {"file_id": part.file_id}
    named = {} if part.filename is None else {"filename": part.filename}
    return {**named, "file_data": _data_url(part.media_type, part.data, part)}


def _data_url(media_type: str, data: str | None, part: Image | File) -> str:
    if data is None:
        raise UnsendableError(f"{type(part).__name__} has neither data nor a reference to it")
    return f"data:{media_type};base64,{data}"


def _thought(message: Message) -> str:
    return "".join(part.text for part in message.content if isinstance(part, Reasoning))


def _with_extra(out: Object, message: Message) -> Object:
    for name, value in message.extra.items():
        if name in out:
            raise UnsendableError(f"extra of a message of role {message.role}: '{name}' is already set; leave it out")
        out[name] = thaw(value)
    return out


def _tool(spec: ToolSpec) -> bytes:
    function: Object = {"name": spec.name}
    if spec.description:
        function["description"] = spec.description
    function["parameters"] = thaw(spec.parameters) if spec.parameters else _NO_PARAMETERS
    return _encode({"type": "function", "function": function})


def _sampling(parameters: ModelParameters) -> Object:
    given: Object = {
        "temperature": parameters.temperature,
        "top_p": parameters.top_p,
        "stop": list(parameters.stop) or None,
        "seed": parameters.seed,
        "presence_penalty": parameters.presence_penalty,
        "frequency_penalty": parameters.frequency_penalty,
        "reasoning_effort": parameters.reasoning_effort,
    }
    for name, value in given.items():
        if isinstance(value, float) and not math.isfinite(value):
            raise UnsendableError(f"parameters.{name} is {value}, which JSON cannot say")
    return {name: value for name, value in given.items() if value is not None}


def _add_tool_choice(rest: Object, parameters: ModelParameters) -> None:
    # Without tools the API refuses both, so they are sent with tools only.
    choice = parameters.tool_choice
    if choice in ("none", "required"):
        rest["tool_choice"] = choice
    elif choice != "auto":
        rest["tool_choice"] = {"type": "function", "function": {"name": choice}}
    if parameters.parallel_tool_calls is not None:
        rest["parallel_tool_calls"] = parameters.parallel_tool_calls


def _response_format(schema: Mapping[str, Json]) -> Object:
    title = schema.get("title")
    name = re.sub(r"[^A-Za-z0-9_-]+", "_", title if isinstance(title, str) else "")[:64] or "output"
    described: Object = {"name": name, "schema": thaw(schema), "strict": _is_strict(schema)}
    return {"type": "json_schema", "json_schema": described}


def _is_strict(schema: Json) -> bool:
    """Whether *schema* surely keeps the rules of strict mode: objects closed, all of them required.

    https://platform.openai.com/docs/guides/structured-outputs#supported-schemas
    """
    if isinstance(schema, Mapping):
        if not _NOT_STRICT.isdisjoint(schema):
            return False
        properties = schema.get("properties")
        if schema.get("type") == "object" or isinstance(properties, Mapping):
            names = set(properties) if isinstance(properties, Mapping) else set[str]()
            required = schema.get("required", ())
            if schema.get("additionalProperties") is not False:
                return False
            if not isinstance(required, list | tuple) or names != set(required):
                return False
        return all(_is_strict(value) for value in schema.values())
    return all(map(_is_strict, schema)) if isinstance(schema, list | tuple) else True
