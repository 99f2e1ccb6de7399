"""Takes secrets out of messages, results and memories: every text in them, wherever it stands. Pure.

What holds no secret comes back as the very same object.
"""

from __future__ import annotations

import base64
import binascii
import json
import logging
import re
from collections.abc import Mapping
from typing import Any, TypeVar, cast

import attrs
from pluggent_hookspecs import (
    Json,
    MemoryItem,
    Message,
    ModelParameters,
    ModelResponse,
    ToolCall,
    ToolOutput,
    ToolSpec,
)
from pluggent_hookspecs.messages import Audio, CachePoint, File, Image, Part, Reasoning, Refusal, Text, VendorPart

from pluggent_redact.stream_engine import Engine

MOST_LEVELS = 200
"""Nesting depth; deeper values are left out."""
TOO_DEEP = "[redacted:too-deep]"
READABLE = (
    "json",
    "xml",
    "yaml",
    "toml",
    "javascript",
    "ecmascript",
    "x-sh",
    "x-www-form-urlencoded",
    "x-pem-file",
    "sql",
    "csv",
)
"""How the media types of texts end that do not begin with ``text/``."""
LOGPROBS = "logprobs"
"""Under which providers give the tokens of a reply, one by one."""
LONGEST_NAME = 64
"""Characters that every vendor allows in a name."""
_NO_NAME = re.compile(r"[^A-Za-z0-9_-]+")
_STANDARD = {ord("-"): "+", ord("_"): "/"}
_MARKS = ((b"\xff\xfe\x00\x00", "utf-32"), (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"))

log = logging.getLogger("pluggent.redact")

V = TypeVar("V")


class _Known:
    """Whether a message or the definition of a tool was looked into."""

    __slots__ = ("yes",)

    def __init__(self, _: object) -> None:
        self.yes = False


@attrs.frozen(eq=False)
class Contents:
    """Redacts whole values with one engine; messages keep what came of it as long as they live."""

    engine: Engine
    _known: object = attrs.field(init=False, factory=object)

    def is_new(self, value: Message | ToolSpec) -> bool:
        """Say whether *value* has not been looked into yet."""
        return not value.memo(self._known, _Known).yes

    def message(self, message: Message) -> Message:
        """Return *message* without secrets."""
        made = message.memo(self, self._message)
        message.memo(self._known, _Known).yes = True
        return made

    def is_clean(self, tool: ToolSpec) -> bool:
        """Say whether a model may see the definition of *tool*; one with a secret in it is reported once."""
        made: bool = tool.memo(self, self._is_clean)
        tool.memo(self._known, _Known).yes = True
        return made

    def _is_clean(self, tool: ToolSpec) -> bool:
        texts = (tool.name, tool.description, tool.compact_description, tool.category, *sorted(tool.tags))
        schemas = (tool.parameters, tool.extra, tool.result_schema)
        clean = all(self.text(text) is text for text in texts) and all(self.json(each) is each for each in schemas)
        if not clean:
            log.warning(
                "the tool %r is not offered to models: its definition holds what looks like a secret; take it out",
                self.text(tool.name),
            )
        return clean

    def reply(self, message: Message) -> Message:
        """Return *message* without secrets but in the arguments of its calls: tools are to get what the model wrote.

        The name of a tool that is offered holds none; one that the model made up may.
        """
        calls = tuple(
            _changed(call, name=self.name(call.name), extra=self.json(call.extra)) for call in message.tool_calls
        )
        calls = message.tool_calls if _same(calls, message.tool_calls) else calls
        extra = self.json(message.extra)
        return _changed(message, content=self.parts(message.content), tool_calls=calls, extra=extra)

    def response(self, response: ModelResponse) -> ModelResponse:
        """Return *response* without secrets. With a text that has changed, its tokens say too much."""
        message, extra = self.reply(response.message), self.json(response.extra)
        if message is not response.message and LOGPROBS in extra:
            extra = {name: value for name, value in extra.items() if name != LOGPROBS}
        return _changed(response, message=message, extra=extra)

    def parameters(self, given: ModelParameters) -> ModelParameters:
        """Return *given* without secrets, wherever a request may carry text."""
        stop = tuple(map(self.text, given.stop))
        return _changed(
            given,
            stop=given.stop if _same(stop, given.stop) else stop,
            output_schema=self.json(given.output_schema),
            extra=self.json(given.extra),
            metadata=self.json(given.metadata),
            headers=self.json(given.headers),
            user=self.maybe(given.user),
        )

    def output(self, output: ToolOutput) -> ToolOutput:
        """Return *output* without secrets, in all of its fields."""
        said = output.for_model
        return _changed(
            output,
            for_model=self.text(said) if isinstance(said, str) else self.parts(said),
            for_user=None if output.for_user is None else self.text(output.for_user),
            data=self.json(output.data),
            media=self.parts(output.media),
            task=None if output.task is None else self.text(output.task),
        )

    def item(self, item: MemoryItem) -> MemoryItem:
        """Return *item* without secrets; its key and namespace stay, since they are what it is found by."""
        return _changed(item, text=self.text(item.text), data=self.json(item.data))

    def parts(self, parts: tuple[Part, ...]) -> tuple[Part, ...]:
        """Return *parts* without secrets; one that is cut into several parts of one sort is one all the same."""
        if not parts:
            return parts
        made = list(map(self._part, parts))
        for sort in ((Text, Refusal), (Reasoning,)):
            self._said(parts, made, [at for at, part in enumerate(parts) if isinstance(part, sort)])
        return parts if _same(made, parts) else tuple(made)

    def _said(self, parts: tuple[Part, ...], made: list[Part], places: list[int]) -> None:
        """Put what is left of the texts at *places* into *made*."""
        texts = [str(getattr(parts[at], "text", "")) for at in places]
        whole = "".join(texts)
        if self.engine.redact(whole) is whole:
            return
        kept, seen, inside = "", 0, -1
        for number, (at, text) in enumerate(zip(places, texts, strict=True), 1):
            step = self.engine.step(kept + text, seen, inside, final=number == len(places))
            kept, seen, inside = (kept + text)[step.start :], step.seen, step.inside
            shown, part = step.show, parts[at]
            # What its vendor signed is no longer signed when it has changed.
            made[at] = Reasoning(shown) if isinstance(part, Reasoning) and shown != text else _changed(part, text=shown)

    def _part(self, part: Part) -> Part:
        match part:
            case Text() | Refusal() | Reasoning():
                return part  # looked at together
            case CachePoint():
                return part
            case Image():
                return _changed(part, url=self.maybe(part.url))
            case Audio():
                return _changed(part, transcript=self.maybe(part.transcript))
            case File():
                data = self._file(part)
                return _changed(part, data=data, filename=self.maybe(part.filename), url=self.maybe(part.url))
            case VendorPart():
                return _changed(part, value=self.json(part.value))

    def maybe(self, text: str | None) -> str | None:
        """Return *text* without secrets, None as it is."""
        return None if text is None else self.text(text)

    def name(self, name: str) -> str:
        """Return the *name* of a tool or a speaker without secrets; a changed one is as vendors want names."""
        made = self.text(name)
        return name if made is name else _NO_NAME.sub("_", made)[:LONGEST_NAME]

    def text(self, text: str) -> str:
        """Return *text* without secrets; other values unchanged, for the host to complain about."""
        return self.engine.redact(text) if type(text) is str else text

    def json(self, value: V, level: int = 0) -> V:
        """Return a JSON value without secrets, in the names of objects too."""
        return cast("V", self._json(cast("Json", value), level))

    # ---- inside ------------------------------------------------------------------------

    def _message(self, message: Message) -> Message:
        return _changed(
            message,
            content=self.parts(message.content),
            tool_calls=self._calls(message.tool_calls),
            name=None if message.name is None else self.name(message.name),
            extra=self.json(message.extra),
        )

    def _calls(self, calls: tuple[ToolCall, ...]) -> tuple[ToolCall, ...]:
        made = tuple(
            _changed(
                call, name=self.name(call.name), arguments=self._arguments(call.arguments), extra=self.json(call.extra)
            )
            for call in calls
        )
        return calls if _same(made, calls) else made

    def _arguments(self, text: str) -> str:
        """Return JSON text without secrets: what is escaped in it is a secret all the same."""
        try:
            value: Json = json.loads(text)
        except (ValueError, RecursionError, TypeError):
            return self.text(text)
        made = self._json(value, 0)
        # Still redacted as a text: no way to write JSON is to hide anything.
        return self.text(text if made is value else json.dumps(made, ensure_ascii=False))

    def _json(self, value: Json, level: int) -> Json:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, int | float):
            return self._number(value)
        if level >= MOST_LEVELS:
            return TOO_DEEP
        if isinstance(value, Mapping):
            made = {self.text(name): self._named(name, one, level) for name, one in value.items()}
            same = all(made.get(name) is one for name, one in value.items()) and len(made) == len(value)
            return value if same else made
        if isinstance(value, list | tuple):
            several = [self._json(one, level + 1) for one in value]
            return value if _same(several, value) else several
        return value

    def _number(self, value: float) -> Json:
        """Return a number as it is, unless the value of a secret is in it as it is written."""
        if isinstance(value, bool) or not self.engine.hides_numbers:
            return value
        text = repr(value)
        shown = self.text(text)
        return value if shown == text else shown

    def _named(self, name: str, value: Json, level: int) -> Json:
        """Return what stands under *name*: ``{"password": …}`` says as much as ``password="…"``."""
        made = self._json(value, level + 1)
        if type(value) is str and made is value and type(name) is str:
            begin = f'{name}="'
            told = self.engine.redact(f'{begin}{value}"')
            if told.startswith(begin) and told.endswith('"') and len(told) > len(begin):
                inner = told[len(begin) : -1]
                return value if inner == value else inner
        return made

    def _file(self, file: File) -> str | None:
        """Return the content of a file without secrets, if it is text."""
        kind = file.media_type.partition(";")[0].strip().lower()
        readable = kind.startswith("text/") or kind.endswith(READABLE)
        if file.data is None or not readable:
            return file.data
        try:
            # As readers do: line ends and the other alphabet are no reason to refuse it.
            plain = "".join(file.data.split()).translate(_STANDARD)
            data = base64.b64decode(plain + "=" * (-len(plain) % 4), validate=True)
        except (binascii.Error, ValueError):
            return file.data
        encoding = next((name for mark, name in _MARKS if data.startswith(mark)), "utf-8")
        # What is not UTF-8 keeps its bytes as long as there is no secret between them.
        text = data.decode(encoding, errors="surrogateescape" if encoding == "utf-8" else "replace")
        made = self.text(text)
        if made is text:
            return file.data
        errors = "surrogateescape" if encoding == "utf-8" else "strict"
        return base64.b64encode(made.encode(encoding, errors)).decode()


def _same(made: object, before: object) -> bool:
    pairs = zip(cast("tuple[object, ...]", made), cast("tuple[object, ...]", before), strict=True)
    return all(new is old for new, old in pairs)


def _changed(value: V, /, **fields: object) -> V:
    """Return *value* with *fields*, itself if they are what it has."""
    new = {name: one for name, one in fields.items() if one is not getattr(value, name)}
    return cast("V", attrs.evolve(cast("Any", value), **new)) if new else value
