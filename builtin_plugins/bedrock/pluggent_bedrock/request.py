"""A ModelRequest as the bytes of a Converse request.

Each message and each tool is encoded once and kept in its memo; a body is a join of those
pieces, so a request costs no more for a long history than the join.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

import attrs
from pluggent_hookspecs import AllowedTools, ModelParameters, ModelRequest, ToolChoice, ToolSpec, thaw
from pluggent_provider_http.closed_schema import closed_schema
from pluggent_provider_http.content_blocks.ids import fitted
from pluggent_provider_http.content_blocks.turns import Conversation, conversation
from pluggent_provider_http.hosted_tools import asked
from pluggent_provider_http.left_out import thinking_note
from pluggent_provider_http.request_options import TTLS, kept_for
from pluggent_provider_http.unsendable import UnsendableError
from pluggent_provider_http.vendor_fields import with_fields

from pluggent_bedrock.blocks import WIRE, ConverseBlocks, encode
from pluggent_bedrock.media import Object
from pluggent_bedrock.model_traits import Model, model_of, thinking
from pluggent_bedrock.settings import Server, declared

_TOOL = "pluggent_bedrock tool"
_OWN = frozenset({"messages", "system", "toolConfig", "modelId"})
_OWN_TOOL = frozenset({"name", "description", "inputSchema"})
_NO_PARAMETERS: Object = {"type": "object", "properties": {}}
_NO_WORD = ("seed", "presence_penalty", "frequency_penalty", "logprobs", "parallel_tool_calls", "user")
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_MODEL_FIELDS = "additionalModelRequestFields"


@attrs.frozen
class Body:
    """What is sent: the body, and ``notes`` on what of the conversation was left out, for ReplyMeta."""

    data: bytes
    notes: tuple[str, ...] = ()


def encode_request(request: ModelRequest, server: Server) -> Body:
    """Return *request* for *server*. Raises UnsendableError, or another of UNSENDABLE."""
    return _Writer(request, server).body()


def encode_count(request: ModelRequest, server: Server) -> bytes:
    """Return what asks how long *request* is, without what changes nothing of that. Raises as ``encode_request``."""
    given = request.parameters
    bare = ModelParameters(
        max_output_tokens=given.max_output_tokens,
        reasoning_effort=given.reasoning_effort,
        tool_choice=given.tool_choice,
        cache="off",
        extra={name: value for name, value in given.extra.items() if name == _MODEL_FIELDS},
    )
    return _Writer(attrs.evolve(request, parameters=bare), server).count()


class _Writer:
    def __init__(self, request: ModelRequest, server: Server) -> None:
        self._request = request
        self._parameters = request.parameters
        self._server = server
        self._model: Model = model_of(request.model, server.models.items())
        self._cache = kept_for("Bedrock", self._parameters.cache, server.cache)
        self._blocks = ConverseBlocks(self._model)

    def body(self) -> Body:
        said, tools = self._written()
        rest = self._rest()
        more = b",%b" % encode(rest)[1:-1] if rest else b""
        notes = (*thinking_note(said.dropped), *_notes(self._blocks.unmarked))
        return Body(b"{%b%b%b}" % (_messages(said), tools, more), notes)

    def count(self) -> bytes:
        said, tools = self._written()
        rest = self._rest()
        fields = {_MODEL_FIELDS: rest[_MODEL_FIELDS]} if _MODEL_FIELDS in rest else {}
        more = b",%b" % encode(fields)[1:-1] if fields else b""
        return b'{"input":{"converse":{%b%b%b}}}' % (_messages(said), tools, more)

    def _written(self) -> tuple[Conversation, bytes]:
        """Return the messages, and ``toolConfig`` as a member of an object behind others."""
        said = conversation(self._request.messages, self._blocks, system_turns=self._model.system_turns)
        tools, choice = _offer(self._request)
        given = [cast("bytes", tool.memo(_TOOL, _tool)) for tool in tools]
        if self._may_mark(said, tools):
            everywhere = self._model.cache == "all"
            mark = _mark(self._cache if everywhere or self._parameters.cache in TTLS else "5m")
            said = _with_marks(said, mark)
            given += [mark] if given and everywhere else []
        given += [encode(tool) for tool in asked(self._request, declared(self._server))]
        if not given:
            return said, b""
        chosen = b',"toolChoice":%b' % encode(choice) if choice is not None else b""
        return said, b',"toolConfig":{"tools":[%b]%b}' % (b",".join(given), chosen)

    def _may_mark(self, said: Conversation, tools: Sequence[ToolSpec]) -> bool:
        """Whether to set cache points: a first request without tools would not be read from the cache again."""
        # What a request wishes itself is marked in any case.
        wished = self._parameters.cache in TTLS
        if said.marks or self._cache == "off" or (self._model.cache == "none" and not wished):
            return False
        return wished or bool(tools) or said.replied

    def _rest(self) -> Object:
        parameters = self._parameters
        for name in _NO_WORD:
            if getattr(parameters, name) is not None:
                hint = f"leave it out, or put the model's own word into extra.{_MODEL_FIELDS}"
                raise UnsendableError(f"parameters.{name}: Converse has no word for it; {hint}")
        rest = _sampling(parameters)
        if parameters.top_k is not None:
            rest[_MODEL_FIELDS] = _top_k(parameters.top_k, self._model)
        if parameters.reasoning_effort is not None:
            asked = thinking(parameters.reasoning_effort, self._model, parameters.max_output_tokens)
            for name, fields in asked.items():
                rest[name] = {**rest.get(name, {}), **fields}
        if parameters.output_schema is not None:
            rest["outputConfig"] = {**rest.get("outputConfig", {}), **_output(parameters.output_schema)}
        if self._server.guardrail:
            rest["guardrailConfig"] = _guardrail(self._server)
        _add_extra(rest, parameters)
        return rest


def _notes(unmarked: int) -> tuple[str, ...]:
    if not unmarked:
        return ()
    where = "a message" if unmarked == 1 else f"{unmarked} messages"
    return (f"cache points of {where} were left out: this model is not known to take them",)


def _messages(said: Conversation) -> bytes:
    system = b',"system":[%b]' % said.system if said.system else b""
    return b'"messages":[%b]%b' % (b",".join(said.turns), system)


# ---- parameters ---------------------------------------------------------------------------


def _sampling(parameters: ModelParameters) -> Object:
    given: Object = {
        "maxTokens": parameters.max_output_tokens,
        "temperature": parameters.temperature,
        "topP": parameters.top_p,
        "stopSequences": list(parameters.stop) or None,
    }
    for name, value in given.items():
        if isinstance(value, float) and not math.isfinite(value):
            field = {"temperature": "temperature", "topP": "top_p"}[name]
            raise UnsendableError(f"parameters.{field} is {value}, which JSON cannot say")
    inference = {name: value for name, value in given.items() if value is not None}
    rest: Object = {"inferenceConfig": inference} if inference else {}
    if parameters.service_tier is not None:
        rest["serviceTier"] = {"type": parameters.service_tier}
    if parameters.metadata:
        rest["requestMetadata"] = dict(parameters.metadata)
    return rest


def _guardrail(server: Server) -> Object:
    """Return the guardrail of every request; how a stream is looked at is said of streams alone."""
    return {name: value for name, value in server.guardrail.items() if server.stream or name != "streamProcessingMode"}


def _top_k(top_k: int, model: Model) -> Object:
    match model.top_k:
        case "top_k":
            return {"top_k": top_k}
        case "nova":
            return {"inferenceConfig": {"topK": top_k}}
        case "":
            hint = f"leave it out, or put the model's own word into extra.{_MODEL_FIELDS}"
            raise UnsendableError(f"parameters.top_k: this model is not known to have it; {hint}")


def _output(schema: Mapping[str, Any]) -> Object:
    text = encode(closed_schema(schema)).decode()
    return {"textFormat": {"type": "json_schema", "structure": {"jsonSchema": {"schema": text, "name": "reply"}}}}


def _add_extra(rest: Object, parameters: ModelParameters) -> None:
    """Add what goes into the request as it is; fields of the model's own may come from both."""
    for name, value in parameters.extra.items():
        ours = rest.get(name)
        if name == _MODEL_FIELDS and isinstance(value, Mapping) and ours is not None:
            clash = sorted(set(ours) & set(value))
            if clash:
                raise UnsendableError(f"parameters.extra: '{name}.{clash[0]}' is already set by the provider")
            rest[name] = {**ours, **cast("Object", thaw(value))}
        elif ours is not None or name in _OWN:
            raise UnsendableError(f"parameters.extra: '{name}' is already set by the provider; leave it out")
        else:
            rest[name] = thaw(value)


