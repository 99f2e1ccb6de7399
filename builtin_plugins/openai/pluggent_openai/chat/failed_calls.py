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
_FORMS = (
    re.compile(
        r'\s*(?:<tool_call>\s*)?\{\s*"name"\s*:\s*(?P<json>"(?:[^"\\]|\\.)*")\s*,'
        r'\s*"(?:arguments|parameters)"\s*:\s*(?P<arguments>.*)\}\s*(?:</tool_call>\s*)?',
        re.DOTALL,
    ),
    re.compile(r"\s*<function=(?P<name>[\w.-]+)>?(?P<arguments>.*?)>?\s*</function>\s*", re.DOTALL),
)


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
    for form in _FORMS:
        if (found := form.fullmatch(written)) is not None and (name := _name(found.groupdict())):
            reason = fields.get("message")
            return FailedCall(name, found["arguments"].strip() or "{}", reason if isinstance(reason, str) else "")
    return None


def failed_call_in(body: bytes) -> FailedCall | None:
    """Return the call in the body of an error; None if it holds none."""
    try:
        return failed_call(decode_whole(body)) if _CODE.encode() in body else None
    except (MalformedError, RecursionError):
        return None


def _name(found: Mapping[str, str | None]) -> str:
    if found.get("name"):
        return found["name"] or ""
    try:
        name: object = json.loads(found.get("json") or "")
    except ValueError:
        return ""
    return name if isinstance(name, str) else ""
