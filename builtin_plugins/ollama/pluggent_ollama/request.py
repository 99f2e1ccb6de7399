"""A ModelRequest as the bytes of a request to /api/chat.

Each message and each tool is encoded once and kept in its memo; a body is a join of those pieces, so a
request costs no more for a long history than the join. https://docs.ollama.com/api/chat
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias, assert_never, cast

import attrs
import msgspec
from pluggent_hookspecs import (
    AllowedTools,
    Audio,
    CachePoint,
    File,
    Image,
    Json,
    Message,
    ModelParameters,
    ModelRequest,
    Reasoning,
    Refusal,
    Role,
    Text,
    ToolCall,
    ToolSpec,
    VendorPart,
)
from pluggent_provider_http.content_blocks.ids import arguments_object
from pluggent_provider_http.server_errors import Faults
from pluggent_provider_http.unsendable import UNSENDABLE, UnsendableError
from pluggent_provider_http.vendor_fields import plain

from pluggent_ollama.settings import Server

VENDOR = "ollama"
"""The name of this wire format: the key of what only it understands."""
Object: TypeAlias = dict[str, Any]

_encode = msgspec.json.Encoder().encode
_MESSAGE, _TOOL = "pluggent_ollama message", "pluggent_ollama tool"
_NO_PARAMETERS: Object = {"type": "object", "properties": {}}
_EFFORTS: Mapping[str, bool | str] = {
    "none": False, "minimal": "low", "low": "low", "medium": "medium", "high": "high", "xhigh": "max", "max": "max",
}  # fmt: skip
"""The values of ``think``."""
_NO_WORD = ("service_tier", "user", "parallel_tool_calls")
_MAX_LOGPROBS = 20
_NO_POINTS = "the cache points were left out: Ollama keeps its cache by itself"


@attrs.frozen
class Body:
    """What is sent. ``notes`` say what of the conversation was left out, for the meta of the reply."""

    data: bytes
    notes: tuple[str, ...] = ()


class _Unmarked(bytes):
    """A message whose cache points were left out."""


def encode_request(request: ModelRequest, server: Server, faults: Faults) -> Body:
    """Return what asks for a stream. Raises ProviderError ``bad_request`` naming what cannot be sent."""
    try:
        return _body(request, server)
    except UNSENDABLE as error:
        raise faults.unsendable(error) from error


def _body(request: ModelRequest, server: Server) -> Body:
    messages = Message.memos(request.messages, _MESSAGE, _message)
    notes = (_NO_POINTS,) if _Unmarked in set(map(type, messages)) else ()
    body = b'{"model":%b,"messages":[%b]' % (_encode(request.model), b",".join(messages))
    if tools := _offered(request):
        body = b'%b,"tools":[%b]' % (body, b",".join([cast("bytes", tool.memo(_TOOL, _tool)) for tool in tools]))
    return Body(b"%b,%b" % (body, _encode(_fields(request.parameters, server))[1:]), notes)


# ---- messages -----------------------------------------------------------------------------


def _message(message: Message) -> bytes:
    role = Role.SYSTEM if message.role is Role.DEVELOPER else message.role
    out: Object = {"role": role.value, "content": "\n".join(_words(message))}
    if images := [_picture(part) for part in message.content if isinstance(part, Image) and role is not Role.ASSISTANT]:
        out["images"] = images
    if role is Role.ASSISTANT and (thought := "".join(p.text for p in message.content if isinstance(p, Reasoning))):
        out["thinking"] = thought
    if message.tool_calls:
        out["tool_calls"] = [_call(call) for call in message.tool_calls]
    if role is Role.TOOL:
        if message.tool_call_id is None:
            raise UnsendableError("a message of role tool has no tool_call_id")
        out["tool_call_id"] = message.tool_call_id
        if message.name:
            out["tool_name"] = message.name
    data = _encode(_with(out, message.extra, f"a message of role {message.role}"))
    return _Unmarked(data) if any(type(part) is CachePoint for part in message.content) else data


def _words(message: Message) -> Sequence[str]:
    words: list[str] = []
    for part in message.content:
        match part:
            case Text(text) | Refusal(text):
                words.append(text)
            case Reasoning() | VendorPart() | CachePoint():
                pass
            case Image() | Audio() | File() if message.role is Role.ASSISTANT:
                # No API takes media back from a model; a history that has some stays usable.
                spoken = part.transcript if isinstance(part, Audio) else None
                words.append(spoken or f"({type(part).__name__.lower()} not shown)")
            case Image():
                if message.role not in (Role.USER, Role.TOOL):
                    raise UnsendableError(f"a message of role {message.role} cannot hold Image, a user's message can")
            case Audio() | File():
                raise UnsendableError(f"{type(part).__name__}: Ollama takes texts and images only")
            case _:
                assert_never(part)
    return words


def _picture(image: Image) -> str:
    if image.data is None:
        raise UnsendableError("Image: Ollama takes data (base64) only, neither a url nor a file_id")
    return image.data


def _call(call: ToolCall) -> Object:
    function = {"name": call.name, "arguments": msgspec.Raw(arguments_object(call.arguments))}
    return _with({"id": call.id, "function": function}, call.extra, f"call {call.id}")


def _tool(spec: ToolSpec) -> bytes:
    where = f"tool '{spec.name}'"
    described: Object = {"name": spec.name}
    if spec.description:
        described["description"] = spec.description
    described["parameters"] = plain(spec.parameters, f"parameters of {where}") or _NO_PARAMETERS
    return _encode({"type": "function", "function": _with(described, spec.extra, where)})


def _with(out: Object, extra: Mapping[str, Json], where: str) -> Object:
    """Return *out* with this format's fields of *extra*."""
    own = extra.get(VENDOR)
    if own is None:
        return out
    if not isinstance(own, Mapping):
        raise UnsendableError(f"extra[{VENDOR!r}] of {where}: expected an object")
    for name, value in own.items():
        if name in out:
            raise UnsendableError(f"extra[{VENDOR!r}] of {where}: '{name}' is already set; leave it out")
        out[name] = plain(value, f"extra[{VENDOR!r}] of {where}: {name}")
    return out


