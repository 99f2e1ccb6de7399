"""Puts streamed pieces of tool calls together, however the server cuts and labels them.

OpenAI sends index, id and name once and the arguments in pieces. Others repeat the name in
every piece, leave out index or id, use one index for two calls, or send a call whole.
"""

from __future__ import annotations

from typing import cast

import attrs
import msgspec
from pluggent_hookspecs import ModelRequest, ToolCallDelta

from pluggent_openai.reply import CallIds, MalformedError, Object, arguments_text, as_object, as_text


@attrs.define
class _Call:
    """One call: what the server called it (``index``, ``given_id``), and what came so far."""

    number: int
    index: int | None
    given_id: str
    name: str = ""
    arguments: list[str] = attrs.field(factory=list[str])
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
        if not self.arguments or not self.arguments[-1].rstrip().endswith("}"):
            return False
        try:
            msgspec.json.decode("".join(self.arguments).encode("utf-8", "replace"))
        except (msgspec.DecodeError, RecursionError):
            return False
        return True


class CallAssembly:
    """The calls of one streamed reply. ``take`` returns deltas that keep the contract's rules."""

    def __init__(self, request: ModelRequest) -> None:
        self._ids = CallIds(request)
        self._calls: list[_Call] = []

    @property
    def any(self) -> bool:
        """Whether there is a call."""
        return bool(self._calls)

    def take(self, pieces: object) -> list[ToolCallDelta]:
        """Return what one ``tool_calls`` list brings. Raises MalformedError."""
        if not isinstance(pieces, list):
            raise MalformedError("tool_calls is no list")
        touched: set[int] = set()
        return [delta for piece in cast("list[object]", pieces) for delta in self._piece(piece, touched)]

    def finish(self) -> None:
        """Check that every call became one. Raises MalformedError."""
        if not all(call.shown for call in self._calls):
            raise MalformedError("a tool call names no function")

    def _piece(self, piece: object, touched: set[int]) -> list[ToolCallDelta]:
        fields = as_object(piece, "a tool call")
        function = as_object(fields.get("function") or {}, "a tool call's function")
        name = as_text(function.get("name"))
        text = arguments_text(function.get("arguments"))
        call = self._call_of(fields, name, text, touched)
        if call is None:
            return []
        touched.add(call.number)
        call.name = call.name or name
        return self._deltas(call, text)

    def _call_of(self, fields: Object, name: str, text: str, touched: set[int]) -> _Call | None:
        """Return the call that a piece belongs to, a new one if need be, None for a mere repeat."""
        index, given_id = _index(fields.get("index")), as_text(fields.get("id"))
        call = self._known(index, given_id, name)
        if call is None or (name and call.begins_another(given_id, name, touched)):
            return self._new(index, given_id)
        if (name or call.named_again) and text.strip() and call.whole():
            # Nothing can follow complete arguments: it is the same call once more, or another one.
            again = given_id and given_id == call.given_id and text == "".join(call.arguments)
            return None if again else self._new(index, given_id or call.given_id, call.name)
        call.named_again = call.named_again or bool(name and call.name)
        call.given_id = call.given_id or given_id
        return call

    def _known(self, index: int | None, given_id: str, name: str) -> _Call | None:
        """Return the call that a piece names: by its id, its index, or by following on the last."""
        latest = self._calls[::-1]
        for call in latest:
            if given_id and call.given_id == given_id and (call.index == index or None in (call.index, index)):
                return call
        if index is not None:
            return next((call for call in latest if call.index == index), None)
        return latest[0] if latest and not (given_id and name) else None

    def _new(self, index: int | None, given_id: str, name: str = "") -> _Call:
        call = _Call(len(self._calls), index, given_id, name)
        self._calls.append(call)
        return call

    def _deltas(self, call: _Call, text: str) -> list[ToolCallDelta]:
        if text.strip() == "{}" and not any(call.arguments):
            # Some servers begin with {} and send the arguments afterwards; alone it means the same as none.
            text = ""
        if text:
            call.arguments.append(text)
        if not call.name:
            return []
        if not call.shown:
            call.shown = True
            return [ToolCallDelta(call.number, self._ids.unique(call.given_id), call.name, "".join(call.arguments))]
        return [ToolCallDelta(call.number, arguments=text)] if text else []


def _index(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
