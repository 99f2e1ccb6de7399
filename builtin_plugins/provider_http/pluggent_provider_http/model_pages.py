"""Lists of models that come in pages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from pluggent_hookspecs import ModelInfo

from pluggent_provider_http.payload import MalformedError, Object, as_object, decode_whole
from pluggent_provider_http.server_errors import Faults

_MAX_PAGES = 100

ReadPage: TypeAlias = Callable[[Object], tuple[Sequence[ModelInfo], str]]
"""Returns the models of a page, and what names the next page, empty on the last one. Raises MalformedError."""


class ModelPages:
    """Reads pages one by one, each by *read*; ``next`` names the next page, empty for the first, None at the end."""

    def __init__(self, faults: Faults, read: ReadPage) -> None:
        self.models: list[ModelInfo] = []
        self.next: str | None = ""
        self._faults = faults
        self._read = read
        self._taken = 0

    def take(self, data: bytes) -> None:
        """Read one page. Raises ProviderError ``protocol`` if it is not a page."""
        try:
            models, following = self._read(as_object(decode_whole(data), "the answer"))
        except MalformedError as error:
            problem = f"answered with what is not a list of models: {error}: {self._faults.shown(data)}"
            raise self._faults.protocol(problem) from error
        self.models += models
        self._taken += 1
        goes_on = following and models and following != self.next and self._taken < _MAX_PAGES
        self.next = following if goes_on else None
