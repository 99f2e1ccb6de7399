"""A ModelRequest as the bytes of a chat completions request.

Each message and each tool is encoded once and kept in its memo; a body is a join of those
pieces, so a request costs no more for a long history than the join.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias, cast

import msgspec
from pluggent_hookspecs import Message, ModelRequest, Role, ToolSpec
from pluggent_provider_http.server_errors import Faults
from pluggent_provider_http.unsendable import UNSENDABLE, UnsendableError
from pluggent_provider_http.vendor_fields import plain

from pluggent_openai.chat.arrangement import Calls, Piece, Result, arranged
from pluggent_openai.chat.content import (
    has_point,
    own_fields,
    sent_call,
    sent_content,
    sent_id,
    sent_media,
    sent_thinking,
)
from pluggent_openai.dialects import TAGS, Dialect
from pluggent_openai.parameters import fields_of, is_custom, offered
from pluggent_openai.server_tools import runs_here
from pluggent_openai.wire import Body

_encode = msgspec.json.Encoder().encode
_NO_PARAMETERS: dict[str, Any] = {"type": "object", "properties": {}}
_INSTRUCTION = (
    "Answer with one JSON object and nothing else: no words around it and no code fence. "
    "It has to follow this JSON Schema:\n"
)
_LEADING = (b'{"role":"system"', b'{"role":"developer"')
_FOLLOWS = "(what it returned follows in a message of the user)"

Object: TypeAlias = dict[str, Any]


class Writer:
    """Writes requests for servers of one dialect."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect

    def encode(self, request: ModelRequest, faults: Faults, *, stream: bool) -> bytes:
        """Return the bytes of ``body``."""
        return self.body(request, faults, stream=stream).data

    def body(self, request: ModelRequest, faults: Faults, *, stream: bool) -> Body:
        """Return the body of *request*. Raises ProviderError ``bad_request`` naming what cannot be sent."""
        try:
            return self._body(request, stream=stream)
        except UNSENDABLE as error:
            raise faults.unsendable(error) from error

    def _body(self, request: ModelRequest, *, stream: bool) -> Body:
        dialect = self._dialect
        if request.hosted:
            raise UnsendableError("hosted: chat completions run no tools at the vendor; set api = 'responses'")
        made = Message.memos(request.messages, dialect.message_key, self._message)
        said = arranged(request.messages, made)
        pieces = said.pieces
        if not dialect.json_schema and request.parameters.output_schema is not None:
            pieces = _instructed(pieces, request)
        body = b'{"model":%b,"messages":[%b]' % (_encode(request.model), b",".join(pieces))
        tools = offered(request, dialect) if request.tools else ()
        if tools:
            key, described = dialect.tool_key, self._tool
            encoded = b",".join([cast("bytes", tool.memo(key, described)) for tool in tools])
            body = b'%b,"tools":[%b]' % (body, encoded)
        rest = fields_of(request, tools, dialect, stream=stream)
        if dialect.reasoning == TAGS:
            rest.setdefault("clear_thinking", False)  # or the server takes it out again
        return Body(b"%b,%b" % (body, _encode(rest)[1:]) if rest else body + b"}", said.notes)

    def _message(self, message: Message) -> bytes:
        dialect = self._dialect
        if message.role is Role.TOOL:
            return _tool_result(message, dialect)
        encoded = self._encoded(message)
        unmarked = not dialect.cache and has_point(message)
        if not message.tool_calls and not unmarked:
            return encoded
        piece = Piece(encoded) if unmarked else Calls(encoded)
        piece.ids = tuple([sent_id(call.id, dialect) for call in message.tool_calls])
        piece.unmarked = unmarked
        return piece

    def _encoded(self, message: Message) -> bytes:
        dialect = self._dialect
        role = Role.SYSTEM if message.role is Role.DEVELOPER and not dialect.developer else message.role
        out: Object = {"role": role.value, "content": sent_content(message, dialect)}
        if message.name is not None:
            out["name"] = message.name
        if message.tool_calls:
            out["tool_calls"] = [sent_call(call, dialect) for call in message.tool_calls]
        if role is Role.ASSISTANT and dialect.reasoning:
            out |= sent_thinking(message, dialect)
        return _encode(_with_extra(out, message, dialect) if message.extra else out)

    def _tool(self, spec: ToolSpec) -> bytes:
        return _encode(_declared(spec, self._dialect))


def _instructed(pieces: list[bytes], request: ModelRequest) -> list[bytes]:
    """Say the form of the reply behind the instructions that stand at the beginning."""
    schema = plain(request.parameters.output_schema, "parameters.output_schema")
    words = {"role": "system", "content": _INSTRUCTION + _encode(schema).decode()}
    leading = next((at for at, piece in enumerate(pieces) if not piece.startswith(_LEADING)), len(pieces))
    return [*pieces[:leading], _encode(words), *pieces[leading:]]


def _tool_result(message: Message, dialect: Dialect) -> bytes:
    if message.tool_call_id is None:
        raise UnsendableError("a message of role tool has no tool_call_id")
    text, media = sent_media(message, dialect)
    call_id = sent_id(message.tool_call_id, dialect)
    words = text or (_FOLLOWS if media else "")
    out = {"role": "tool", "content": words, "tool_call_id": call_id}
    encoded = _encode(_with_extra(out, message, dialect) if message.extra else out)
    unmarked = has_point(message)
    piece = Piece(encoded) if media or unmarked else Result(encoded)
    piece.answers, piece.text, piece.unmarked = call_id, words, unmarked
    if media:
        what = f"tool '{message.name}' (call {call_id})" if message.name else f"tool call {call_id}"
        piece.media = _encode([{"type": "text", "text": f"Returned by {what}:"}, *media])[1:-1]
    return piece


def _with_extra(out: Object, message: Message, dialect: Dialect) -> Object:
    for name, value in own_fields(message.extra, dialect).items():
        where = f"extra['openai'] of a message of role {message.role}"
        if name in out:
            raise UnsendableError(f"{where}: '{name}' is already set; leave it out")
        out[name] = plain(value, f"{where}: {name}")
    return out


def _declared(spec: ToolSpec, dialect: Dialect) -> Object:
    own = spec.extra.get("openai", {})
    if not isinstance(own, Mapping):
        raise UnsendableError(f"extra['openai'] of tool '{spec.name}': expected an object")
    where = f"extra['openai'] of tool '{spec.name}'"
    given = plain(own, where)
    kind = given.pop("type", "function")
    described: Object = {"name": spec.name}
    if spec.description:
        described["description"] = spec.description
    if kind == "custom" and is_custom(spec, dialect):
        return {"type": "custom", "custom": _joined(described, given, where)}
    if kind not in ("function", "custom"):
        if not runs_here(str(kind), given):
            raise UnsendableError(f"{where}: {kind!r} runs at the vendor, where no policy is asked; leave it out")
        return {"type": kind, **given}
    if kind == "custom":
        given.pop("format", None)  # as a function: its text is the one parameter
    if not dialect.strict:
        given.pop("strict", None)
    described["parameters"] = plain(spec.parameters, f"parameters of tool '{spec.name}'") or _NO_PARAMETERS
    return {"type": "function", "function": _joined(described, given, where)}


def _joined(described: Object, given: Object, where: str) -> Object:
    if taken := [name for name in given if name in described]:
        raise UnsendableError(f"{where}: '{taken[0]}' is already set; leave it out")
    return described | given
