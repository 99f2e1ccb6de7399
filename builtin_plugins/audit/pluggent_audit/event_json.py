"""Makes plain JSON values of events: deterministic, bounded, without what the settings exclude. Pure.

``convert`` of one Converter is given any attrs class, of plugins unknown to it too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Set as AbstractSet
from enum import Enum
from fnmatch import translate
from hashlib import sha256
from math import isfinite
from typing import Any, cast

import attrs
import msgspec
from pluggent_hookspecs import Message, ToolOutput
from pluggent_hookspecs.observations import Change

from pluggent_audit.settings import AuditSettings, Fields

HIDDEN = "[redacted]"
MOST_ITEMS = 256
MOST_LEVELS = 24
LONGEST_PATH = 512
LARGEST = 1 << 63
CONTENTS = frozenset({"arguments_json", "text"})
"""Fields of events that hold what people, models and tools said."""
_SPECIAL = CONTENTS | {"scope"}

_NAMES: dict[type, tuple[str, ...]] = {}


class Converter:
    """Turns the events of one log into JSON values. ``secrets`` are texts that never come out."""

    def __init__(self, settings: AuditSettings, secrets: tuple[str, ...] = ()) -> None:
        self._whole = settings.fields is Fields.ALL
        self._most = settings.max_text
        self._secrets = tuple(sorted(secrets, key=len, reverse=True))
        globs = "|".join(f"(?:{translate(glob.lower())})" for glob in settings.redact_arguments)
        self._scope: object = None
        self._scope_made: Any = None
        self._content: object = None
        self._content_made: Any = None
        self._hides = re.compile(globs).match if globs else None

    def convert(self, event: object) -> dict[str, Any]:
        """Return the fields of *event*, an attrs object, as JSON values."""
        made: dict[str, Any] = {}
        most = 0 if self._secrets else self._most
        for name in _names(type(event)):
            value = getattr(event, name)
            if name in _SPECIAL:
                made[name] = self._special(name, value)
            elif type(value) is str:  # most are short and plain, and this is in the way of every call
                made[name] = value if len(value) <= most and value.isascii() else self._text(value)
            else:
                made[name] = self._plain(value, 0) if value != () else []
        return made

    def _special(self, name: str, value: object) -> Any:
        if name == "scope":  # the same object all through a turn
            if value is not self._scope:
                self._scope, self._scope_made = value, self._plain(value, 0)
            return self._scope_made
        if not self._whole:
            if value is not self._content:  # the same arguments are decided about, and then started
                self._content, self._content_made = value, digested(value)
            return self._content_made
        return self._arguments(value) if name == "arguments_json" else self._plain(value, 0)

    def _plain(self, value: object, level: int) -> Any:
        kind = type(value)
        if kind is str:
            return self._text(cast("str", value))
        if value is None or kind is bool or kind is int or kind is float:
            return _number(value)
        if level >= MOST_LEVELS:
            return f"[deeper than {MOST_LEVELS} levels]"
        if kind is tuple or kind is list:
            return self._items(cast("tuple[object, ...]", value), level)
        if kind in _NAMES or attrs.has(kind):
            return self._object(value, level)
        return self._rare(value, level)

    def _rare(self, value: object, level: int) -> Any:
        if isinstance(value, Enum):
            return self._plain(value.value, level + 1)
        if isinstance(value, str):
            return self._text(str(value))
        if isinstance(value, list | tuple):
            return self._items(tuple(cast("tuple[object, ...]", value)), level)
        if isinstance(value, Mapping):
            return self._mapping(cast("Mapping[object, object]", value), level)
        if isinstance(value, AbstractSet):
            return self._items(tuple(sorted(cast("AbstractSet[object]", value), key=str)), level)
        if isinstance(value, bytes | bytearray):
            return self._text(bytes(value).decode(errors="replace"))
        return f"[{type(value).__name__}]"  # no JSON, and its repr might be anything

    def _items(self, items: tuple[object, ...], level: int) -> list[Any]:
        made = [self._plain(item, level + 1) for item in items[:MOST_ITEMS]]
        if len(items) > MOST_ITEMS:
            made.append(f"[and {len(items) - MOST_ITEMS} more]")
        return made

    def _mapping(self, value: Mapping[object, object], level: int) -> dict[str, Any]:
        made = {self._text(str(key)): self._plain(value[key], level + 1) for key in list(value)[:MOST_ITEMS]}
        if len(value) > MOST_ITEMS:
            made["[and more]"] = len(value) - MOST_ITEMS
        return made

    def _object(self, value: object, level: int) -> Any:
        if self._whole:
            return {name: self._plain(getattr(value, name), level + 1) for name in _names(type(value))}
        if isinstance(value, Message):
            return {"role": str(value.role), **digested(_said(value))}
        if isinstance(value, ToolOutput):
            flags = {name: getattr(value, name) for name in ("is_error", "silent", "handled", "task")}
            return {**flags, **digested(_said(value))}
        if isinstance(value, Change):
            return {"plugin": value.plugin, "paths": self._plain(value.paths, level + 1)}
        return {name: self._plain(getattr(value, name), level + 1) for name in _names(type(value))}

    # ---- texts -------------------------------------------------------------------------

    def _text(self, text: str) -> str:
        for secret in self._secrets:
            if secret in text:
                text = text.replace(secret, HIDDEN)
        if len(text) > self._most:
            text = f"{text[: self._most]}[and {len(text) - self._most} characters more, sha256 {_hash(_encoded(text))}]"
        return text if text.isascii() else _encoded(text).decode()

    def _arguments(self, value: object) -> Any:
        """Return arguments as JSON values, without those whose path is to be hidden."""
        try:
            parsed: object = msgspec.json.decode(cast("bytes", value) or b"{}")
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError, TypeError):
            return digested(value)
        return self._plain(self._shown(parsed, "", 0), 0)

    def _shown(self, value: object, path: str, level: int) -> object:
        if level >= MOST_LEVELS:
            return f"[deeper than {MOST_LEVELS} levels]"
        if isinstance(value, dict):
            pairs = cast("dict[str, object]", value).items()
            return {name: self._argument(one, f"{path}.{name}" if path else name, level) for name, one in pairs}
        if isinstance(value, list):
            several = cast("list[object]", value)
            return [self._argument(one, f"{path}.{at}" if path else str(at), level) for at, one in enumerate(several)]
        return value

    def _argument(self, value: object, path: str, level: int) -> object:
        # A path of that length is not expected.
        if self._hides is not None and (len(path) > LONGEST_PATH or self._hides(path.lower())):
            return HIDDEN
        return self._shown(value, path, level + 1)


def digested(value: object) -> dict[str, Any]:
    """Return what is kept of a content that is not kept.

    >>> digested("hello")
    {'bytes': 5, 'sha256': '2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824'}
    """
    data = bytes(value) if isinstance(value, bytes | bytearray) else _encoded(str(value))
    return {"bytes": len(data), "sha256": _hash(data)}


def _said(value: Message | ToolOutput) -> str:
    content = value.content if isinstance(value, Message) else value.for_model
    if isinstance(content, str):
        return content
    return "".join(getattr(part, "text", None) or repr(part) for part in content)


def _number(value: object) -> object:
    if isinstance(value, float):
        return value if isfinite(value) else str(value)  # NaN and the infinities are not JSON
    # Larger ones are read differently by different programs.
    return str(value) if isinstance(value, int) and abs(value) >= LARGEST else value


def _encoded(text: str) -> bytes:
    return text.encode(errors="backslashreplace")  # a lone surrogate is not UTF-8


def _hash(data: bytes) -> str:
    return sha256(data).hexdigest()


def _names(kind: type) -> tuple[str, ...]:
    try:
        return _NAMES[kind]
    except KeyError:
        fields = attrs.fields(cast("type[attrs.AttrsInstance]", kind))
        made = _NAMES[kind] = tuple(field.name for field in fields if not field.name.startswith("_"))
        return made
