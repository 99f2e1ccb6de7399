"""The vendor's list of models, which comes in pages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pluggent_hookspecs import ModelInfo
from pluggent_provider_http.payload import MalformedError, Object, as_count, as_list, as_object, as_text

PAGE = 1_000
"""Models of one page; the API's own limit."""

_PREFIX = "models/"
_KNOWN = frozenset({"name", "displayName", "inputTokenLimit", "outputTokenLimit"})


def read_page(page: Object) -> tuple[Sequence[ModelInfo], str]:
    """Return the models of one page, and the token of the next one."""
    listed = page.get("publisherModels") if "publisherModels" in page else page.get("models")
    return [_model(entry) for entry in as_list(listed, "models")], as_text(page.get("nextPageToken"))


def _model(entry: object) -> ModelInfo:
    fields = as_object(entry, "a model")
    name = as_text(fields.get("name")).rpartition(_PREFIX)[2]
    if not name:
        raise MalformedError("a model has no name")
    extra: dict[str, Any] = {key: value for key, value in fields.items() if key not in _KNOWN and value is not None}
    return ModelInfo(
        name,
        as_text(fields.get("displayName")),
        None,
        as_count(fields.get("inputTokenLimit")),
        as_count(fields.get("outputTokenLimit")),
        extra,
    )
