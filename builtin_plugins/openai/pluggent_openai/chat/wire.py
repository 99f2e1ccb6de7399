"""Chat completions as a Wire."""

from __future__ import annotations

from fnmatch import fnmatchcase

from pluggent_hookspecs import ModelRequest, ModelResponse
from pluggent_provider_http.reply_reader import ReplyEvents
from pluggent_provider_http.server_errors import Faults

from pluggent_openai.chat.chunks import Chunks
from pluggent_openai.chat.reply import read_refusal, read_reply
from pluggent_openai.chat.request import Writer
from pluggent_openai.dialects import Dialect
from pluggent_openai.wire import Body


class ChatWire:
    """The chat completions of servers of one dialect; see Wire for what its methods promise."""

    path = "/chat/completions"

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._writer = Writer(dialect)
        self._tagging = Writer(dialect.for_tagged()) if dialect.tagged else self._writer

    def streams(self, request: ModelRequest) -> bool:
        """Whether the server can stream the reply to *request*."""
        return not request.tools or self._dialect.stream_tools

    def encode(self, request: ModelRequest, faults: Faults, *, stream: bool) -> Body:
        """Return what asks for the reply to *request*."""
        tagged = any(fnmatchcase(request.model, pattern) for pattern in self._dialect.tagged)
        return (self._tagging if tagged else self._writer).body(request, faults, stream=stream)

    def events(self, request: ModelRequest, faults: Faults, notes: tuple[str, ...]) -> ReplyEvents:
        """Return what reads a stream."""
        return Chunks(request, self._dialect, faults, notes)

    def read(self, data: bytes, request: ModelRequest, faults: Faults, notes: tuple[str, ...]) -> ModelResponse:
        """Return the reply in a whole answer."""
        return read_reply(data, request, self._dialect, faults, notes)

    def read_refusal(
        self, data: bytes, request: ModelRequest, faults: Faults, notes: tuple[str, ...]
    ) -> ModelResponse | None:
        """Return the call that the server refused and the model meant, None if *data* is about something else."""
        return read_refusal(data, request, faults, notes)
