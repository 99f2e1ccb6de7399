"""A ModelRequest as the bytes of a Messages API request.

Each message and each tool is encoded once and kept in its memo; a body is a join of those
pieces, so a request costs no more for a long history than the join.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

import attrs
from pluggent_hookspecs import (
    AllowedTools,
    ModelParameters,
    ModelRequest,
    ToolChoice,
    ToolSpec,
    thaw,
)
from pluggent_provider_http.closed_schema import closed_schema
from pluggent_provider_http.content_blocks.turns import Conversation, conversation
from pluggent_provider_http.hosted_tools import asked
from pluggent_provider_http.left_out import thinking_note
from pluggent_provider_http.request_options import TTLS, kept_for
from pluggent_provider_http.server_errors import Faults
from pluggent_provider_http.unsendable import UNSENDABLE, UnsendableError
from pluggent_provider_http.vendor_fields import with_fields

from pluggent_anthropic.blocks import WIRE, MessagesBlocks, encode
from pluggent_anthropic.media import Object
from pluggent_anthropic.model_traits import BINDING_BETA, Model, model_of, thinking
from pluggent_anthropic.settings import Server, declared

_BLOCKS = MessagesBlocks()
_TOOL = "pluggent_anthropic tool"
_OWN = frozenset({"model", "messages", "system", "stream", "max_tokens"})
_COUNTED = frozenset({"cache_control", "context_management", "mcp_servers", "output_config", "thinking"})
"""What ``count_tokens`` takes of ModelParameters.extra."""
_OWN_TOOL = frozenset({"name", "description", "input_schema"})
_OURS = ("bash_", "computer_", "memory_", "text_editor_")
"""Kinds of tools that the vendor has described and that run here."""
_HOSTED = {
    "tools": "tools that run at the vendor are the operator's to set up, in server_tools",
    "mcp_servers": "the vendor would call their tools unseen; connect to them with pluggent-mcp",
}
"""Fields that would have the vendor do what no policy is asked about."""
_NO_PARAMETERS: Object = {"type": "object", "properties": {}}
_NO_WORD = ("seed", "presence_penalty", "frequency_penalty", "logprobs")
_VERTEX_VERSION = b"vertex-2023-10-16"
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")


@attrs.frozen
class Body:
    """What is sent: the body, the betas that it needs, and ``notes`` on what was left out, for ReplyMeta."""

    data: bytes
    betas: tuple[str, ...]
    notes: tuple[str, ...] = ()


def encode_request(request: ModelRequest, server: Server, faults: Faults, *, stream: bool) -> Body:
    """Return *request* for *server*. Raises ProviderError ``bad_request`` naming what cannot be sent."""
    try:
        return _Writer(request, server).body(stream=stream)
    except UNSENDABLE as error:
        raise faults.unsendable(error) from error


def encode_count(request: ModelRequest, server: Server, faults: Faults) -> Body:
    """Return what asks how many tokens *request* has; what changes nothing of that is left out.

    Raises ProviderError ``bad_request`` naming what cannot be sent.
    """
    given = request.parameters
    bare = ModelParameters(
        max_output_tokens=given.max_output_tokens,
        reasoning_effort=given.reasoning_effort,
        tool_choice=given.tool_choice,
        parallel_tool_calls=given.parallel_tool_calls,
        output_schema=given.output_schema,
        extra={name: value for name, value in given.extra.items() if name in {*_COUNTED, "betas"}},
    )
    try:
        return _Writer(attrs.evolve(request, parameters=bare), server).body(stream=False, count=True)
    except UNSENDABLE as error:
        raise faults.unsendable(error) from error


class _Writer:
    def __init__(self, request: ModelRequest, server: Server) -> None:
        self._request = request
        self._parameters = request.parameters
        self._server = server
        self._model: Model = model_of(request.model, server.models.items())
        self._cache = kept_for("the Messages API", self._parameters.cache, server.cache)
        asked = self._parameters.max_output_tokens
        self._max_tokens = (server.max_tokens or self._model.max_tokens) if asked is None else asked

    def body(self, *, stream: bool, count: bool = False) -> Body:
        said = conversation(self._request.messages, _BLOCKS, system_turns=self._model.system_turns)
        offered, choice = _offer(self._request)
        tools = [cast("bytes", tool.memo(_TOOL, _tool)) for tool in offered]
        vendor = [encode(tool) for tool in asked(self._request, declared(self._server))]
        rest, betas = self._rest(said, choice if tools or vendor else None, stream=stream)
        if self._may_mark(said, offered, rest):
            said, tools = _with_marks(said, tools, offered, self._cache)
        head = self._named(count=count)
        head = head if count else b'%b,"max_tokens":%d' % (head, self._max_tokens)
        system = b',"system":[%b]' % said.system if said.system else b""
        given = b',"tools":[%b]' % b",".join((*tools, *vendor)) if tools or vendor else b""
        turns = b",".join(said.turns)
        more = b",%b" % encode(rest)[1:-1] if rest else b""
        data = b'%b%b%b,"messages":[%b]%b}' % (head, system, given, turns, more)
        return Body(data, betas, thinking_note(said.dropped))

    def _named(self, *, count: bool) -> bytes:
        """Return the start of the body, which names the model unless the path does."""
        named = b'"model":%b' % encode(self._request.model)
        if not self._server.at_vertex:
            return b"{" + named
        version = b'{"anthropic_version":"%b"' % _VERTEX_VERSION
        return b"%b,%b" % (version, named) if count else version

    def _rest(self, said: Conversation, choice: Object | None, *, stream: bool) -> tuple[Object, tuple[str, ...]]:
        parameters = self._parameters
        rest = _sampling(parameters)
        replayed = said.thinks and self._model.binds_thinking and self._server.drop_stale_thinking
        replayed = replayed and "thinking" not in parameters.extra
        display = self._server.thinking_display
        thought = thinking(
            parameters.reasoning_effort, self._model, self._max_tokens, display=display, replayed=replayed
        )
        if "thinking" in thought:
            rest["thinking"] = thought["thinking"]
        output = {"effort": thought["effort"]} if "effort" in thought else {}
        if parameters.output_schema is not None:
            output["format"] = {"type": "json_schema", "schema": closed_schema(parameters.output_schema)}
        if output:
            rest["output_config"] = output
        if choice is not None:
            rest["tool_choice"] = choice
        if stream:
            rest["stream"] = True
        return rest, (*_add_extra(rest, parameters), *((BINDING_BETA,) if replayed else ()))

    def _may_mark(self, said: Conversation, offered: Sequence[ToolSpec], rest: Object) -> bool:
        """Whether to set cache points: a first request without tools would not be read from the cache again."""
        ours = self._cache != "off" and "cache_control" not in rest and not said.marks
        ours = ours and not any("cache_control" in _tool_extra(tool) for tool in offered)
        # What a request wishes itself is marked in any case.
        wished = self._parameters.cache in TTLS
        return ours and (wished or bool(offered) or said.replied)


# ---- parameters ---------------------------------------------------------------------------


def _sampling(parameters: ModelParameters) -> Object:
    for name in _NO_WORD:
        if getattr(parameters, name) is not None:
            raise UnsendableError(f"parameters.{name}: the Messages API has no word for it; leave it out")
    if parameters.background:
        raise UnsendableError("parameters.background: the Messages API answers at once, or a batch; leave it out")
    if parameters.metadata:
        raise UnsendableError("parameters.metadata: the Messages API keeps none but parameters.user; leave it out")
    given: Object = {
        "temperature": parameters.temperature,
        "top_p": parameters.top_p,
        "top_k": parameters.top_k,
        "stop_sequences": list(parameters.stop) or None,
        "service_tier": parameters.service_tier,
        "metadata": None if parameters.user is None else {"user_id": parameters.user},
    }
    for name, value in given.items():
        if isinstance(value, float) and not math.isfinite(value):
            raise UnsendableError(f"parameters.{name} is {value}, which JSON cannot say")
    return {name: value for name, value in given.items() if value is not None}


def _add_extra(rest: Object, parameters: ModelParameters) -> tuple[str, ...]:
    """Add what goes into the request as it is; return the betas, which go into a header."""
    betas: tuple[str, ...] = ()
    for name, value in parameters.extra.items():
        if name == "betas":
            betas = _betas(value)
        elif name in rest or name in _OWN:
            raise UnsendableError(f"parameters.extra: '{name}' is already set by the provider; leave it out")
        elif name in _HOSTED:
            raise UnsendableError(f"parameters.extra: '{name}': {_HOSTED[name]}")
        else:
            rest[name] = thaw(value)
    return betas


def _betas(value: object) -> tuple[str, ...]:
    names = cast("Sequence[object]", value) if isinstance(value, list | tuple) else ()
    if not names or not all(isinstance(name, str) and name.isascii() and name.isprintable() for name in names):
        raise UnsendableError("parameters.extra: 'betas' is a list of names")
    return tuple(str(name) for name in names)


# ---- tools --------------------------------------------------------------------------------


def _offer(request: ModelRequest) -> tuple[Sequence[ToolSpec], Object | None]:
    """Return the tools to send, and ``tool_choice``."""
    offered, wanted = request.tools, request.parameters.tool_choice
    if isinstance(wanted, AllowedTools):
        # The API cannot keep a tool in the request and forbid it, so the others are left out.
        allowed = tuple(tool for tool in offered if tool.name in wanted.names)
        missing = sorted(set(wanted.names) - {tool.name for tool in offered})
        if missing or (wanted.required and not allowed):
            problem = (
                f"names what is not offered: {', '.join(missing)}" if missing else "requires a call and allows none"
            )
            raise UnsendableError(f"parameters.tool_choice {problem}")
        # None allowed: all stay, so that the cache stays valid, and none may be called.
        offered = allowed or offered
        wanted = ("required" if wanted.required else "auto") if allowed else "none"
    choice = _choice(wanted)
    parallel = request.parameters.parallel_tool_calls
    if parallel is not None and wanted != "none":
        choice = {**(choice or {"type": "auto"}), "disable_parallel_tool_use": not parallel}
    return offered, choice


def _choice(wanted: ToolChoice) -> Object | None:
    match wanted:
        case "auto":
            return None
        case "none":
            return {"type": "none"}
        case "required":
            return {"type": "any"}
        case _:
            return {"type": "tool", "name": wanted}


def _tool(spec: ToolSpec) -> bytes:
    where = f"extra of tool {spec.name}"
    described = with_fields(WIRE, {"name": spec.name}, spec.extra.get(WIRE), frozenset({"name"}), where)
    if not _NAME.fullmatch(spec.name):
        raise UnsendableError(f"tool {spec.name!r}: a name has letters, digits, - and _ only, 128 at most")
    kind = described.get("type", "custom")
    if kind == "custom":
        clash = sorted(_OWN_TOOL & set(described) - {"name"})
        if clash:
            raise UnsendableError(
                f"extra of tool {spec.name}: '{clash[0]}' is already set by the provider; leave it out"
            )
        if spec.description:
            described["description"] = spec.description
        schema = {"type": "object", **cast("Object", thaw(spec.parameters))}
        described["input_schema"] = schema if spec.parameters else _NO_PARAMETERS
    elif not str(kind).startswith(_OURS):
        raise UnsendableError(
            f"extra of tool {spec.name}: {kind!r} runs at the vendor: the setting server_tools has it"
        )
    return encode(described)


def _tool_extra(spec: ToolSpec) -> Mapping[str, Any]:
    extra = spec.extra.get(WIRE)
    return cast("Mapping[str, Any]", extra) if isinstance(extra, Mapping) else {}


# ---- the cache ----------------------------------------------------------------------------


def _with_marks(
    said: Conversation, tools: list[bytes], offered: Sequence[ToolSpec], cache: str
) -> tuple[Conversation, list[bytes]]:
    """Mark where the vendor's cache may end: behind the tools, the system message, and two turns.

    Those are the four that a request may have. The last turn of a user is where this request
    ends, the one before where the last request ended: the vendor finds it there also behind
    more than the twenty blocks that it looks back.
    """
    tools = list(tools)
    places = [at for at, tool in enumerate(offered) if not _tool_extra(tool).get("defer_loading")]
    if places:
        tools[places[-1]] = _marked(tools[places[-1]], cache)
    system = _marked(said.system, cache) if said.system else b""
    turns = list(said.turns)
    for at in said.users:
        turns[at] = _marked(turns[at].removesuffix(b"]}"), cache) + b"]}"
    return attrs.evolve(said, system=system, turns=turns), tools


def _marked(blocks: bytes, cache: str) -> bytes:
    """Return *blocks*, the last of which gets the cache point; a block is an object, so its bytes end in a brace."""
    mark = b'{"type":"ephemeral"}' if cache == "5m" else b'{"type":"ephemeral","ttl":"%b"}' % cache.encode()
    return b'%b,"cache_control":%b}' % (blocks[:-1], mark)
