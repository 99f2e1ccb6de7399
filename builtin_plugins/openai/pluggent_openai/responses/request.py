"""A ModelRequest as the bytes of a Responses request.

Each message and each tool is encoded once and kept in its memo; a body is a join of those pieces.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import attrs
import msgspec
from pluggent_hookspecs import ModelParameters, ModelRequest, ToolSpec
from pluggent_provider_http.hosted_tools import Declared, asked
from pluggent_provider_http.server_errors import Faults
from pluggent_provider_http.unsendable import UNSENDABLE, UnsendableError
from pluggent_provider_http.vendor_fields import plain

from pluggent_openai.dialects import Dialect
from pluggent_openai.parameters import offered
from pluggent_openai.responses.conversation import Conversation
from pluggent_openai.responses.layout import VENDOR, Object
from pluggent_openai.responses.parameters import NO_FIELDS, fields_of
from pluggent_openai.server_tools import runs_here
from pluggent_openai.wire import Body

_encode = msgspec.json.Encoder().encode
_CHAT = "openai"
_COUNTED_FIELDS = frozenset(
    {"instructions", "parallel_tool_calls", "prompt", "reasoning", "text", "tool_choice", "truncation"}
)
"""What ``/responses/input_tokens`` takes besides model, input and tools."""
_NO_PARAMETERS: Object = {"type": "object", "properties": {}}


class Writer:
    """Writes requests for one server."""

    def __init__(
        self,
        dialect: Dialect,
        server: str,
        *,
        thinking: bool,
        hosted: tuple[Declared, ...] = (),
        fields: Mapping[str, Any] = NO_FIELDS,
    ) -> None:
        """Make one for the server with the address *server*.

        *hosted* are its tools that run there. *fields* are what settings put into each request that does not say
        otherwise.
        """
        self._dialect = dialect
        self._hosted = hosted
        self._fields = fields
        self._tool_key = f"pluggent_openai responses {dialect.tool_key}"
        self._conversation = Conversation(dialect, server, thinking=thinking)

    def encode(self, request: ModelRequest, faults: Faults, *, stream: bool) -> Body:
        """Return the body of *request*. Raises ProviderError ``bad_request`` naming what cannot be sent."""
        try:
            return self._body(request, stream=stream)
        except UNSENDABLE as error:
            raise faults.unsendable(error) from error

    def encode_count(self, request: ModelRequest, faults: Faults) -> Body:
        """Return the body that asks how many tokens *request* has; what changes nothing of that is left out."""
        bare = attrs.evolve(request, parameters=_counted(request.parameters))
        try:
            return self._body(bare, stream=False, only=_COUNTED_FIELDS)
        except UNSENDABLE as error:
            raise faults.unsendable(error) from error

    def _body(self, request: ModelRequest, *, stream: bool, only: frozenset[str] | None = None) -> Body:
        said = self._conversation.encode(request.messages)
        body = b'{"model":%b,"input":[%b]' % (_encode(request.model), said.items)
        tools = offered(request, self._dialect) if request.tools else ()
        declared = [cast("bytes", tool.memo(self._tool_key, self._tool)) for tool in tools]
        declared += [_encode(tool) for tool in asked(request, self._hosted)]
        if declared:
            body = b'%b,"tools":[%b]' % (body, b",".join(declared))
        rest = fields_of(request, tools, self._dialect, stream=stream, fields=self._fields)
        if only is not None:
            rest = {name: value for name, value in rest.items() if name in only}
        if not rest:
            return Body(b"%b}" % body, said.notes())
        return Body(b"%b,%b" % (body, _encode(rest)[1:]), said.notes())

    def before(self, request: ModelRequest) -> str:
        """Return what identifies the messages of *request*, as this server is sent them."""
        return self._conversation.before(request.messages)

    def _tool(self, spec: ToolSpec) -> bytes:
        given = {**_own(spec, _CHAT), **_own(spec, VENDOR)}
        kind = given.pop("type", "function")
        described: Object = {"name": spec.name}
        if spec.description:
            described["description"] = spec.description
        if kind not in ("function", "custom"):
            if not runs_here(str(kind), given):
                problem = f"{kind!r} runs at the vendor: the setting server_tools has it"
                raise UnsendableError(f"extra of tool '{spec.name}': {problem}")
            return _encode({"type": kind, **given})
        if kind == "custom" and self._dialect.custom_tools:
            if isinstance(format_ := given.get("format"), dict):
                given["format"] = _grammar(cast("Object", format_))
            return _encode({"type": "custom", **_joined(described, given, spec)})
        if kind == "custom":
            given.pop("format", None)  # as a function: its text is the one parameter
        described["parameters"] = plain(spec.parameters, f"parameters of tool '{spec.name}'") or _NO_PARAMETERS
        # Left out it would mean true here, and the vendor would refuse schemas or change them.
        strict = {"strict": given.pop("strict", False)} if self._dialect.strict else {}
        if not self._dialect.strict:
            given.pop("strict", None)
        return _encode({"type": "function", **_joined(described | strict, given, spec)})


def _counted(parameters: ModelParameters) -> ModelParameters:
    """Return those of *parameters* that tokens depend on."""
    return ModelParameters(
        reasoning_effort=parameters.reasoning_effort,
        tool_choice=parameters.tool_choice,
        parallel_tool_calls=parameters.parallel_tool_calls,
        output_schema=parameters.output_schema,
        extra={name: value for name, value in parameters.extra.items() if name in _COUNTED_FIELDS},
    )


def _own(spec: ToolSpec, vendor: str) -> dict[str, Any]:
    own = spec.extra.get(vendor, {})
    where = f"extra[{vendor!r}] of tool '{spec.name}'"
    if not isinstance(own, Mapping):
        raise UnsendableError(f"{where}: expected an object")
    return cast("dict[str, Any]", plain(own, where))


def _grammar(format_: Object) -> Object:
    """Return the format of a custom tool with its grammar as this API has it, where chat completions nest it."""
    inner = format_.get("grammar")
    return {**{k: v for k, v in format_.items() if k != "grammar"}, **inner} if isinstance(inner, dict) else format_


def _joined(described: Object, given: Object, spec: ToolSpec) -> Object:
    if taken := [name for name in given if name in described]:
        raise UnsendableError(f"extra of tool '{spec.name}': '{taken[0]}' is already set; leave it out")
    return described | given
