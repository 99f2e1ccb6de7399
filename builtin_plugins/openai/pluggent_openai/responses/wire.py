"""The Responses API as a Wire."""

from __future__ import annotations

from typing import Any

from pluggent_hookspecs import ModelRequest, ModelResponse
from pluggent_provider_http.server_errors import Faults

from pluggent_openai.dialects import Dialect
from pluggent_openai.responses.events import Events, read_reply
from pluggent_openai.responses.items import Known
from pluggent_openai.responses.request import Writer
from pluggent_openai.server_tools import declared, prices
from pluggent_openai.settings import Server
from pluggent_openai.wire import Body


class ResponsesWire:
    """The Responses API of one server, told by its *target*; see Wire for what its methods promise."""

    path = "/responses"

    def __init__(self, dialect: Dialect, target: str, server: Server) -> None:
        self._target = target
        fields: dict[str, Any] = {"store": True} if server.store else {}
        if server.compaction:
            fields["context_management"] = [{"type": "compaction", "compact_threshold": server.compaction}]
        hosted = declared(server.server_tools)
        self._writer = Writer(dialect, target, thinking=server.replay_thinking, hosted=hosted, fields=fields)
        self._known = Known(self._writer.before, prices(server.server_tools))

    def streams(self, request: ModelRequest) -> bool:
        """Whether the server can stream the reply to *request*."""
        return True

    def encode(self, request: ModelRequest, faults: Faults, *, stream: bool) -> Body:
        """Return what asks for the reply to *request*."""
        return self._writer.encode(request, faults, stream=stream)

    def encode_count(self, request: ModelRequest, faults: Faults) -> Body:
        """Return what asks how many tokens *request* has."""
        return self._writer.encode_count(request, faults)

    def events(self, request: ModelRequest, faults: Faults, notes: tuple[str, ...]) -> Events:
        """Return what reads a stream."""
        return Events(request, self._target, faults, notes, self._known)

    def read(self, data: bytes, request: ModelRequest, faults: Faults, notes: tuple[str, ...]) -> ModelResponse:
        """Return the reply in a whole answer."""
        return read_reply(data, request, self._target, faults, notes, self._known)

    def read_refusal(
        self, data: bytes, request: ModelRequest, faults: Faults, notes: tuple[str, ...]
    ) -> ModelResponse | None:
        """Return None: this API hands calls on as they are."""
        return None
