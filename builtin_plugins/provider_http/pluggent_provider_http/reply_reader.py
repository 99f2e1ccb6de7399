"""The bytes of an answer become batches of deltas, one for each read, whatever a vendor's events look like.

Pure: bytes in, deltas out, the end told by ``end``. What goes wrong after something good in
one read is kept in ``failure``, so that the good part can be handed on first.
"""

from __future__ import annotations

from typing import Protocol

from pluggent_hookspecs import Delta, ProviderError

from pluggent_provider_http.delta_batch import Batch
from pluggent_provider_http.framing import Framing, FramingError
from pluggent_provider_http.payload import MalformedError
from pluggent_provider_http.server_errors import Faults
from pluggent_provider_http.sse import MAX_EVENT_BYTES, EventFeed
from pluggent_provider_http.surrogates import ends_inside_a_pair, joined, replaced


class ReplyEvents(Protocol):
    """The events of one reply: what a vendor makes of them, and whether they came to their end.

    All methods raise MalformedError for what is not as it should be, or the ProviderError that
    an event holds.
    """

    @property
    def done(self) -> bool:
        """Whether the last event has come; later ones are not looked at."""
        ...

    @property
    def complete(self) -> bool:
        """Whether the server has said that the reply is at its end."""
        ...

    def take(self, payload: bytes, batch: Batch) -> None:
        """Read one event's data."""

    def finish(self, batch: Batch) -> None:
        """Add the end of the reply. Raises ProviderError if there is none."""

    def take_whole(self, body: bytes, batch: Batch) -> None:
        """Read an answer that came at once where a stream was asked for, up to its end."""


class ReplyReader:
    """Reads the answer to a request, whether it is a stream or not.

    A server that answers with one JSON object has answered whole; HTML is an error. *framing* is
    how a stream is cut into events: server-sent events, or what the server speaks.
    ``done`` says that the reply is complete, ``failure`` holds what went wrong.
    """

    def __init__(
        self,
        reply: ReplyEvents,
        faults: Faults,
        max_event_bytes: int = MAX_EVENT_BYTES,
        framing: Framing = EventFeed,
    ) -> None:
        self.done = False
        self.failure: ProviderError | None = None
        self._reply = reply
        self._faults = faults
        self._feed = framing(max_event_bytes)
        self._half: bytes | None = None

    def feed(self, data: bytes) -> list[Delta]:
        """Return what one read brought. ``failure`` and ``done`` are set as it says."""
        if self.done:
            return []
        try:
            payloads = self._feed.feed(data)
        except FramingError as error:
            batch = self._read(error.before, last=False)
            if self.failure is None and not self.done:
                self.failure = self._faults.protocol(str(error))
            return batch
        return self._read(payloads, last=False) if payloads else []

    def end(self) -> list[Delta]:
        """Return what was left when the server closed the stream, Finished at its end."""
        if self.done:
            return []
        whole = self._feed.whole
        if whole is None:
            return self._read(self._feed.end(), last=True)
        return self._read_whole(whole)

    def _read(self, payloads: list[bytes], *, last: bool) -> list[Delta]:
        batch = Batch()
        cut = False
        payload = b""
        try:
            for payload in payloads:
                whole = payload if self._half is None else self._rejoined(payload, batch)
                try:
                    self._reply.take(whole, batch)
                except MalformedError:
                    if not self._take_half(whole, batch):
                        raise
                if self._reply.done:
                    break
            if last and self._half is not None:
                self._rejoined(b"", batch)
        except ProviderError as error:
            self.failure = error
        except (MalformedError, RecursionError) as error:
            cut = last
            if not cut:
                shown = self._faults.shown(payload)
                self.failure = self._faults.protocol(f"sent an event that is not a piece of a reply: {error}: {shown}")
        if (last or self._reply.done) and self.failure is None:
            self._finish(batch, cut=cut)
        return batch.done()

    def _take_half(self, payload: bytes, batch: Batch) -> bool:
        """Read an event with half a surrogate pair, kept until the next has come if it ends in one; False without any.

        Half a pair is refused as JSON, so nothing of the event has been read yet.
        """
        if ends_inside_a_pair(payload):
            self._half = payload
            return True
        if (mended := replaced(payload)) == payload:
            return False
        self._reply.take(mended, batch)
        return True

    def _rejoined(self, payload: bytes, batch: Batch) -> bytes:
        """Read the event that ended inside a pair; return *payload*, the next one, with the whole pair."""
        half, self._half = self._half or b"", None
        first, rest = joined(half, payload)
        self._reply.take(first, batch)
        return rest

    def _finish(self, batch: Batch, *, cut: bool) -> None:
        try:
            if cut and not self._reply.complete:
                raise self._faults.broken("broke off inside an event")
            self._reply.finish(batch)
            self.done = True
        except ProviderError as error:
            self.failure = error
        except (MalformedError, RecursionError) as error:
            self.failure = self._faults.protocol(f"sent a reply that cannot be used: {error}")

    def _read_whole(self, body: bytes) -> list[Delta]:
        batch = Batch()
        try:
            if not body.strip():
                raise self._faults.protocol("answered with nothing")
            self._reply.take_whole(body, batch)
            self.done = True
        except ProviderError as error:
            self.failure = error
        except (MalformedError, RecursionError) as error:
            problem = f"answered with what is not a reply: {error}: {self._faults.shown(body)}"
            self.failure = self._faults.protocol(problem)
        return batch.done() if self.done else []