# ---- tools --------------------------------------------------------------------------------


def _offer(request: ModelRequest) -> tuple[Sequence[ToolSpec], Object | None]:
    """Return the tools to send, and ``toolChoice``."""
    offered, wanted = request.tools, request.parameters.tool_choice
    if isinstance(wanted, AllowedTools):
        # Converse cannot keep a tool in the request and forbid it, so the others are left out.
        allowed = tuple(tool for tool in offered if tool.name in wanted.names)
        missing = sorted(set(wanted.names) - {tool.name for tool in offered})
        if missing or (wanted.required and not allowed):
            problem = (
                f"names what is not offered: {', '.join(missing)}" if missing else "requires a call and allows none"
            )
            raise UnsendableError(f"parameters.tool_choice {problem}")
        offered = allowed
        wanted = ("required" if wanted.required else "auto") if allowed else "none"
    if wanted == "none" or not offered:
        return _unoffered(request), None
    return offered, _choice(wanted)


def _unoffered(request: ModelRequest) -> Sequence[ToolSpec]:
    """Return what has to be declared although nothing may be called: Bedrock refuses calls in a history without it.

    Converse has no word for "no calls". The declarations say it to the model in words.
    """
    names = dict.fromkeys(fitted(call.name, 64) for message in request.messages for call in message.tool_calls)
    return [ToolSpec(name, "Not available any more: do not call it.") for name in names]


