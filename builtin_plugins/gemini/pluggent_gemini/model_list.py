"""The vendor's list of models, which comes in pages."""

from __future__ import annotations

from typing import Any

from pluggent_hookspecs import ModelInfo
from pluggent_provider_http.payload import MalformedError, as_count, as_list, as_object, as_text, decode_whole
from pluggent_provider_http.server_errors import Faults

PAGE = 1_000
"""Models of one page; the API's own limit."""

_MAX_PAGES = 100
_PREFIX = "models/"
_KNOWN = frozenset({"name", "displayName", "inputTokenLimit", "outputTokenLimit"})


class Pages:
    """Reads pages one by one; ``next`` is the token of the next page, empty for the first, None at the end."""

    def __init__(self, faults: Faults) -> None:
        self.models: list[ModelInfo] = []
        self.next: str | None = ""
        self._faults = faults
        self._taken = 0

    def take(self, data: bytes) -> None:
        """Read one page. Raises ProviderError ``protocol`` if it is not a page."""
        try:
            page = as_object(decode_whole(data), "the answer")
            listed = page.get("publisherModels") if "publisherModels" in page else page.get("models")
            models = [_model(entry) for entry in as_list(listed, "models")]
        except MalformedError as error:
            problem = f"answered with what is not a list of models: {error}: {self._faults.shown(data)}"
            raise self._faults.protocol(problem) from error
        self.models += models
        self._taken += 1
        token = as_text(page.get("nextPageToken"))
        more = token and models and token != self.next and self._taken < _MAX_PAGES
        self.next = token if more else None


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
