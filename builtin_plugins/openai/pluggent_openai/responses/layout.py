"""The items of a reply, where a message of the contract does not show them. Pure.

An answer is a list of items: messages, thinking, calls, and others that only the vendor understands. A message has
parts, and calls apart from them; neighbouring texts are one. What is lost on the way (the order, ids, phases,
where one item ends) is kept as a short list with the message, and a seal over its words: if they were changed
since, the list does not count, for the vendor's encrypted thinking would vouch for words that the model never wrote.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from typing import Any, TypeAlias, cast

import attrs
import msgspec
from pluggent_hookspecs import Json, Message, Part, Reasoning, Refusal, Text, ToolCall, VendorPart, thaw

Object: TypeAlias = dict[str, Any]

VENDOR = "openai_responses"
"""The name of this wire format: the key of what only it understands."""
SEPARATOR = "\n\n"
"""Between two pieces of one item's thinking, where a person reads it."""
APPROVAL = "mcp_approval_request"
"""The item in which the vendor asks whether it may make a call."""
COMPACTION = "compaction"
"""The item that stands for all that was said before it."""
CALLS: Mapping[str, str] = {"function_call": "arguments", "custom_tool_call": "input", APPROVAL: "arguments"}
"""The items that are calls of our tools, or wait for our answer, and their fields that hold what the model wrote."""
WORDED = frozenset({"message", "reasoning", *CALLS})
"""The items that become texts, thinking and calls; all others become parts of the vendor's own."""
THOUGHTS = ("summary", "content")
"""The fields of thinking that hold texts, in their order."""
BEFORE = "before"
"""The field of Message.extra that identifies what was said before a compaction."""
OWN = frozenset({"items", "seal", "server", BEFORE})
"""Fields of Message.extra that are the provider's own notes, and no fields of an item."""
_CALL_FIELDS = frozenset({"type", "id", "status", "call_id", "name"})
WORDS: Mapping[str, str] = {"output_text": "text", "refusal": "refusal"}
_encode = msgspec.json.Encoder(order="sorted").encode


def call_fields(item: Mapping[str, Any]) -> dict[str, Json]:
    """Return what else than its name, id and arguments belongs to a call, for ToolCall.extra."""
    # What every kind of call is sent with has its place: a second one would keep the call from being sent.
    known = (*_CALL_FIELDS, *CALLS.values())
    own = {name: value for name, value in item.items() if name not in known and value not in (None, [], {})}
    match item["type"]:
        case "function_call":
            return own
        case "custom_tool_call":
            return {"type": "custom", **own}
        case kind:
            return {"type": kind, **own}


def described(shown: Mapping[int, Mapping[str, Any]], calls: Sequence[ToolCall], server: str) -> dict[str, Json]:
    """Return what Message.extra has of the items that *server* has sent.

    *shown* are the items by their places in the reply, in the order in which their parts were shown; *calls* are
    those of the message.
    """
    items = tuple(shown.values())
    numbers = count()
    entries = {place: _entry(item, numbers) for place, item in shown.items()}
    worded = [place for place, item in shown.items() if item["type"] in WORDED]
    # Words are cut out of the message in the order in which they were shown, whatever their places.
    places = sorted(entries) if worded == sorted(worded) else list(entries)
    return {
        "items": [entries[place] for place in places],
        "seal": _seal(_Said.by(items), calls),
        "server": server,
    }


def _entry(item: Mapping[str, Any], numbers: Iterator[int]) -> Json:
    """Return what is kept of *item*; of those without words, their number among the parts of the message."""
    kind = item["type"]
    if kind == "message":
        content = [_content(part, numbers) for part in _content_of(item)]
        return {**_without(item, "content"), "content": content}
    if kind == "reasoning":
        lengths = {field: [_text(part) for part in item[field]] for field in THOUGHTS if item.get(field)}
        signed = {"encrypted_content": True} if item.get("encrypted_content") else {}
        return {**_without(item, "encrypted_content", *THOUGHTS), **lengths, **signed}
    if kind in CALLS:
        return {name: item[name] for name in ("type", "id", "status") if item.get(name) is not None}
    return {"type": "part", "number": next(numbers)}


