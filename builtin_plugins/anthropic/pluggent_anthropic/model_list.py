"""The vendor's list of models, which comes in pages."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pluggent_hookspecs import ModelInfo
from pluggent_provider_http.payload import MalformedError, as_count, as_list, as_object, as_text, decode_whole
from pluggent_provider_http.server_errors import Faults

PAGE = 1_000
"""Models of one page; the API's own limit."""

_MAX_PAGES = 100
_KNOWN = frozenset({"id", "type", "display_name", "created_at", "max_input_tokens", "max_tokens"})


class Pages:
    """Reads pages one by one; ``next`` is the model after which the next page begins, None at the end."""

    def __init__(self, faults: Faults) -> None:
        self.models: list[ModelInfo] = []
        self.next: str | None = ""
        self._faults = faults
        self._taken = 0

    def take(self, data: bytes) -> None:
        """Read one page. Raises ProviderError ``protocol`` if it is not a page."""
        try:
            page = as_object(decode_whole(data), "the answer")
            models = [_model(entry) for entry in as_list(page.get("data"), "data")]
        except MalformedError as error:
            problem = f"answered with what is not a list of models: {error}: {self._faults.shown(data)}"
            raise self._faults.protocol(problem) from error
        self.models += models
        self._taken += 1
        last = as_text(page.get("last_id")) or (models[-1].id if models else "")
        more = page.get("has_more") is True and models and last != self.next and self._taken < _MAX_PAGES
        self.next = last if more else None


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
