"""A call that a server refused in place of handing it on (``tool_use_failed`` of Groq), as the model meant it. Pure.

Its arguments are not repaired: the host finds what is wrong with them, and the model is told.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import NamedTuple, cast

from pluggent_provider_http.payload import MalformedError, decode_whole

_CODE = "tool_use_failed"
_MOST_CHARS = 1_048_576
# As https://console.groq.com/docs/tool-use shows failed_generation, and as models of other families write calls.
_AS_OBJECT = re.compile(
    r'\{\s*"name"\s*:\s*(?P<name>"(?:[^"\\]|\\.)*")\s*,\s*"(?:arguments|parameters)"\s*:\s*(?P<arguments>.*)\}',
    re.DOTALL,
)
_TAG, _END_TAG = "<tool_call>", "</tool_call>"
_FUNCTION, _END_FUNCTION = "<function=", "</function>"
_NAME = re.compile(r"[\w.-]+")


class FailedCall(NamedTuple):
    """What the model wrote, and why the server did not take it."""

    name: str
    arguments: str
    reason: str


def failed_call(answer: object) -> FailedCall | None:
    """Return the call in an error object; None if it holds none.

    >>> written = '{"name": "add", "arguments": {"a": }}'
    >>> failed_call({"error": {"code": "tool_use_failed", "message": "no", "failed_generation": written}})
    FailedCall(name='add', arguments='{"a": }', reason='no')
    """
    error = cast("Mapping[str, object]", answer).get("error") if isinstance(answer, Mapping) else None
    if not isinstance(error, Mapping):
        return None
    fields = cast("Mapping[str, object]", error)
    written = fields.get("failed_generation")
    if fields.get("code") != _CODE or not isinstance(written, str) or len(written) > _MOST_CHARS:
        return None
    name, arguments = _read(written.strip().removeprefix(_TAG).removesuffix(_END_TAG).strip())
    reason = fields.get("message")
    return FailedCall(name, arguments.strip() or "{}", reason if isinstance(reason, str) else "") if name else None


def failed_call_in(body: bytes) -> FailedCall | None:
    """Return the call in the body of an error; None if it holds none."""
    try:
        return failed_call(decode_whole(body)) if _CODE.encode() in body else None
    except (MalformedError, RecursionError):
        return None


def _read(written: str) -> tuple[str, str]:
    """Return the name and the arguments in a call that a model wrote; an empty name if it is none."""
    if written.startswith(_FUNCTION) and written.endswith(_END_FUNCTION):
        inner = written.removeprefix(_FUNCTION).removesuffix(_END_FUNCTION).strip()
        named = _NAME.match(inner)
        return (named[0], inner[named.end() :].removeprefix(">").removesuffix(">")) if named else ("", "")
    found = _AS_OBJECT.fullmatch(written)
    if found is None:
        return "", ""
    try:
        name: object = json.loads(found["name"])
    except ValueError:
        return "", ""
    return (name, found["arguments"]) if isinstance(name, str) else ("", "")