def _content_of(message: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    content: Any = message.get("content")
    return content or ()


def _without(item: Mapping[str, Any], *names: str) -> dict[str, Json]:
    return {name: value for name, value in item.items() if name not in names and value is not None}


def _content(part: Mapping[str, Any], numbers: Iterator[int]) -> Json:
    field = WORDS.get(part.get("type", ""))
    if field is None:
        return {"type": "part", "number": next(numbers)}
    return {**_without(part, field, "logprobs"), field: len(part.get(field) or "")}


def _text(part: Mapping[str, Any]) -> Json:
    return {**part, "text": len(part.get("text") or "")}


# ---- and back ------------------------------------------------------------------------------


@attrs.frozen
class _Said:
    """The words of a reply by their kinds, neighbours joined, and its other parts."""

    texts: str
    refusals: str
    thoughts: str
    signatures: tuple[str, ...]
    others: tuple[Object, ...]

    @classmethod
    def of(cls, content: Sequence[Part]) -> _Said:
        """Return what the parts of a message say."""
        return cls(
            "".join([part.text for part in content if isinstance(part, Text)]),
            "".join([part.text for part in content if isinstance(part, Refusal)]),
            "".join([part.text for part in content if isinstance(part, Reasoning)]),
            tuple(part.signature for part in content if isinstance(part, Reasoning) and part.signature),
            tuple(_other(part) for part in content if not isinstance(part, Text | Refusal | Reasoning)),
        )

    @classmethod
    def by(cls, items: Sequence[Mapping[str, Any]]) -> _Said:
        """Return what *items* say."""
        content = [part for item in items if item["type"] == "message" for part in _content_of(item)]
        thoughts = [
            SEPARATOR.join(part.get("text") or "" for field in THOUGHTS for part in item.get(field) or ())
            for item in items
            if item["type"] == "reasoning"
        ]
        return cls(
            "".join(part.get("text") or "" for part in content if part["type"] == "output_text"),
            "".join(part.get("refusal") or "" for part in content if part["type"] == "refusal"),
            "".join(thoughts),
            tuple(
                item["encrypted_content"]
                for item in items
                if item["type"] == "reasoning" and item.get("encrypted_content")
            ),
            tuple(dict(part) for part in _others(items)),
        )


def _others(items: Sequence[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    for item in items:
        if item["type"] == "message":
            yield from (part for part in _content_of(item) if part["type"] not in WORDS)
        elif item["type"] not in ("reasoning", *CALLS):
            yield item


def _other(part: Part) -> Object:
    if isinstance(part, VendorPart) and part.vendor == VENDOR:
        return cast("Object", thaw(part.value))
    return {"type": type(part).__name__}  # nothing that this vendor has sent: the seal does not fit


def _seal(said: _Said, calls: Sequence[ToolCall]) -> str:
    """Return what identifies the words and calls of a reply."""
    made = [[call.id, call.name, call.arguments] for call in calls]
    words = [said.texts, said.refusals, said.thoughts, said.signatures, said.others, made]
    return hashlib.sha256(_encode(words)).hexdigest()[:32]


def thoughts_of(extra: Mapping[str, Json]) -> list[Mapping[str, Any]]:
    """Return what *extra* has of thinking."""
    items = extra.get("items")
    entries = [entry for entry in items if isinstance(entry, Mapping)] if isinstance(items, list | tuple) else []
    return [entry for entry in entries if entry.get("type") == "reasoning"]


def restored(
    message: Message, extra: Mapping[str, Json], calls: Sequence[Object], *, thinking: bool, vendor: bool = True
) -> list[Object] | None:
    """Return the items of *message* as they came, with *calls* as they are sent; None if *extra* does not fit it.

    Without *thinking* the items have no ids either: the vendor refuses one without the thinking that led to it,
    and takes a message without an id as a text alone. Without *vendor* those that the vendor alone understands are
    left out.
    """
    items = extra.get("items")
    if not isinstance(items, list | tuple) or extra.get("seal") != _seal(_Said.of(message.content), message.tool_calls):
        return None
    # Without a secret or words of its own, thinking is only a name that the server looks up, and it has stored nothing.
    thinking = thinking and all(entry.get("encrypted_content") or entry.get("content") for entry in thoughts_of(extra))
    walk = _Walk(_Said.of(message.content), calls, thinking=thinking)
    try:
        kept = [entry for entry in items if vendor or not _is_vendors(entry)]
        found = [item for entry in kept for item in walk.take(cast("Object", thaw(entry)))]
    except (LookupError, TypeError, AttributeError, RuntimeError):  # another program has written it
        return None
    while found and found[-1].get("type") == "reasoning":
        found.pop()  # the vendor refuses thinking that led to nothing
    return found


def _is_vendors(entry: Json) -> bool:
    return isinstance(entry, Mapping) and entry.get("type") == "part"


_TAKEN: Mapping[str, tuple[str, ...]] = {"image_generation_call": ("type", "id", "status", "result")}
"""Items of which the vendor takes back only some fields."""


def _taken_back(item: Object) -> Object:
    fields = _TAKEN.get(item["type"])
    return item if fields is None else {name: item[name] for name in fields if name in item}


class _Walk:
    def __init__(self, said: _Said, calls: Sequence[Object], *, thinking: bool) -> None:
        self._said = said
        self._calls = iter(calls)
        self._thinking = thinking
        self._at: dict[str, int] = {}
        self._signatures = iter(said.signatures)

    def take(self, entry: Object) -> Iterator[Object]:
        kind = entry["type"]
        if not self._thinking:
            entry.pop("id", None)
        if kind == "message" and not self._thinking:
            yield self._spoken(entry)
        elif kind == "message":
            yield {**entry, "content": [self._content(part) for part in entry["content"]]}
        elif kind == "reasoning":
            item = self._thought(entry)
            if self._thinking:
                yield item
        elif kind in CALLS:
            yield {**entry, **next(self._calls)}
        else:
            yield _taken_back(self._other(entry))

    def _spoken(self, entry: Object) -> Object:
        content = [self._content(part) for part in entry["content"]]
        words = "".join(part.get("text") or part.get("refusal") or "" for part in content)
        return {"role": "assistant", "content": words, **({"phase": entry["phase"]} if "phase" in entry else {})}

    def _content(self, part: Object) -> Object:
        if part["type"] == "output_text":
            return {"annotations": [], "logprobs": [], **part, "text": self._words("texts", part["text"])}
        if part["type"] == "refusal":
            return {**part, "refusal": self._words("refusals", part["refusal"])}
        return self._other(part)

    def _other(self, entry: Object) -> Object:
        number: int = entry["number"]
        return self._said.others[number]

    def _thought(self, entry: Object) -> Object:
        item: Object = {**entry, "summary": []}
        begun = False
        for field in THOUGHTS:
            for part in entry.get(field, ()):
                if begun:
                    self._words("thoughts", len(SEPARATOR))
                begun = True
                part["text"] = self._words("thoughts", part["text"])
            if field in entry:
                item[field] = entry[field]
        if entry.get("encrypted_content"):
            item["encrypted_content"] = next(self._signatures)
        return item

    def _words(self, kind: str, length: int) -> str:
        start = self._at.get(kind, 0)
        self._at[kind] = start + length
        return str(getattr(self._said, kind)[start : start + length])
