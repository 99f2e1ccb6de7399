"""A tool call as chat completions writes it: of a function, of a custom tool, of a vendor's own kind."""

from __future__ import annotations

import hashlib
import string
from collections.abc import Mapping
from typing import Any, cast

import msgspec
from pluggent_hookspecs import Json, ToolCall

from pluggent_openai.compat import Dialect
from pluggent_openai.fields import UnsendableError, plain
from pluggent_openai.parts import VENDOR, own_fields

_ID_CHARS = string.digits + string.ascii_letters


def sent_call(call: ToolCall, dialect: Dialect) -> dict[str, Any]:
    """Return *call* as a server of *dialect* takes it back. Raises UnsendableError."""
    function = {"name": call.name, "arguments": call.arguments}
    if not call.extra:
        return {"id": sent_id(call.id, dialect), "type": "function", "function": function}
    own = dict(own_fields(call.extra, dialect))
    kind = own.pop("type", "function")
    out: dict[str, Any] = {"id": sent_id(call.id, dialect), "type": kind}
    if kind == "custom" and dialect.custom_tools:
        out["custom"] = {"name": call.name, "input": custom_input(call.arguments)}
    else:
        out["type"] = "function" if kind == "custom" else kind
        out["function"] = function
    for name, value in own.items():
        where = f"extra[{VENDOR!r}] of call {call.id}"
        if name in out:
            raise UnsendableError(f"{where}: '{name}' is already set; leave it out")
        out[name] = plain(value, f"{where}: {name}")
    return out


def sent_id(call_id: str, dialect: Dialect) -> str:
    """Return *call_id* in the length that the server wants: the same one for the call and its result."""
    length = dialect.call_id_chars
    if not length or (len(call_id) == length and call_id.isascii() and call_id.isalnum()):
        return call_id
    digest = hashlib.sha256(call_id.encode("utf-8", "surrogatepass")).digest()
    return "".join(_ID_CHARS[byte % len(_ID_CHARS)] for byte in digest * (length // len(digest) + 1))[:length]


def custom_arguments(text: str) -> str:
    """Return the arguments of a custom tool's call: its free text, as an object.

    >>> custom_arguments("say hi")
    '{"input":"say hi"}'
    """
    return msgspec.json.encode({"input": text}).decode()


def custom_input(arguments: str) -> str:
    """Return the free text in the arguments of a custom tool's call; whatever else they are, as it is."""
    try:
        decoded: object = msgspec.json.decode(arguments)
    except (ValueError, RecursionError):  # no JSON, or no UTF-8
        return arguments
    given = cast("Mapping[str, object]", decoded).get("input") if isinstance(decoded, Mapping) else None
    return given if isinstance(given, str) else arguments


def call_extra(fields: Mapping[str, Any], dialect: Dialect) -> tuple[Mapping[str, Json], Mapping[str, Json]]:
    """Return what else a server said of a call: what it takes back, as ToolCall.extra, and the rest."""
    known = ("index", "id", "type", "function", "custom")
    more = {name: value for name, value in fields.items() if name not in known and value not in (None, {}, [])}
    back: dict[str, Json] = {name: value for name, value in more.items() if dialect.takes_back(name)}
    kind = fields.get("type")
    if isinstance(kind, str) and kind not in ("", "function"):
        back["type"] = kind
    rest = {name: value for name, value in more.items() if name not in back}
    return ({VENDOR: back} if back else {}), rest