def _choice(wanted: ToolChoice) -> Object | None:
    match wanted:
        case "auto":
            return None
        case "required":
            return {"any": {}}
        case _:
            return {"tool": {"name": wanted}}


def _tool(spec: ToolSpec) -> bytes:
    if not _NAME.fullmatch(spec.name):
        raise UnsendableError(f"tool {spec.name!r}: a name has letters, digits, - and _ only, 64 at most")
    declared: Object = {"name": spec.name}
    if spec.description.strip():
        declared["description"] = spec.description
    schema = {"type": "object", **cast("Object", thaw(spec.parameters))} if spec.parameters else _NO_PARAMETERS
    declared["inputSchema"] = {"json": schema}
    with_fields(WIRE, declared, spec.extra.get(WIRE), _OWN_TOOL, f"extra of tool {spec.name}")
    return encode({"toolSpec": declared})


# ---- the cache ----------------------------------------------------------------------------


def _mark(cache: str) -> bytes:
    ttl = b"" if cache == "5m" else b',"ttl":"%b"' % cache.encode()
    return b'{"cachePoint":{"type":"default"%b}}' % ttl


def _with_marks(said: Conversation, mark: bytes) -> Conversation:
    """Mark where the vendor's cache may end: behind the system message, and the user's last two turns.

    With the one behind the tools those are the four that a request may have. The last turn of a user is
    where this request ends, the one before where the last request ended.
    """
    system = b"%b,%b" % (said.system, mark) if said.system else b""
    turns = list(said.turns)
    for at in said.users:
        turns[at] = b"%b,%b]}" % (turns[at].removesuffix(b"]}"), mark)
    return attrs.evolve(said, system=system, turns=turns)
