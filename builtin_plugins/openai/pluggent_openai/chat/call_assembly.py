"""Puts streamed pieces of tool calls together, however the server cuts and labels them.

OpenAI sends index, id and name once and the arguments in pieces. Others repeat the name in
every piece, leave out index or id, use one index for two calls, or send a call whole.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import attrs
import msgspec
from pluggent_hookspecs import Json, ModelRequest, ToolCallDelta
from pluggent_provider_http.call_ids import CallIds
from pluggent_provider_http.payload import MalformedError, Object, as_count, as_object, as_text

from pluggent_openai.chat.content import VENDOR, call_extra
from pluggent_openai.chat.reply import NAMELESS, arguments_text
from pluggent_openai.dialects import Dialect

MOST_CALLS = 1024
"""No reply of a model has as many; a server that sends them is broken."""
_NO_EXTRA: Mapping[str, Json] = {}
_PLAIN = frozenset({"index", "id", "function"})


@attrs.define
class _Call:
    """One call: what the server called it (``index``, ``given_id``), and what came so far."""

    number: int
    index: int | None
    given_id: str
    name: str = ""
    id: str = ""
    arguments: list[str] = attrs.field(factory=list[str])
    custom: bool = False
    extra: dict[str, Any] = attrs.field(factory=dict[str, Any])
    shown: bool = False
    named_again: bool = False

    def begins_another(self, given_id: str, name: str, touched: set[int]) -> bool:
        """Whether a piece with a name, said of this call, must mean another one."""
        if not self.name:
            return False
        if given_id and self.given_id:
            return name != self.name or given_id != self.given_id
        return name != self.name or self.number in touched

    def whole(self) -> bool:
        """Whether the arguments are complete, so that more of them cannot be meant."""
        if self.custom or not self.arguments or not self.arguments[-1].rstrip().endswith("}"):
            return False
        try:
            msgspec.json.decode("".join(self.arguments).encode("utf-8", "replace"))
        except (ValueError, RecursionError):  # no JSON, or no UTF-8
            return False
        return True


class CallAssembly:
    """The calls of one streamed reply. ``take`` returns deltas that keep the contract's rules."""

    def __init__(self, request: ModelRequest, dialect: Dialect) -> None:
        self._ids = CallIds(request)
        self._dialect = dialect
        self._calls: list[_Call] = []
        self._by_index: dict[int | None, _Call] = {}
        self._by_id: dict[str, list[_Call]] = {}
        self._said: dict[int, dict[str, Json]] = {}

    @property
    def any(self) -> bool:
        """Whether there is a call."""
        return bool(self._calls)

    def take(self, pieces: Sequence[object]) -> list[ToolCallDelta]:
        """Return what one ``tool_calls`` list brings. Raises MalformedError."""
        touched: set[int] = set()
        return [delta for piece in pieces for delta in self._piece(piece, touched)]

    def more(self, index: int, text: str) -> ToolCallDelta | None:
        """Return what more arguments bring that are surely those of call *index*; None if ``take`` has to decide."""
        call = self._by_index.get(index)
        if call is None or call.named_again or call.custom or not call.shown or not text or text.strip() == "{}":
            return None
        call.arguments.append(text)
        return ToolCallDelta(call.number, arguments=text)

    def finish(self) -> list[ToolCallDelta]:
        """Return what closes the calls. Raises MalformedError if one never got a name."""
        if not all(call.shown for call in self._calls):
            raise MalformedError(NAMELESS)
        return [ToolCallDelta(call.number, arguments='"}') for call in self._calls if call.custom]

    def said(self) -> dict[str, Json]:
        """Return what the server said of calls and does not take back, by their ids."""
        return {self._calls[number].id: rest for number, rest in self._said.items()}

    def _piece(self, piece: object, touched: set[int]) -> list[ToolCallDelta]:
        fields = as_object(piece, "a tool call")
        custom = fields.get("custom") if fields.get("function") is None else None
        function = as_object(custom or fields.get("function") or {}, "a tool call's function")
        name = as_text(function.get("name"))
        text = as_text(function.get("input")) if custom else arguments_text(function.get("arguments"))
        call = self._call_of(fields, name, text, touched)
        if call is None:
            return []
        touched.add(call.number)
        call.name = call.name or name
        if custom:
            text = _inside_text(text, first=not call.custom)
            call.custom = True
        return self._deltas(call, text, self._extra(call, fields))

    def _extra(self, call: _Call, fields: Object) -> Mapping[str, Json]:
        """Return the call's extra if the piece has more of it; it is given whole each time."""
        if fields.keys() <= _PLAIN:
            return _NO_EXTRA
        extra, rest = call_extra(fields, self._dialect)
        if rest:
            self._said.setdefault(call.number, {}).update(rest)
        own = dict(cast("Mapping[str, Any]", extra.get(VENDOR, {})))
        if call.custom:
            own.setdefault("type", "custom")
        if all(call.extra.get(name) == value for name, value in own.items()):
            return _NO_EXTRA
        call.extra |= own
        return {VENDOR: dict(call.extra)}

    def _call_of(self, fields: Object, name: str, text: str, touched: set[int]) -> _Call | None:
        """Return the call that a piece belongs to, a new one if need be, None for a mere repeat."""
        index, given_id = as_count(fields.get("index")), as_text(fields.get("id"))
        call = self._known(index, given_id, name)
        if call is None or (name and call.begins_another(given_id, name, touched)):
            return self._new(index, given_id)
        if (name or call.named_again) and text.strip() and call.whole():
            # Nothing can follow complete arguments: it is the same call once more, or another one.
            again = given_id and given_id == call.given_id and text == "".join(call.arguments)
            return None if again else self._new(index, given_id or call.given_id, call.name)
        call.named_again = call.named_again or bool(name and call.name)
        if given_id and not call.given_id:
            call.given_id = given_id
            self._by_id.setdefault(given_id, []).append(call)
        return call

    def _known(self, index: int | None, given_id: str, name: str) -> _Call | None:
        """Return the call that a piece names: by its id, its index, or by following on the last."""
        for call in reversed(self._by_id.get(given_id, ())):
            if call.index == index or None in (call.index, index):
                return call
        if index is not None:
            return self._by_index.get(index)
        return self._calls[-1] if self._calls and not (given_id and name) else None

    def _new(self, index: int | None, given_id: str, name: str = "") -> _Call:
        if len(self._calls) >= MOST_CALLS:
            raise MalformedError(f"it makes more than {MOST_CALLS:,} tool calls")
        call = _Call(len(self._calls), index, given_id, name)
        self._calls.append(call)
        self._by_index[index] = call
        if given_id:
            self._by_id.setdefault(given_id, []).append(call)
        return call

    def _deltas(self, call: _Call, text: str, extra: Mapping[str, Json]) -> list[ToolCallDelta]:
        if text.strip() == "{}" and not any(call.arguments):
            # Some servers begin with {} and send the arguments afterwards; alone it means the same as none.
            text = ""
        if text:
            call.arguments.append(text)
        if not call.name:
            return []
        if not call.shown:
            call.shown = True
            call.id = self._ids.unique(call.given_id)
            own: Mapping[str, Json] = {VENDOR: dict(call.extra)} if call.extra else _NO_EXTRA
            return [ToolCallDelta(call.number, call.id, call.name, "".join(call.arguments), own)]
        return [ToolCallDelta(call.number, arguments=text, extra=extra)] if text or extra else []


def _inside_text(text: str, *, first: bool) -> str:
    """Return a piece of a custom tool's free text as a piece of JSON arguments; see calls.custom_arguments."""
    return ('{"input":"' if first else "") + msgspec.json.encode(text).decode()[1:-1]
