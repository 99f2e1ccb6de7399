"""The list of a server's models, in the shapes that servers give it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from pluggent_hookspecs import ModelInfo
from pluggent_provider_http.payload import MalformedError, Object, as_count, as_number, as_object, as_text, decode_whole
from pluggent_provider_http.server_errors import Faults

_NAMES = ("display_name", "name")
# Groq, OpenRouter and Together, Mistral and LM Studio, vLLM
_WINDOWS = ("context_window", "context_length", "max_context_length", "max_model_len")
_OUTPUTS = ("max_output_tokens", "max_completion_tokens")


def read_models(data: bytes, faults: Faults) -> tuple[ModelInfo, ...]:
    """Return the models in *data*, in the server's order. Raises ProviderError: what it holds, or ``protocol``."""
    try:
        answer: Any = decode_whole(data)
        if _says_error(answer):
            raise faults.from_payload(answer)
        return _listed(_entries(answer))
    except MalformedError as error:
        shown = faults.shown(data) or "(empty)"
        raise faults.protocol(f"answered with what is not a list of models: {error}: {shown}") from error
    except RecursionError as error:
        raise faults.protocol("answered with JSON that is nested too deeply") from error


def _says_error(answer: object) -> bool:
    return isinstance(answer, Mapping) and bool(cast("Object", answer).get("error"))


def _entries(answer: object) -> list[object]:
    """Return the list itself: under ``data`` or ``models``, or bare (Together)."""
    if isinstance(answer, list):
        return cast("list[object]", answer)
    fields = as_object(answer, "the answer")
    for name in ("data", "models"):
        if isinstance(fields.get(name), list):
            return cast("list[object]", fields[name])
    raise MalformedError("it has no list")


def _listed(entries: list[object]) -> tuple[ModelInfo, ...]:
    found = tuple(info for entry in entries if (info := _model(entry)) is not None)
    if entries and not found:
        raise MalformedError("none of its entries names a model")
    return found


def _model(entry: object) -> ModelInfo | None:
    """Return what an entry says; None if it names no model."""
    if isinstance(entry, str) and entry:
        return ModelInfo(entry)
    if not isinstance(entry, Mapping):
        return None
    fields = cast("Object", entry)
    model = as_text(fields.get("id")) or as_text(fields.get("model")) or as_text(fields.get("name"))
    if not model:
        return None
    named = next((text for key in _NAMES if (text := as_text(fields.get(key))) and text != model), "")
    created = as_number(fields.get("created"))
    used = {"id", "object", *(["created"] if created is not None else [])}
    return ModelInfo(
        model,
        named,
        created,
        _first(fields, _WINDOWS) or _inside(fields, "meta", ("n_ctx", "n_ctx_train")),  # llama.cpp
        _first(fields, _OUTPUTS) or _inside(fields, "top_provider", _OUTPUTS),  # OpenRouter
        {name: value for name, value in fields.items() if name not in used and value not in (None, [], {})},
    )


def _first(fields: Object, names: tuple[str, ...]) -> int | None:
    return next((count for name in names if (count := as_count(fields.get(name)))), None)


def _inside(fields: Object, name: str, names: tuple[str, ...]) -> int | None:
    inner: Any = fields.get(name)
    return _first(cast("Object", inner), names) if isinstance(inner, Mapping) else None
