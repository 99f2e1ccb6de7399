"""The parts of a reply, whole or in pieces, become deltas of the contract.

Both ways run through ``Parts``, so a streamed reply is the same as one that came whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import cast

import msgspec
from pluggent_hookspecs import (
    Delta,
    Json,
    ModelRequest,
    Part,
    PartDelta,
    ReasoningDelta,
    TextDelta,
    ToolCall,
    ToolCallDelta,
    VendorPart,
)
from pluggent_provider_http.call_ids import CallIds
from pluggent_provider_http.payload import MalformedError, Object, as_list, as_object, as_text

from pluggent_gemini.generate.layout import SIGNATURE, WIRE, Entry, described
from pluggent_gemini.media import shown_media
from pluggent_gemini.words import Words

_CALL = frozenset({"id", "name", "args"})


class Parts:
    """The parts of one reply. Every method raises MalformedError for malformed parts."""

    def __init__(self, request: ModelRequest) -> None:
        self._entries: list[Entry] = []
        self._open = ""
        """What may go on: a text or a thought, with ``_size`` characters so far; empty for neither."""
        self._size = 0
        self._texts: list[str] = []
        self._thoughts: list[str] = []
        self._signatures: list[str] = []
        self._others: list[Part] = []
        self._calls: list[ToolCall] = []
        self._ids = CallIds(request)

    @property
    def calls(self) -> bool:
        """Whether there is a call."""
        return bool(self._calls)

    @property
    def empty(self) -> bool:
        """Whether nothing has come at all."""
        return not (self._entries or self._open)

    def more_text(self, text: str) -> None:
        """Take a piece of text without a signature."""
        self._texts.append(text)
        if self._open == "text":
            self._size += len(text)
        else:
            self._begin("text", text)

    def take(self, given: object, arguments: Sequence[bytes | None]) -> Iterator[Delta]:
        """Yield the parts of a content; *arguments* are those of its calls as they were written, where known."""
        for place, part in enumerate(as_list(given, "parts")):
            written = arguments[place] if place < len(arguments) else None
            yield from self._part(as_object(part, "a part"), written)

    def message_extra(self, model: str, server: str) -> dict[str, Json]:
        """Return what has to stay with the message so that its parts can go back as they came."""
        self._close()
        words = Words(
            "".join(self._texts),
            "".join(self._thoughts),
            tuple(self._signatures),
            tuple(self._others),
            tuple(self._calls),
        )
        own = described(self._entries, words, model=model, server=server)
        return {WIRE: own} if own else {}

    def _part(self, part: Object, arguments: bytes | None) -> Iterator[Delta]:
        if "functionCall" in part:
            yield self._call(part, as_object(part["functionCall"], "a functionCall"), arguments)
        elif "text" in part or not part.keys() - {"thought", SIGNATURE}:
            if not isinstance(text := part.get("text", ""), str):
                raise MalformedError("the text of a part is not a text")
            yield from self._thought(part, text) if part.get("thought") is True else self._text(part, text)
        else:
            yield self._other(part)

    def _text(self, part: Object, text: str) -> Iterator[Delta]:
        fields = {name: value for name, value in part.items() if name not in ("text", "thought") and value is not None}
        if fields:
            self._close()
            self._entries.append({"text": len(text), **fields})
            self._texts.append(text)
        elif text:
            self.more_text(text)
        if text:
            yield TextDelta(text)

    def _thought(self, part: Object, text: str) -> Iterator[Delta]:
        signature = as_text(part.get(SIGNATURE))
        own = ("text", "thought", SIGNATURE)
        fields = {name: value for name, value in part.items() if name not in own and value is not None}
        if not (text or signature or fields):
            return
        self._thoughts.append(text)
        if signature or fields:
            self._close()
            signed = {"signed": True} if signature else {}
            self._entries.append({"thought": len(text), **signed, **fields})
        elif self._open == "thought":
            self._size += len(text)
        else:
            self._begin("thought", text)
        if signature:
            self._signatures.append(signature)
        yield ReasoningDelta(text, signature or None)

    def _call(self, part: Object, call: Object, arguments: bytes | None) -> Delta:
        name = as_text(call.get("name"))
        if not name:
            raise MalformedError("a functionCall names no function")
        if call.get("willContinue") or call.get("partialArgs"):
            raise MalformedError("the arguments of a functionCall come in pieces, which was not asked for")
        extra = {key: value for key, value in part.items() if key != "functionCall" and value is not None}
        inside = {key: value for key, value in call.items() if key not in _CALL and value is not None}
        if inside:
            extra["functionCall"] = inside
        given = call.get("args")
        written = "{}" if given is None else (arguments or msgspec.json.encode(given)).decode()
        id = self._ids.unique(call.get("id"))
        made = ToolCall(id, name, written, {WIRE: extra} if extra else {})
        self._close()
        self._entries.append("call")
        self._calls.append(made)
        return ToolCallDelta(len(self._calls) - 1, id, name, written, made.extra)

    def _other(self, part: Object) -> Delta:
        self._close()
        data = part.get("inlineData")
        media = shown_media(data) if isinstance(data, dict) else None  # pyright: ignore[reportUnknownArgumentType] (any JSON)
        fields = {name: value for name, value in part.items() if name != "inlineData" and value is not None}
        if media is None:
            self._entries.append("part")
            self._others.append(VendorPart(WIRE, part, _hosted(part)))
        else:
            self._entries.append({"part": True, **fields} if fields else "part")
            self._others.append(media)
        return PartDelta(self._others[-1])

    def _begin(self, kind: str, text: str) -> None:
        self._close()
        self._open, self._size = kind, len(text)

    def _close(self) -> None:
        if self._open:
            self._entries.append(self._size if self._open == "text" else {"thought": self._size})
            self._open = ""


def _hosted(part: Object) -> str:
    """Return which tool of the vendor has made *part*; empty if none has."""
    if "executableCode" in part or "codeExecutionResult" in part:
        return "codeExecution"
    made = next((part[name] for name in ("toolCall", "toolResponse") if name in part), None)
    return (as_text(cast("Object", made).get("toolType")) or "tool") if isinstance(made, dict) else ""