# ---- everything else ------------------------------------------------------------------------


def _fields(parameters: ModelParameters, server: Server) -> Object:
    found: Object = {"stream": True, "options": _options(parameters, server), **kept(server)}
    if not server.truncate:
        found |= {"truncate": False, "shift": False}
    if parameters.reasoning_effort is not None:
        found["think"] = _think(parameters.reasoning_effort)
    if parameters.output_schema is not None:
        found["format"] = plain(parameters.output_schema, "parameters.output_schema")
    if parameters.logprobs is not None:
        if not 0 <= parameters.logprobs <= _MAX_LOGPROBS:
            raise UnsendableError(f"parameters.logprobs: expected 0 to {_MAX_LOGPROBS}, got {parameters.logprobs}")
        found |= {"logprobs": True, "top_logprobs": parameters.logprobs}
    _refuse_unknown(parameters)
    return _with_extra(found, parameters.extra)


def kept(server: Server) -> Object:
    """Return the field that says how long a model stays in memory, if the settings say it."""
    if not server.keep_alive:
        return {}
    bare = server.keep_alive.lstrip("-").isdecimal()
    return {"keep_alive": int(server.keep_alive) if bare else server.keep_alive}


def _think(effort: str) -> bool | str:
    if effort not in _EFFORTS:
        raise UnsendableError(f"parameters.reasoning_effort: expected {', '.join(_EFFORTS)}; got {effort!r}")
    return _EFFORTS[effort]


def _refuse_unknown(parameters: ModelParameters) -> None:
    for name in _NO_WORD:
        if getattr(parameters, name) is not None:
            raise UnsendableError(f"parameters.{name}: Ollama has no such field; leave it out")
    if parameters.cache not in (None, "auto"):
        raise UnsendableError("parameters.cache: Ollama keeps its cache by itself; leave it out, or say auto")
    if parameters.metadata:
        raise UnsendableError("parameters.metadata: Ollama keeps none; leave it out")


def _options(parameters: ModelParameters, server: Server) -> Object:
    given: Object = {
        "temperature": parameters.temperature,
        "top_p": parameters.top_p,
        "top_k": parameters.top_k,
        "seed": parameters.seed,
        "stop": list(parameters.stop) or None,
        "presence_penalty": parameters.presence_penalty,
        "frequency_penalty": parameters.frequency_penalty,
        "num_predict": parameters.max_output_tokens,
        "num_ctx": server.num_ctx or None,
    }
    return {name: plain(value, f"parameters.{name}") for name, value in given.items() if value is not None}


def _with_extra(found: Object, extra: Mapping[str, Json]) -> Object:
    options = found["options"]
    for name, value in extra.items():
        if name == "options" and isinstance(value, Mapping):
            if taken := [option for option in value if option in options]:
                raise UnsendableError(f"parameters.extra: option '{taken[0]}' is already set; leave it out")
            options |= plain(value, "parameters.extra.options")
        elif name in found or name in ("model", "messages", "tools"):
            raise UnsendableError(f"parameters.extra: '{name}' is already set by the provider; leave it out")
        else:
            found[name] = plain(value, f"parameters.extra.{name}")
    if not options:
        del found["options"]
    return found


def _offered(request: ModelRequest) -> Sequence[ToolSpec]:
    """Return the tools to be sent. Raises UnsendableError for a choice that Ollama cannot be told."""
    choice = request.parameters.tool_choice
    if choice == "auto":
        return request.tools
    if choice == "none":
        return ()
    if isinstance(choice, AllowedTools) and not choice.required:
        if missing := sorted(set(choice.names) - {tool.name for tool in request.tools}):
            raise UnsendableError(f"parameters.tool_choice names what is not offered: {', '.join(missing)}")
        return [tool for tool in request.tools if tool.name in choice.names]
    raise UnsendableError("parameters.tool_choice: Ollama cannot be told that a tool has to be called")
