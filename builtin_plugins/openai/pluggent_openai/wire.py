"""What a provider needs of one API of a server: where requests go, their bytes, and what answers mean."""

from __future__ import annotations

from typing import Protocol

import attrs
from pluggent_hookspecs import ModelRequest, ModelResponse
from pluggent_provider_http.reply_reader import ReplyEvents
from pluggent_provider_http.server_errors import Faults


@attrs.frozen
class Body:
    """What is sent. ``notes`` say what of the conversation was left out, for the meta of the reply."""

    data: bytes
    notes: tuple[str, ...] = ()


class Wire(Protocol):
    """One API. Methods raise ProviderError: ``bad_request`` naming what cannot be sent, or what an answer holds."""

    @property
    def path(self) -> str:
        """What requests append to the base URL."""
        ...

    def streams(self, request: ModelRequest) -> bool:
        """Whether the server can stream the reply to *request*; otherwise it is asked whole."""
        ...

    def encode(self, request: ModelRequest, faults: Faults, *, stream: bool) -> Body:
        """Return what asks for the reply to *request*."""
        ...

    def events(self, request: ModelRequest, faults: Faults, notes: tuple[str, ...]) -> ReplyEvents:
        """Return what reads a stream."""
        ...

    def read(self, data: bytes, request: ModelRequest, faults: Faults, notes: tuple[str, ...]) -> ModelResponse:
        """Return the reply in a whole answer."""
        ...

    def read_refusal(
        self, data: bytes, request: ModelRequest, faults: Faults, notes: tuple[str, ...]
    ) -> ModelResponse | None:
        """Return the reply that an answer with status 400 is in truth, None if it is none."""
        ...
