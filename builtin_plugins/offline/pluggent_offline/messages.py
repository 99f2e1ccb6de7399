"""The texts of the offline provider; they never claim that a model answers."""

from __future__ import annotations

import difflib
import unicodedata
from collections.abc import Mapping, Sequence

from pluggent_hookspecs import (
    Audio,
    CachePoint,
    File,
    Image,
    Json,
    Message,
    Part,
    Refusal,
    Role,
    Text,
    ToolSpec,
    VendorPart,
)

from pluggent_offline.grammar import Call, GrammarError, first_word, render_value

TOOLS_FORBIDDEN = "This request says that no tool may be called, and calling tools is all I can do."

_WHO = (
    "I am pluggent's offline stand-in: no model is behind me. "
    "I make the tool calls that you type and quote their results."
)
_HOW_TO_JOIN = "Join calls with ' & ' to run them side by side, with ' ; ' to run them one after the other."
_REAL_MODEL = "For a real model: pluggent setup"
_KINDS = {
    "string": "<text>",
    "integer": "<whole number>",
    "number": "<number>",
    "boolean": "true|false",
    "array": "[…]",
    "object": "{…}",
    "null": "null",
}
_NAME_CHARS = 200
_SHOWN_BEFORE = 60
_SHOWN_AFTER = 20


def join(*paragraphs: str) -> str:
    """Return the paragraphs that say something, an empty line between them."""
    return "\n\n".join(paragraph for paragraph in paragraphs if paragraph)


def introduction(tools: Mapping[str, ToolSpec], word: str) -> str:
    """Return who is speaking, what can be typed here, and how to get a real model."""
    hint = _nearest(word, tools)
    return join(f"There is no tool '{word}' here{hint}" if hint else "", _WHO, _offer(tools), _REAL_MODEL)


def unreadable(error: GrammarError, tools: Mapping[str, ToolSpec]) -> str:
    """Return what is wrong with a call as typed, and where."""
    name = first_word(error.text)
    usage = f"It is typed: {how_to_type(tools[name])}" if name in tools else ""
    return join(f"I could not read that as a tool call: {error}\n\n{_pointed_at(error)}", usage, _REAL_MODEL)


def not_offered(call: Call, tools: Mapping[str, ToolSpec], *, later: bool) -> str:
    """Return that a tool is not there, or not any more, and which are."""
    what = "is not offered any more" if later else "is not offered here, so none of the calls was made"
    return join(f"'{call.name}' (character {call.position + 1}) {what}{_nearest(call.name, tools)}", _offer(tools))


def not_looked_at(parts: Sequence[Part]) -> str:
    """Return an honest word on images, sound and files, empty if there are none."""
    # What belongs to one vendor is for no other to talk about.
    names = dict.fromkeys(_label(part) for part in parts if not isinstance(part, Text | VendorPart | CachePoint))
    return f"I was also given what I cannot look at, for I read text only: {', '.join(names)}." if names else ""


def results(since: Sequence[Message]) -> str:
    """Return what the tools answered, one paragraph a call, failures marked as such."""
    return "\n".join(_result(message) for message in since if message.role is Role.TOOL)


def how_to_type(tool: ToolSpec) -> str:
    """Return a call of *tool* with placeholders; what may be left out is in brackets."""
    properties = tool.parameters.get("properties")
    required = tool.parameters.get("required")
    words = [tool.name]
    if isinstance(properties, Mapping):
        for name, schema in properties.items():
            argument = f"{name}={_kind(schema)}"
            needed = isinstance(required, list | tuple) and name in required
            words.append(argument if needed else f"[{argument}]")
    return " ".join(words)


def _offer(tools: Mapping[str, ToolSpec]) -> str:
    if not tools:
        return "No tools are offered here. `pluggent plugins` shows what is installed."
    lines = [f"- {_described(tool)}\n  type: {how_to_type(tool)}" for tool in tools.values()]
    return "\n".join(("Tools offered here:", *lines, _HOW_TO_JOIN))


def _described(tool: ToolSpec) -> str:
    first_line = tool.description.strip().partition("\n")[0]
    return f"{tool.name} - {first_line}" if first_line else tool.name


def _kind(schema: Json) -> str:
    if not isinstance(schema, Mapping):
        return "<value>"
    choices = schema.get("enum")
    if isinstance(choices, list | tuple):
        return "|".join(render_value(choice) for choice in choices)
    kind = schema.get("type")
    if isinstance(kind, list | tuple):
        return "|".join(_KINDS.get(str(each), "<value>") for each in kind)
    branches = schema.get("anyOf")
    if isinstance(branches, list | tuple):
        return "|".join(dict.fromkeys(kind for branch in branches for kind in _kind(branch).split("|")))
    return _KINDS.get(str(kind), "<value>")


def _result(message: Message) -> str:
    text = "\n  ".join("".join(_shown(part) for part in message.content).splitlines()) or "(no text)"
    return f"{message.name} failed: {text}" if message.is_error else f"{message.name}: {text}"


def _shown(part: Part) -> str:
    return part.text if isinstance(part, Text | Refusal) else f"[{_label(part)}]"


def _label(part: Part) -> str:
    """Return what a part is: its kind, its name or place where it has one, and its type."""
    match part:
        case Image(url=url, media_type=media_type, file_id=file_id):
            facts = [_shortened(url or file_id), media_type if url is None else None]
        case File(filename=filename, url=url, media_type=media_type, file_id=file_id):
            facts = [_shortened(filename or url or file_id), media_type]
        case Audio(format=name):
            facts = [name]
        case _:
            facts = []
    return " ".join(filter(None, [type(part).__name__.lower(), *facts]))


def _shortened(name: str | None) -> str | None:
    return name if name is None or len(name) <= _NAME_CHARS else f"{name[:_NAME_CHARS]}…"


def _nearest(word: str, names: Mapping[str, ToolSpec]) -> str:
    folded = {name.casefold(): name for name in names}
    near = difflib.get_close_matches(word.casefold(), folded, 1, 0.75)
    return f"; did you mean '{folded[near[0]]}'?" if near else ""


def _pointed_at(error: GrammarError) -> str:
    """Return the line of the text that holds the position, and a mark below it."""
    start = error.text.rfind("\n", 0, error.position) + 1
    line = error.text[start:].partition("\n")[0]
    at = error.position - start
    before = line[max(0, at - _SHOWN_BEFORE) : at]
    return f"  {before}{line[at : at + _SHOWN_AFTER]}\n  {' ' * sum(map(_width, before))}^"


def _width(character: str) -> int:
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1
