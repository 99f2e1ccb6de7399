"""The vendor's list of models, which comes in pages."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from pluggent_hookspecs import ModelInfo
from pluggent_provider_http.payload import MalformedError, Object, as_count, as_list, as_object, as_text

PAGE = 1_000
"""Models of one page; the API's own limit."""

_KNOWN = frozenset({"id", "type", "display_name", "created_at", "max_input_tokens", "max_tokens"})


def read_page(page: Object) -> tuple[Sequence[ModelInfo], str]:
    """Return the models of one page, and the one after which the next page begins."""
    models = [_model(entry) for entry in as_list(page.get("data"), "data")]
    last = as_text(page.get("last_id")) or (models[-1].id if models else "")
    return models, last if page.get("has_more") is True else ""


def _model(entry: object) -> ModelInfo:
    fields = as_object(entry, "a model")
    name = as_text(fields.get("id"))
    if not name:
        raise MalformedError("a model has no id")
    extra: dict[str, Any] = {key: value for key, value in fields.items() if key not in _KNOWN and value is not None}
    return ModelInfo(
        name,
        as_text(fields.get("display_name")),
        _seconds(as_text(fields.get("created_at"))),
        as_count(fields.get("max_input_tokens")),
        as_count(fields.get("max_tokens")),
        extra,
    )


def _seconds(text: str) -> float | None:
    try:
        return datetime.fromisoformat(text).timestamp() if text else None
    except (ValueError, OverflowError, OSError):
        return None
