"""A ModelRequest as the bytes of a generateContent request.

Each message and each tool is encoded once and kept in its memo; a body is a join of those
pieces, so a request costs no more for a long history than the join.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import assert_never, cast

import attrs
from pluggent_hookspecs import AllowedTools, Json, ModelParameters, ModelRequest, ToolSpec, thaw
from pluggent_provider_http.hosted_tools import asked
from pluggent_provider_http.left_out import thinking_note
from pluggent_provider_http.unsendable import UnsendableError

from pluggent_gemini.generate.conversation import Conversation, conversation
from pluggent_gemini.generate.layout import WIRE, Object
from pluggent_gemini.generate.parts import Pieces, encode, fits
from pluggent_gemini.model_traits import Model, model_of, thinking
from pluggent_gemini.schema import wire_schema
from pluggent_gemini.settings import Server, declared

_TOOL = "pluggent_gemini tool"
_OWN = frozenset({"model", "contents", "systemInstruction", "tools", "cachedContent", "continuationToken"})
_MERGED = ("generationConfig", "toolConfig")
"""Objects of the request of which ``parameters.extra`` may give further fields."""
_HUMP = re.compile(r"_([a-z])")
_REFUSED = {
    "candidateCount": "a reply is one candidate",
    "streamFunctionCallArguments": "arguments come whole",
}


@attrs.frozen
class Body:
    """What is sent: fields of an object, each with its comma, and at last ``rest`` without one.

    ``head`` is the beginning that an explicit cache can hold; ``notes`` say what of the conversation was left out.
    """

    head: bytes
    rest: bytes
    notes: tuple[str, ...] = ()

    def whole(self, *, cached: str = "", continuation: str = "") -> bytes:
        """Return the body of the request; with *cached* in place of its beginning, or for more of its reply."""
        head = b'"cachedContent":%b,' % encode(cached) if cached else self.head
        more = b',"continuationToken":%b' % encode(continuation) if continuation else b""
        return b"{%b%b%b}" % (head, self.rest, more)


def encode_request(request: ModelRequest, server: Server, target: str) -> Body:
    """Return *request* for *server*, whose replies are known by *target*. Raises UnsendableError."""
    model = model_of(request.model, server.models.items())
    said = conversation(request.messages, Pieces(request.model, model, target))
    tools = [cast("bytes", tool.memo(_TOOL, _tool)) for tool in request.tools]
    given = [b'{"functionDeclarations":[%b]}' % b",".join(tools)] if tools else []
    given += [encode(tool) for tool in asked(request, declared(server))]
    rest = _rest(request, model, server)
    calling = rest.pop("toolConfig", None)
    head = b'"systemInstruction":{"parts":[%b]},' % said.system if said.system else b""
    head += b'"tools":[%b],' % b",".join(given) if given else b""
    head += b'"toolConfig":%b,' % encode(calling) if calling else b""
    more = b",%b" % encode(rest)[1:-1] if rest else b""
    return Body(head, b'"contents":[%b]%b' % (said.contents, more), _notes(said))


def encode_count(request: ModelRequest, server: Server, target: str, resource: str) -> bytes:
    """Return what asks how many tokens *request* has; parameters that change nothing of that are left out.

    *resource* is the name of the model in a body. Raises UnsendableError.
    """
    given = request.parameters
    bare = ModelParameters(
        tool_choice=given.tool_choice,
        output_schema=given.output_schema,
        extra={name: value for name, value in given.extra.items() if name in _MERGED},
    )
    body = encode_request(attrs.evolve(request, parameters=bare), server, target).whole()
    if server.at_vertex:
        return body
    return b'{"generateContentRequest":{"model":%b,%b}' % (encode(resource), body[1:])


def _notes(said: Conversation) -> tuple[str, ...]:
    notes = [*thinking_note(said.dropped)]
    if said.unmarked:
        which = "a message" if said.unmarked == 1 else f"{said.unmarked} messages"
        notes.append(f"cache points of {which} were left out: this vendor keeps instruction and tools alone (cache)")
    return tuple(notes)


def _rest(request: ModelRequest, model: Model, server: Server) -> Object:
    parameters = request.parameters
    tool_config: Object = {}
    if request.tools:
        tool_config = _choice(request)
    elif isinstance(parameters.tool_choice, AllowedTools) or parameters.tool_choice not in ("auto", "none"):
        raise UnsendableError("parameters.tool_choice requires a call, and no tool is offered")
    if request.tools and request.hosted and model.signs and not server.at_vertex:
        tool_config["includeServerSideToolInvocations"] = True
    rest: Object = {
        "generationConfig": _generation(parameters, model, show=server.show_thinking),
        "toolConfig": tool_config,
        "serviceTier": _tier(parameters, server),
        "labels": _labels(parameters, server),
        "safetySettings": [{"category": name, "threshold": value} for name, value in server.safety.items()],
    }
    _add_extra(rest, parameters)
    return {name: value for name, value in rest.items() if value or name in parameters.extra}


def _generation(parameters: ModelParameters, model: Model, *, show: bool) -> Object:
    if parameters.parallel_tool_calls is False:
        problem = "the Gemini API has no word for it: its models call as many tools as they want at once"
        raise UnsendableError(f"parameters.parallel_tool_calls: {problem}; leave it out")
    if parameters.user is not None:
        raise UnsendableError("parameters.user: the Gemini API has no word for it; leave it out")
    schema = parameters.output_schema
    asked: Object = {
        "temperature": parameters.temperature,
        "topP": parameters.top_p,
        "topK": parameters.top_k,
        "maxOutputTokens": parameters.max_output_tokens,
        "stopSequences": list(parameters.stop) or None,
        "seed": parameters.seed,
        "presencePenalty": parameters.presence_penalty,
        "frequencyPenalty": parameters.frequency_penalty,
        "responseLogprobs": None if parameters.logprobs is None else True,
        "logprobs": parameters.logprobs or None,
        "responseMimeType": None if schema is None else "application/json",
        "responseJsonSchema": None if schema is None else wire_schema(schema),
        "thinkingConfig": thinking(parameters.reasoning_effort, model, show=show) or None,
    }
    for name, value in asked.items():
        if isinstance(value, float) and not math.isfinite(value):
            raise UnsendableError(f"parameters: {name} is {value}, which JSON cannot say")
    return {name: value for name, value in asked.items() if value is not None}


def _tier(parameters: ModelParameters, server: Server) -> str | None:
    if parameters.service_tier is not None and server.at_vertex:
        problem = "Vertex AI takes it as a header of the server: X-Vertex-AI-LLM-Shared-Request-Type"
        raise UnsendableError(f"parameters.service_tier: {problem}")
    return parameters.service_tier


def _labels(parameters: ModelParameters, server: Server) -> Object | None:
    if parameters.metadata and not server.at_vertex:
        raise UnsendableError("parameters.metadata: the Gemini API keeps none, only Vertex AI does (as labels)")
    return dict(parameters.metadata) or None


def _add_extra(rest: Object, parameters: ModelParameters) -> None:
    for name, value in parameters.extra.items():
        field = _HUMP.sub(lambda found: found[1].upper(), name)  # the server reads cached_content as cachedContent
        if name in _MERGED:
            rest[name] = _merged(name, rest[name], value)
        elif field in _OWN or field in _MERGED or rest.get(field):
            raise UnsendableError(f"parameters.extra: '{name}' is already set by the provider; leave it out")
        else:
            rest[name] = thaw(value)


def _merged(name: str, ours: Object, given: Json) -> Object:
    if not isinstance(given, Mapping):
        raise UnsendableError(f"parameters.extra: '{name}' is an object whose fields join those of the provider")
    more = cast("Object", thaw(given))
    for field, value in more.items():
        if why := _REFUSED.get(field):
            raise UnsendableError(f"parameters.extra: '{name}.{field}' cannot be set: {why}")
        if field in ours:
            raise UnsendableError(f"parameters.extra: '{name}.{field}' is already set by the provider; leave it out")
        if isinstance(value, dict) and "streamFunctionCallArguments" in value:
            raise UnsendableError(f"parameters.extra: '{name}.{field}': {_REFUSED['streamFunctionCallArguments']}")
    return {**ours, **more}


# ---- tools --------------------------------------------------------------------------------


def _choice(request: ModelRequest) -> Object:
    wanted = request.parameters.tool_choice
    match wanted:
        case "auto":
            return {}
        case "none":
            calling: Object = {"mode": "NONE"}
        case "required":
            calling = {"mode": "ANY"}
        case AllowedTools():
            calling = _allowed(wanted, request.tools)
        case str():
            calling = {"mode": "ANY", "allowedFunctionNames": [wanted]}
        case _:
            assert_never(wanted)
    return {"functionCallingConfig": calling}


def _allowed(wanted: AllowedTools, offered: Sequence[ToolSpec]) -> Object:
    missing = sorted(set(wanted.names) - {tool.name for tool in offered})
    if missing:
        raise UnsendableError(f"parameters.tool_choice names what is not offered: {', '.join(missing)}")
    if not wanted.names:
        if wanted.required:
            raise UnsendableError("parameters.tool_choice requires a call and allows none")
        return {"mode": "NONE"}
    return {"mode": "ANY" if wanted.required else "VALIDATED", "allowedFunctionNames": list(wanted.names)}


def _tool(spec: ToolSpec) -> bytes:
    if not fits(spec.name):
        problem = "a name begins with a letter or _ and has letters, digits, - _ . and : only, 128 at most"
        raise UnsendableError(f"tool {spec.name!r}: {problem}")
    declared: Object = {"name": spec.name, "description": spec.description}
    if spec.parameters:
        schema = wire_schema(spec.parameters)
        declared["parametersJsonSchema"] = schema if "$ref" in schema else {"type": "object", **schema}
    own = spec.extra.get(WIRE, {})
    if not isinstance(own, Mapping):
        raise UnsendableError(f"extra[{WIRE!r}] of tool '{spec.name}': expected an object")
    for name, value in own.items():
        if name in declared or name == "parameters":
            raise UnsendableError(f"extra of tool '{spec.name}': '{name}' is already set by the provider; leave it out")
        declared[name] = thaw(value)
    return encode(declared)
