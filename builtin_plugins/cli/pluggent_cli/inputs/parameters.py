"""``-o name=value``: parameters of the model, checked against what the contract knows."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from pluggent_hookspecs.errors import ConfigError
from pluggent_hookspecs.models import ModelParameters
from pluggent_plugin_loader.suggestions import did_you_mean

VENDOR = "extra."
"""Begins the name of a parameter that only the vendor knows."""


def read_model_parameters(given: Sequence[str]) -> ModelParameters | None:
    """Return what the options say, None if there are none. Raises ConfigError with all problems.

    >>> read_model_parameters(["temperature=0.2", "extra.verbosity=low"]).extra["verbosity"]
    'low'
    """
    if not given:
        return None
    values: dict[str, Any] = {}
    extra: dict[str, Any] = {}
    problems: list[str] = []
    for text in given:
        name, equals, value = text.partition("=")
        name = name.strip().replace("-", "_")
        if not equals:
            problems.append(f"{text!r}: expected name=value, such as temperature=0.2")
        elif name.startswith(VENDOR) and len(name) > len(VENDOR):
            extra[text.partition("=")[0].strip().removeprefix(VENDOR)] = _json_or_text(value)
        elif name not in _READERS:
            meant = did_you_mean(name, _READERS) or f"; there are: {', '.join(_READERS)}."
            problems.append(f"there is no parameter {name!r}{meant} One that only the vendor knows: extra.{name}=…")
        else:
            try:
                values[name] = _READERS[name](value.strip())
            except ValueError as error:
                problems.append(f"{name}: {error}")
    if problems:
        raise ConfigError("--option", problems)
    return ModelParameters(**values, extra=extra)


def _number(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise ValueError(f"{text!r} is not a number")
    return value


def _whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a whole number") from None


def _boolean(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError(f"{text!r} is neither true nor false")
    return text.lower() == "true"


def _text(text: str) -> str:
    if not text:
        raise ValueError("is empty")
    return text


def _texts(text: str) -> tuple[str, ...]:
    found = _json_or_text(text)
    if isinstance(found, list) and all(isinstance(each, str) for each in cast("list[object]", found)):
        return tuple(cast("list[str]", found))
    return (text,)


def _texts_by_name(text: str) -> Mapping[str, str]:
    found = _json_or_text(text)
    if isinstance(found, dict) and all(isinstance(each, str) for each in cast("dict[str, object]", found).values()):
        return cast("dict[str, str]", found)
    raise ValueError('expected a JSON object of text, such as {"team": "a"}')


def _json_or_text(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=str)
    except (ValueError, RecursionError):
        return text


_READERS: Mapping[str, Callable[[str], Any]] = {
    "temperature": _number,
    "top_p": _number,
    "top_k": _whole,
    "max_output_tokens": _whole,
    "stop": _texts,
    "seed": _whole,
    "presence_penalty": _number,
    "frequency_penalty": _number,
    "reasoning_effort": _text,
    "tool_choice": _text,
    "parallel_tool_calls": _boolean,
    "logprobs": _whole,
    "service_tier": _text,
    "user": _text,
    "metadata": _texts_by_name,
    "headers": _texts_by_name,
    "cache": _text,
    "background": _boolean,
}
"""Every field of ModelParameters but output_schema, which --schema is for, timeouts and extra."""
