"""The request fields that only this wire format has: what ModelParameters.extra may hold, and what not.

An unknown name is sent as it is: servers have fields of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from reprlib import repr as shown
from types import MappingProxyType
from typing import Any, TypeAlias, cast

from pluggent_hookspecs import Json, ModelParameters
from pluggent_provider_http.unsendable import UnsendableError
from pluggent_provider_http.vendor_fields import plain

MAX_LOGPROBS = 20
MAX_METADATA = (16, 64, 512)
"""Pairs, characters of a key, characters of a value."""
MAX_USER_CHARS = 128

Check: TypeAlias = Callable[[Json], str | None]
"""Returns what is wrong with a value, None if nothing is."""


def _text(value: Json) -> str | None:
    return None if isinstance(value, str) and value else f"expected a text, got {shown(value)}"


def _flag(value: Json) -> str | None:
    return None if isinstance(value, bool) else f"expected true or false, got {shown(value)}"


def _positive(value: Json) -> str | None:
    good = isinstance(value, int) and not isinstance(value, bool) and value > 0
    return None if good else f"expected a whole number from 1, got {shown(value)}"


def _texts(value: Json) -> str | None:
    good = isinstance(value, list | tuple) and value and all(isinstance(item, str) for item in value)
    return None if good else f"expected a list of texts, got {shown(value)}"


def _object(required: Mapping[str, Check], optional: Mapping[str, Check] = MappingProxyType({})) -> Check:
    """Check an object: what it must have, and what some of its other fields are; more of them may be there."""

    def check(value: Json) -> str | None:
        if not isinstance(value, Mapping):
            return f"expected an object, got {shown(value)}"
        if missing := [name for name in required if name not in value]:
            return f"{missing[0]} is missing"
        for name, item in value.items():
            inner = required.get(name) or optional.get(name)
            if inner is not None and (problem := inner(item)):
                return f"{name}: {problem}"
        return None

    return check


def _exactly(word: str) -> Check:
    return lambda value: None if value == word else f"expected {word!r}, got {shown(value)}"


def _voice(value: Json) -> str | None:
    return _object({"id": _text})(value) if isinstance(value, Mapping) else _text(value)


def _content(value: Json) -> str | None:
    good = isinstance(value, str) or (isinstance(value, list | tuple) and all(isinstance(i, Mapping) for i in value))
    return None if good else f"expected a text or a list of parts, got {shown(value)}"


def _biases(value: Json) -> str | None:
    if not isinstance(value, Mapping):
        return f"expected an object of token ids, got {shown(value)}"
    for token, bias in value.items():
        if isinstance(bias, bool) or not isinstance(bias, int | float) or not -100 <= bias <= 100:  # noqa: PLR2004 (the API's)
            return f"{token}: expected a number from -100 to 100, got {shown(bias)}"
    return None


def _safety_identifier(value: Json) -> str | None:
    if problem := _text(value):
        return problem
    length = len(cast("str", value))
    return f"has {length} characters; {MAX_USER_CHARS} is the limit" if length > MAX_USER_CHARS else None


def _stream_options(value: Json) -> str | None:
    if isinstance(value, Mapping) and "include_usage" in value:
        return "include_usage is the provider's, which always asks for it; leave it out"
    return _object({}, {"include_obfuscation": _flag})(value)


_location = _object({"type": _exactly("approximate"), "approximate": _object({})})
_mode = _object({"mode": _text})

KNOWN: Mapping[str, Check] = {
    "audio": _object({"format": _text, "voice": _voice}),
    "logit_bias": _biases,
    "modalities": _texts,
    "moderation": _object({"model": _text}, {"policy": _object({}, {"input": _mode, "output": _mode})}),
    "n": _positive,
    "prediction": _object({"type": _exactly("content"), "content": _content}),
    "prompt_cache_key": _text,
    "prompt_cache_options": _object({}, {"mode": _text, "ttl": _text}),
    "prompt_cache_retention": _text,
    "safety_identifier": _safety_identifier,
    "store": _flag,
    "stream_options": _stream_options,
    "verbosity": _text,
    "web_search_options": _object({}, {"search_context_size": _text, "user_location": _location}),
}
"""Fields of OpenAI's that no other vendor has a word for, and what their values have to be.

https://developers.openai.com/api/reference/resources/chat (November 2026)
"""

OWNED: Mapping[str, str] = {
    "model": "it is ModelRequest.model",
    "messages": "they are ModelRequest.messages",
    "tools": "they are ModelRequest.tools; ToolSpec.extra['openai'] says what only this wire knows of one",
    "stream": "stream() asks for a stream, complete() does not",
    "functions": "it is deprecated: offer ModelRequest.tools",
    "function_call": "it is deprecated: use parameters.tool_choice",
    "extra_headers": "headers belong into the server's setting 'headers'",
    "extra_query": "a query belongs into the server's setting 'base_url'",
}
"""Fields that ModelParameters.extra may not hold, and what to do instead."""


def extra_fields(extra: Mapping[str, Json], taken: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that *extra* adds to the ones that are *taken*. Raises UnsendableError naming the field."""
    found: dict[str, Any] = {}
    for name, value in extra.items():
        where = f"parameters.extra[{name!r}]"
        if name in OWNED:
            raise UnsendableError(f"{where}: {OWNED[name]}")
        if name in taken:
            raise UnsendableError(f"{where}: '{name}' is already set by the provider; leave it out")
        check = KNOWN.get(name)
        if check is not None and (problem := check(value)):
            raise UnsendableError(f"{where}: {problem}")
        found[name] = plain(value, where)
    return found


def checked_metadata(metadata: Mapping[str, str]) -> dict[str, str]:
    """Return *metadata* if it keeps the limits. Raises UnsendableError naming what does not."""
    pairs, key_chars, value_chars = MAX_METADATA
    if len(metadata) > pairs:
        raise UnsendableError(f"parameters.metadata has {len(metadata)} pairs; {pairs} is the limit")
    for key, value in metadata.items():
        if len(key) > key_chars:
            raise UnsendableError(f"parameters.metadata: the key {key[:20]!r}… is over {key_chars} characters long")
        if not isinstance(value, str):  # pyright: ignore[reportUnnecessaryIsInstance] (a caller without types)
            raise UnsendableError(f"parameters.metadata[{key!r}]: expected a text, got {shown(value)}")
        if len(value) > value_chars:
            raise UnsendableError(f"parameters.metadata[{key!r}] is over {value_chars} characters long")
    return dict(metadata)


def checked_logprobs(parameters: ModelParameters) -> int:
    """Return the number of alternatives asked for. Raises UnsendableError if the API has no such number."""
    count = parameters.logprobs
    if not isinstance(count, int) or isinstance(count, bool) or not 0 <= count <= MAX_LOGPROBS:
        wanted = f"a whole number from 0 to {MAX_LOGPROBS}"
        raise UnsendableError(f"parameters.logprobs: expected {wanted}, got {shown(count)}")
    return count


def checked_user(user: str, field: str) -> str:
    """Return *user* if the field that carries it can. Raises UnsendableError if not."""
    if field == "safety_identifier" and (problem := _safety_identifier(user)):
        raise UnsendableError(f"parameters.user: {problem}")
    return user
