"""What came back for a URL, and the error when nothing did."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from pluggent_web.urls import Url

_REDIRECTS = frozenset({301, 302, 303, 307, 308})


class FetchError(Exception):
    """A URL that could not be fetched; its text says why, without secrets of the settings."""


@attrs.frozen
class Answer:
    """An answer to a GET of ``url``; the names of ``headers`` are lower case.

    ``cut``: the body was longer than the limit, and this is its beginning. Of a redirect it is not read.
    """

    url: Url
    status: int
    headers: Mapping[str, str]
    body: bytes = b""
    cut: bool = False

    @property
    def location(self) -> str | None:
        """Where a redirect leads, None for any other answer."""
        return self.headers.get("location") if self.status in _REDIRECTS else None

    @property
    def content_type(self) -> str:
        return self.headers.get("content-type", "")
