"""The items of one reply as deltas, whole or in pieces, and the list of them that is kept with the message.

Items with words are shown one after another; where a server works on several at once, the later ones wait.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

import attrs
import msgspec
from pluggent_hookspecs import (
    Delta,
    Json,
    ModelRequest,
    PartDelta,
    ReasoningDelta,
    RefusalDelta,
    TextDelta,
    ToolCall,
    ToolCallDelta,
    VendorPart,
)
from pluggent_provider_http.call_ids import CallIds
from pluggent_provider_http.payload import MalformedError, Object, as_list, as_object, as_text

from pluggent_openai.responses.layout import (
    APPROVAL,
    BEFORE,
    CALLS,
    COMPACTION,
    SEPARATOR,
    THOUGHTS,
    VENDOR,
    WORDED,
    WORDS,
    call_fields,
    described,
)
from pluggent_openai.server_tools import hosted_by

MOST_ITEMS = 4096
"""No reply has as many; a server that sends them is broken."""
_CUSTOM = "custom_tool_call"
_PARTS = {"text": "output_text", "refusal": "refusal", "summary": "summary_text", "content": "reasoning_text"}


def _untold(_: ModelRequest) -> str:
    return ""


@attrs.frozen
class Known:
    """What is known of a server beside its answer.

    ``before`` returns what identifies what a request said, empty if that is not known. ``prices`` are the dollars
    of one call by the names of tools at the vendor.
    """

    before: Callable[[ModelRequest], str] = _untold
    prices: Mapping[str, float] = attrs.field(factory=dict[str, float])


NOTHING_KNOWN = Known()


_WHOSE = ("id", "name", "server_label")
"""Fields that say which call is approved."""

Slot: TypeAlias = tuple[str, int]
"""A field of an item that holds text, and which of several."""


@attrs.define
class _Item:
    """One item: where it is in the reply, its start, what came of it, and at last the whole of it."""

    place: int
    kind: str
    head: Object
    pieces: dict[Slot, list[str]] = attrs.field(factory=dict[Slot, "list[str]"])
    final: Object | None = None
    call: int = -1

    @property
    def can_be_shown(self) -> bool:
        """Whether it has words, or is whole: what has none is shown at once, and keeps nothing waiting until then."""
        return self.final is not None or self.kind in WORDED

    def words(self) -> dict[Slot, str]:
        """Return what came of each text, in order."""
        return {slot: "".join(self.pieces[slot]) for slot in sorted(self.pieces, key=_rank)}

    def whole(self, final: Object) -> dict[str, Any]:
        """Return the item: *final*, with what only its pieces have said."""
        made = dict(final)
        field = CALLS.get(self.kind)
        if field is not None:
            made[field] = _arguments(made.get(field)) or self.words().get((field, 0), "")
            return made
        found: dict[str, list[Any]] = {}
        for (field, _), text in self.words().items():
            name = "content" if self.kind == "message" else field
            found.setdefault(name, []).append({"type": _PARTS[field], WORDS.get(_PARTS[field], "text"): text})
        return made | {name: parts for name, parts in found.items() if not made.get(name)}


class Items:
    """The items of one reply. Methods raise MalformedError for what does not add up."""

    def __init__(self, request: ModelRequest, server: str, known: Known = NOTHING_KNOWN) -> None:
        self.logprobs: list[Any] = []
        self.unproven = False
        """Whether an item had no whole of its own at the end, only its pieces."""
        self._ids = CallIds(request)
        self._request = request
        self._server = server
        self._known = known
        self._items: dict[int, _Item] = {}
        self._live: _Item | None = None
        self._slot: Slot | None = None
        self._done: dict[int, Object] = {}
        self._calls: list[ToolCall] = []

    @property
    def calls(self) -> bool:
        """Whether there is a call of our tools."""
        return bool(self._calls)

    @property
    def live_call(self) -> int:
        """The number of the call that is being shown."""
        assert self._live is not None
        return self._live.call

    def pieces_at(self, place: int, slot: Slot) -> list[str] | None:
        """Return the pieces that another one of *slot* is sure to follow; None if ``more`` has to decide."""
        live = self._live
        if live is None or live.place != place or slot != self._slot or (live.call < 0 and live.kind in CALLS):
            return None
        return live.pieces[slot]

    def begin(self, place: int, head: object) -> list[Delta]:
        """Take the start of the item at *place*; a second start of one changes nothing."""
        fields = as_object(head, "an item")
        if place in self._items:
            return []
        self._new(place, as_text(fields.get("type")), fields)
        return self._shown()

    def more(self, place: int, kind: str, slot: Slot, text: str) -> list[Delta]:
        """Take one more piece of the item at *place*, which is of *kind*."""
        item = self._items.get(place) or self._new(place, kind, {"type": kind})
        if item.final is not None or item.kind != kind:
            raise MalformedError(f"a piece of item {place} came behind its end, or belongs to another kind of item")
        item.pieces.setdefault(slot, []).append(text)
        return self._piece(item, slot, text) if item is self._live else self._shown()

    def end(self, place: int, whole: object) -> list[Delta]:
        """Take the whole item at *place*; a second end of it changes nothing."""
        fields = as_object(whole, "an item")
        kind = as_text(fields.get("type"))
        item = self._items.get(place) or self._new(place, kind, fields)
        if item.final is not None:
            return []
        if item.kind != kind:
            raise MalformedError(f"item {place} began as '{item.kind}' and ended as '{kind}'")
        item.final = item.whole(fields)
        return self._shown()

    def finish(self, output: object) -> list[Delta]:
        """Take the whole *output* that the end of a reply has, if it has one, and end every item."""
        out: list[Delta] = []
        for place, whole in enumerate(as_list(output, "output") if output else ()):
            if place not in self._items or self._items[place].final is None:
                out += self.end(place, whole)
        for place, item in sorted(self._items.items()):
            if item.final is None:
                self.unproven = True
                out += self.end(place, item.head)
        return out

    def message_extra(self) -> dict[str, Json]:
        """Return Message.extra of the reply."""
        if not self._done:
            return {}
        own = described(self._done, self._calls, self._server)
        if any(item["type"] == COMPACTION for item in self._done.values()):
            own[BEFORE] = self._known.before(self._request)
        return {VENDOR: own}

    def hosted(self) -> Mapping[str, int]:
        """Return how often each tool of the vendor ran."""
        ran = [hosted_by(item) for item in self._done.values() if item["type"].endswith("_call")]
        return Counter(name for name in ran if name)

    def hosted_usd(self) -> float | None:
        """Return what the tools of the vendor cost; None if there is no price for what ran."""
        prices = self._known.prices
        paid = [prices[name] * times for name, times in self.hosted().items() if name in prices]
        return sum(paid) if paid else None

    # ---- one after another ---------------------------------------------------------------

    def _new(self, place: int, kind: str, head: Object) -> _Item:
        if not kind:
            raise MalformedError("an item has no type")
        if len(self._items) >= MOST_ITEMS:
            raise MalformedError(f"it has more than {MOST_ITEMS:,} items")
        item = self._items[place] = _Item(place, kind, head)
        return item

    def _shown(self) -> list[Delta]:
        """Return all of the items whose turn has come, as far as they have."""
        out: list[Delta] = []
        while True:
            if self._live is None:
                waiting = [
                    place for place, item in self._items.items() if place not in self._done and item.can_be_shown
                ]
                if not waiting:
                    return out
                self._live, self._slot = self._items[min(waiting)], None
                out += self._begun(self._live)
            if self._live.final is None:
                return out
            out += self._ended(self._live, self._live.final)
            self._done[self._live.place] = self._live.final
            self._live = None

    def _begun(self, item: _Item) -> list[Delta]:
        """Return what of *item* came before its turn."""
        out: list[Delta] = []
        if item.kind in CALLS and item.head.get("name"):
            out += self._called(item, item.head)
        for slot, text in item.words().items():
            out += self._piece(item, slot, text)
        return out

    def _called(self, item: _Item, fields: Object) -> list[Delta]:
        name = as_text(fields.get("name"))
        if not name:
            raise MalformedError("a tool call names no function")
        item.call = len(self._calls)
        asks = item.kind == APPROVAL
        id = self._ids.unique(fields.get("id" if asks else "call_id"))
        call = ToolCall(id, name, hosted=hosted_by(fields) if asks else "")
        self._calls.append(call)
        begun = '{"input":"' if item.kind == _CUSTOM else ""
        return [ToolCallDelta(item.call, call.id, name, begun, hosted=call.hosted)]

    def _piece(self, item: _Item, slot: Slot, text: str) -> list[Delta]:
        """Return what a piece of the live item is to its reader."""
        if self._slot is not None and _rank(slot) < _rank(self._slot):
            raise MalformedError(f"the pieces of item {item.place} are not in their order")
        between = SEPARATOR if self._slot not in (None, slot) else ""
        self._slot = slot
        match item.kind:
            case "message":
                return [TextDelta(text) if slot[0] == "text" else RefusalDelta(text)]
            case "reasoning":
                return [ReasoningDelta(between + text)]
            case _ if item.call >= 0:
                return [ToolCallDelta(item.call, arguments=inside(text) if item.kind == _CUSTOM else text)]
            case _:
                return []

    def _ended(self, item: _Item, final: Object) -> list[Delta]:
        match item.kind:
            case "message":
                return list(self._message(item, final))
            case "reasoning":
                return list(self._thought(item, final))
            case kind if kind in CALLS:
                return self._call(item, final)
            case _:
                return [PartDelta(VendorPart(VENDOR, final, hosted_by(final)))]

    def _message(self, item: _Item, final: Object) -> Iterator[Delta]:
        texts: dict[Slot, str] = {}
        for number, entry in enumerate(as_list(final.get("content") or [], "the content of a message")):
            part = as_object(entry, "a part of the content")
            if not as_text(part.get("type")):
                raise MalformedError("the content has a part without a type")
            field = WORDS.get(part["type"])
            if field is None:
                yield PartDelta(VendorPart(VENDOR, part))
                continue
            texts[field, number] = _text_of(part, field)
            if isinstance(chances := part.get("logprobs"), list):
                self.logprobs += chances
        yield from self._rest(item, texts)

    def _thought(self, item: _Item, final: Object) -> Iterator[Delta]:
        texts: dict[Slot, str] = {}
        for field in THOUGHTS:
            for number, entry in enumerate(as_list(final.get(field) or [], field)):
                texts[field, number] = _text_of(as_object(entry, "a part of thinking"), "text")
        yield from self._rest(item, texts)
        signature = final.get("encrypted_content")
        if signature and not isinstance(signature, str):
            raise MalformedError("encrypted_content is not a text")
        if signature:
            yield ReasoningDelta("", signature)

    def _call(self, item: _Item, final: Object) -> list[Delta]:
        for name in _WHOSE if item.kind == APPROVAL else ():
            if item.head.get(name, final.get(name)) != final.get(name):
                raise MalformedError(f"a call that needs an approval began with another {name} than it ended with")
        out = self._called(item, final) if item.call < 0 else []
        field = CALLS[item.kind]
        arguments = as_text(final.get(field))
        shown = "" if out else item.words().get((field, 0), "")
        if not arguments.startswith(shown):
            raise MalformedError("the pieces of a call's arguments are not those of the call")
        rest, said = arguments[len(shown) :], call_fields(final)
        if item.kind == _CUSTOM:
            rest, arguments = inside(rest) + '"}', '{"input":"' + inside(arguments) + '"}'
        if rest or said:
            out.append(ToolCallDelta(item.call, arguments=rest, extra={VENDOR: said} if said else {}))
        call = self._calls[item.call]
        self._calls[item.call] = attrs.evolve(call, arguments=arguments or "{}")
        return out

    def _rest(self, item: _Item, texts: Mapping[Slot, str]) -> Iterator[Delta]:
        """Yield what of *texts*, those of the whole item, has not come in pieces."""
        came = item.words()
        if not came.keys() <= texts.keys():
            raise MalformedError(f"the pieces of item {item.place} are not those of the whole item")
        for slot, text in texts.items():
            before = came.get(slot, "")
            if not text.startswith(before):
                raise MalformedError(f"the pieces of item {item.place} are not those of the whole item")
            if len(text) > len(before) or slot not in came:
                yield from self._piece(item, slot, text[len(before) :])


def _rank(slot: Slot) -> tuple[bool, int]:
    return slot[0] == "content", slot[1]


def _text_of(part: Object, field: str) -> str:
    text = part.get(field)
    if text is not None and not isinstance(text, str):
        raise MalformedError(f"'{field}' is not a text")
    return text or ""


def _arguments(given: object) -> str:
    """Return a call's arguments as text: as they came, or encoded if they came as JSON."""
    if given is None or isinstance(given, str):
        return given or ""
    return msgspec.json.encode(given).decode()


def inside(text: str) -> str:
    r"""Return free text as it stands inside a JSON string.

    >>> print(inside('say "hi"'))
    say \"hi\"
    """
    return msgspec.json.encode(text).decode()[1:-1]
