"""The bytes of a streamed answer become batches of deltas, one for each read.

Pure: bytes in, deltas out, the end told by ``end``. What goes wrong after something good in
one read is kept in ``failure``, so that the good part can be handed on first.
"""

from __future__ import annotations

from pluggent_hookspecs import Delta, ModelRequest, ProviderError, deltas
from pluggent_provider_http.faults import Faults
from pluggent_provider_http.payload import MalformedError
from pluggent_provider_http.sse import EventSplitter, EventTooLargeError

from pluggent_openai.chunks import Batch, Chunks
from pluggent_openai.compat import Dialect
from pluggent_openai.reply import read_reply

MAX_EVENT_BYTES = 16_777_216
_BLANK = b" \t\r\n"
_BOM = b"\xef\xbb\xbf"


class StreamReader:
    """Reads the answer to a request for a stream, also where it is no stream.

    A server that answers with one JSON object has answered whole; HTML is an error.
    ``done`` says that the reply is complete, ``failure`` holds what went wrong.
    """

    def __init__(
        self, request: ModelRequest, dialect: Dialect, faults: Faults, max_event_bytes: int = MAX_EVENT_BYTES
    ) -> None:
        self.done = False
        self.failure: ProviderError | None = None
        self._request = request
        self._dialect = dialect
        self._faults = faults
        self._max = max_event_bytes
        self._head = bytearray()
        self._events: EventSplitter | None = None
        self._whole = False
        self._chunks = Chunks(request, dialect, faults)

    def feed(self, data: bytes) -> list[Delta]:
        """Return what one read brought. ``failure`` and ``done`` are set as it says."""
        if self._events is None:
            data = self._sniffed(data)
        if self._events is None or self.done or not data:
            return []
        try:
            payloads = self._events.feed(data)
        except EventTooLargeError:
            self.failure = self._faults.protocol(f"sent an event of more than {self._max:,} bytes")
            return []
        return self._read(payloads, last=False)

    def end(self) -> list[Delta]:
        """Return what was left when the server closed the stream, Finished at its end."""
        if self.done:
            return []
        if self._whole:
            return self._read_whole()
        if self._events is None:
            self.failure = self._faults.protocol("answered with an empty stream")
            return []
        return self._read(self._events.close(), last=True)

    def _read(self, payloads: list[bytes], *, last: bool) -> list[Delta]:
        batch = Batch()
        cut = False
        payload = b""
        try:
            for payload in payloads:
                self._chunks.take(payload, batch)
                if self._chunks.done:
                    break
        except ProviderError as error:
            self.failure = error
        except (MalformedError, RecursionError) as error:
            cut = last
            if not cut:
                shown = self._faults.shown(payload)
                self.failure = self._faults.protocol(f"sent an event that is no chunk of a reply: {error}: {shown}")
        if (self._chunks.done or last) and self.failure is None:
            self._finish(batch, cut=cut)
        return batch.done()

    def _finish(self, batch: Batch, *, cut: bool) -> None:
        try:
            if cut and not self._chunks.complete:
                raise self._faults.broken("broke off inside an event")
            self._chunks.finish(batch)
            self.done = True
        except ProviderError as error:
            self.failure = error
        except (MalformedError, RecursionError) as error:
            self.failure = self._faults.protocol(f"sent a reply that cannot be used: {error}")

    def _sniffed(self, data: bytes) -> bytes:
        """Decide by the first byte what this is; return what the events begin with."""
        head = self._head
        head += data
        start = bytes(head[:1024]).removeprefix(_BOM).lstrip(_BLANK)
        if self._whole or start[:1] in (b"{", b"[", b"<"):
            self._whole = True
            return b""
        if not start or _BOM.startswith(start):
            return b""
        self._events = EventSplitter(self._max)
        return bytes(head)

    def _read_whole(self) -> list[Delta]:
        try:
            body = bytes(self._head).removeprefix(_BOM)
            response = read_reply(body, self._request, self._dialect, self._faults)
        except ProviderError as error:
            self.failure = error
            return []
        self.done = True
        return list(deltas(response))
