"""A ModelRequest as the bytes of a request for an interaction.

Each message and each tool is encoded once and kept in its memo; a body is a join of those pieces.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, assert_never, cast

import attrs
from pluggent_hookspecs import AllowedTools, Json, ModelParameters, ModelRequest, ToolSpec, thaw
from pluggent_provider_http.hosted_tools import asked
from pluggent_provider_http.left_out import thinking_note
from pluggent_provider_http.unsendable import UnsendableError

from pluggent_gemini.generate.parts import fits
from pluggent_gemini.interactions.conversation import Conversation, conversation
from pluggent_gemini.interactions.layout import WIRE, Object
from pluggent_gemini.interactions.pieces import Pieces, encode
from pluggent_gemini.model_traits import Model, model_of, thinking_level
from pluggent_gemini.schema import wire_schema
from pluggent_gemini.settings import Server, declared

_TOOL = "pluggent_gemini interactions tool"
_NO_WORD = ("temperature", "top_p", "top_k", "presence_penalty", "frequency_penalty", "logprobs")
"""Parameters that the API has no field for, and generateContent has."""
_OWNED: Mapping[str, str] = {
    "model": "it is ModelRequest.model",
    "agent": "a provider asks models",
    "input": "it is made of ModelRequest.messages",
    "system_instruction": "it is made of the system messages",
    "tools": "they are ModelRequest.tools, and server_tools of the settings",
    "stream": "it is a setting of the server",
    "background": "a reply is waited for",
    "previous_interaction_id": "each request has the whole conversation",
    "webhook_config": "a reply is waited for",
}
"""Fields that ModelParameters.extra may not hold, and what to do instead."""
_CONFIG = "generation_config"
_HUMP = re.compile(r"(?<=[a-z0-9])([A-Z])")


@attrs.frozen
class Body:
    """What is sent. ``notes`` say what of the conversation was left out."""

    data: bytes
    notes: tuple[str, ...] = ()


def encode_request(request: ModelRequest, server: Server, target: str) -> Body:
    """Return *request* for *server*, whose replies are known by *target*. Raises UnsendableError."""
    model = model_of(request.model, server.models.items())
    said = conversation(request.messages, Pieces(request.model, model, target))
    tools = [cast("bytes", tool.memo(_TOOL, _tool)) for tool in request.tools]
    tools += [encode(_vendor_tool(tool)) for tool in asked(request, declared(server))]
    rest = _rest(request, model, server)
    body = b'{"model":%b,"input":[%b]' % (encode(request.model.removeprefix("models/")), said.steps)
    body += b',"system_instruction":%b' % encode(said.instruction) if said.instruction else b""
    body += b',"tools":[%b]' % b",".join(tools) if tools else b""
    return Body(b"%b,%b" % (body, encode(rest)[1:]), _notes(said))


def _notes(said: Conversation) -> tuple[str, ...]:
    notes = [*thinking_note(said.dropped)]
    if said.unmarked:
        which = "a message" if said.unmarked == 1 else f"{said.unmarked} messages"
        notes.append(f"cache points of {which} were left out: this API caches by itself")
    return tuple(notes)


def _rest(request: ModelRequest, model: Model, server: Server) -> Object:
    parameters = request.parameters
    _check(request)
    rest: Object = {
        _CONFIG: _generation(request, model, show=server.show_thinking),
        "response_format": _format(parameters),
        "safety_settings": [_safety(name, value) for name, value in server.safety.items()],
        "service_tier": parameters.service_tier,
        "labels": dict(parameters.metadata),
    }
    rest = {name: value for name, value in rest.items() if value}
    _add_extra(rest, parameters.extra)
    rest.setdefault("store", False)
    rest["stream"] = server.stream
    return rest


def _check(request: ModelRequest) -> None:
    """Refuse by name what the API has no word for."""
    parameters = request.parameters
    for name in _NO_WORD:
        if getattr(parameters, name) is not None:
            hint = 'leave it out, or set api = "generate" for this server'
            raise UnsendableError(f"parameters.{name}: the Interactions API has no word for it; {hint}")
    if parameters.parallel_tool_calls is False:
        problem = "the Gemini API has no word for it: its models call as many tools as they want at once"
        raise UnsendableError(f"parameters.parallel_tool_calls: {problem}; leave it out")
    if parameters.user is not None:
        raise UnsendableError("parameters.user: the Gemini API has no word for it; leave it out")
    if parameters.cache not in (None, "auto", "off"):
        problem = 'explicit caches are for generateContent; leave it out, or set api = "generate" for this server'
        raise UnsendableError(f"parameters.cache: {problem}")


def _generation(request: ModelRequest, model: Model, *, show: bool) -> Object:
    parameters = request.parameters
    level = thinking_level(parameters.reasoning_effort, model)
    shows = show and model.thinking != "none" and (model.summarizes or level is not None)
    asked: Object = {
        "max_output_tokens": parameters.max_output_tokens,
        "stop_sequences": list(parameters.stop) or None,
        "seed": parameters.seed,
        "thinking_level": level,
        "thinking_summaries": "auto" if shows else None,
        "tool_choice": _choice(request),
    }
    return {name: value for name, value in asked.items() if value is not None}


def _format(parameters: ModelParameters) -> Object | None:
    if parameters.output_schema is None:
        return None
    return {"type": "text", "mime_type": "application/json", "schema": wire_schema(parameters.output_schema)}


def _safety(category: str, threshold: str) -> Object:
    """Return an entry of the setting ``safety``, which has the words of generateContent, as this API has it."""
    return {"type": category.lower().removeprefix("harm_category_"), "threshold": threshold.lower()}


def _vendor_tool(tool: Object) -> Object:
    """Return a tool of the vendor's own in the words of this API.

    >>> _vendor_tool({"googleSearch": {}}), _vendor_tool({"type": "code_execution"})
    ({'type': 'google_search'}, {'type': 'code_execution'})
    """
    if "type" in tool:
        return tool
    (name,) = tool
    return {"type": _HUMP.sub(r"_\1", name).lower(), **tool[name]}


def _add_extra(rest: Object, extra: Mapping[str, Json]) -> None:
    """Add what goes into the request as it is; further fields of the generation_config join those of the provider."""
    for name, given in extra.items():
        where = f"parameters.extra: '{name}'"
        field = _HUMP.sub(r"_\1", name).lower()  # servers of Google read both spellings
        if field in _OWNED:
            raise UnsendableError(f"{where}: {_OWNED[field]}")
        value: Any = thaw(given)
        if name == _CONFIG and isinstance(value, dict) and not rest.get(name, {}).keys() & value.keys():
            rest[name] = {**rest.get(name, {}), **value}
        elif field in rest or (field == _CONFIG and name != field):
            raise UnsendableError(f"{where} is already set by the provider; leave it out")
        else:
            rest[name] = value


# ---- tools --------------------------------------------------------------------------------


def _choice(request: ModelRequest) -> str | Object | None:
    wanted = request.parameters.tool_choice
    if not request.tools:
        if isinstance(wanted, AllowedTools) or wanted not in ("auto", "none"):
            raise UnsendableError("parameters.tool_choice requires a call, and no tool is offered")
        return None
    match wanted:
        case "auto":
            return None
        case "none":
            return "none"
        case "required":
            return "any"
        case AllowedTools():
            return _allowed(wanted, request.tools)
        case str():
            return {"allowed_tools": {"mode": "any", "tools": [wanted]}}
        case _:
            assert_never(wanted)


def _allowed(wanted: AllowedTools, offered: Sequence[ToolSpec]) -> str | Object:
    missing = sorted(set(wanted.names) - {tool.name for tool in offered})
    if missing:
        raise UnsendableError(f"parameters.tool_choice names what is not offered: {', '.join(missing)}")
    if not wanted.names:
        if wanted.required:
            raise UnsendableError("parameters.tool_choice requires a call and allows none")
        return "none"
    mode = "any" if wanted.required else "validated"
    return {"allowed_tools": {"mode": mode, "tools": list(wanted.names)}}


def _tool(spec: ToolSpec) -> bytes:
    if not fits(spec.name):
        problem = "a name begins with a letter or _ and has letters, digits, - _ . and : only, 128 at most"
        raise UnsendableError(f"tool {spec.name!r}: {problem}")
    declared: Object = {"type": "function", "name": spec.name, "description": spec.description}
    if spec.parameters:
        schema = wire_schema(spec.parameters)
        declared["parameters"] = schema if "$ref" in schema else {"type": "object", **schema}
    own = spec.extra.get(WIRE, {})
    if not isinstance(own, Mapping):
        raise UnsendableError(f"extra[{WIRE!r}] of tool '{spec.name}': expected an object")
    for name, value in own.items():
        if name in declared or name == "parameters":
            raise UnsendableError(f"extra of tool '{spec.name}': '{name}' is already set by the provider; leave it out")
        declared[name] = thaw(value)
    return encode(declared)
