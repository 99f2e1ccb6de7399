"""Replies that a server makes in the background: submitted, read from where a connection broke off, cancelled.

https://developers.openai.com/docs/guides/background
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing
from time import monotonic, time
from typing import Any, cast
from urllib.parse import quote

import attrs
from pluggent_hookspecs import Delta, Finished, ModelParameters, ModelRequest, ProviderError, ProviderErrorKind, Ticket
from pluggent_provider_http.access import Access
from pluggent_provider_http.client import Answer, Client, was_refused
from pluggent_provider_http.framing.feed import FramingError
from pluggent_provider_http.framing.sse import MAX_EVENT_BYTES, EventFeed
from pluggent_provider_http.payload import MalformedError, as_fields, as_text, decode, decode_whole
from pluggent_provider_http.provider import with_answer
from pluggent_provider_http.reply_reader import ReplyReader
from pluggent_provider_http.server_errors import Faults

from pluggent_openai.responses.ending import UNFINISHED
from pluggent_openai.responses.events import Events
from pluggent_openai.responses.wire import ResponsesWire
from pluggent_openai.settings import Server

MOST_OPEN = 16
"""Streams of submissions that wait to be attached to; the oldest is closed for another one."""
MOST_BREAKS = 6
"""How often a connection may break in a row without an event between."""
_FIRST_WAIT_S = 0.05
_LONGEST_WAIT_S = 5.0
_NOT_FOUND = 404
_OVER = frozenset({400, 404, 409})
"""Statuses of cancelling what is over, or unknown."""
_NO_STREAM = frozenset({400, 405, 422, 501})
"""Statuses of a server that has no stream of this reply."""

Headers = Callable[[str, str, "ModelParameters | None"], "tuple[dict[str, str], Faults]"]
Below = Callable[[str, str, Faults], str]


@attrs.define(eq=False)
class _Stream:
    """An answer that was begun by a submission: the reads that were looked at, and the rest."""

    stack: AsyncExitStack
    answer: Answer
    reads: list[bytes]


class Background:
    """The replies in the background of one server. Methods are those of RunsLater.

    The stream of a submission stays open until it is attached to: a server may leave a reply queued for ever whose
    stream was closed at its first event.
    """

    def __init__(
        self, access: Access, name: str, target: str, server: Server, wire: ResponsesWire, http: Client, below: Below,
        headers: Headers,
    ) -> None:  # fmt: skip
        self.access = access
        self._name = name
        self._target = target
        self._server = server
        self._wire = wire
        self._http = http
        self._below = below
        self._headers = headers
        self._open: dict[str, _Stream] = {}

    async def close(self) -> None:
        """Close the streams that were not attached to; what is made goes on."""
        while self._open:
            await self._open.pop(next(iter(self._open))).stack.aclose()

    # ---- submitting ----------------------------------------------------------------------

    async def submit(self, request: ModelRequest) -> Ticket:
        """Begin a reply; return its ticket."""
        path = self._wire.path
        await self.access.prepare()
        headers, faults = self._headers(request.model, path, request.parameters)
        body = self._wire.encode(request, faults, stream=True)
        stack = AsyncExitStack()
        try:
            post = self._http.post(
                self._below(request.model, path, faults), body.data, headers, faults, request.parameters.timeouts
            )
            answer = await stack.enter_async_context(post)
            await self.access.check(answer)
            id, reads = await self._named(answer, faults)
        except _RefusedError as refused:
            await stack.aclose()
            raise refused.error from None
        except ProviderError as error:
            await stack.aclose()
            if was_refused(error):
                raise
            raise faults.in_doubt(error, "the reply") from error
        except BaseException:
            await stack.aclose()
            raise
        while len(self._open) >= MOST_OPEN:
            await self._open.pop(next(iter(self._open))).stack.aclose()
        self._open[id] = _Stream(stack, answer, reads)
        extra: Mapping[str, Any] = {"notes": list(body.notes)} if body.notes else {}
        return Ticket(self._name, self._target, request.model, id, time(), extra)

    async def _named(self, answer: Answer, faults: Faults) -> tuple[str, list[bytes]]:
        """Return the id of the reply, and the reads up to it. Raises ProviderError."""
        feed, reads = EventFeed(MAX_EVENT_BYTES), list[bytes]()
        try:
            async for data in answer:
                reads.append(data)
                for payload in feed.feed(data):
                    if id := _id_in(payload, faults):
                        return id, reads
        except FramingError as error:
            raise faults.protocol(str(error)) from error
        if (whole := feed.whole) is not None and (id := _id_in(whole, faults)):
            return id, reads
        raise faults.broken("ended before the reply had an id")

    # ---- attaching -----------------------------------------------------------------------

    async def attach(self, ticket: Ticket, request: ModelRequest) -> AsyncGenerator[Sequence[Delta]]:
        """Yield the reply of *ticket*, over as many connections as it takes."""
        _, faults, _ = await self.place(ticket)
        reading = _Reading(self, ticket, request, faults)
        begun = self._open.pop(ticket.id, None)
        async for batch in reading.batches(begun):
            yield batch

    async def cancel(self, ticket: Ticket) -> None:
        """End the run of *ticket*; one that is over, or unknown, is left as it is."""
        if (begun := self._open.pop(ticket.id, None)) is not None:
            await begun.stack.aclose()
        headers, faults, path = await self.place(ticket)
        async with self._http.post(f"{path}/cancel", b"{}", headers, faults) as answer:
            if answer.status not in _OVER:
                await self.access.check(answer)
            await answer.drain()

    async def place(self, ticket: Ticket) -> tuple[dict[str, str], Faults, str]:
        """Return the headers, the errors and the path of a request about *ticket*; credentials may have expired."""
        await self.access.prepare()
        path = f"{self._wire.path}/{quote(ticket.id, safe='')}"
        headers, faults = self._headers(ticket.model, path, None)
        return headers, faults, self._below(ticket.model, path, faults)

    def events(self, ticket: Ticket, request: ModelRequest, faults: Faults) -> Events:
        """Return what reads the reply of *ticket*."""
        notes = ticket.extra.get("notes", ())
        return self._wire.events(request, faults, tuple(map(str, cast("Sequence[object]", notes))))

    @property
    def http(self) -> Client:
        """What sends requests."""
        return self._http

    @property
    def queued_s(self) -> float:
        """Seconds that a reply may wait before it is begun."""
        return self._server.queued_s

    @property
    def max_event_bytes(self) -> int:
        """The most bytes of one event."""
        return min(MAX_EVENT_BYTES, self._server.max_response_bytes)


class _RefusedError(Exception):
    """The server refuses the reply in the place of its first event."""

    def __init__(self, error: ProviderError) -> None:
        self.error = error
        super().__init__(str(error))


class _Reading:
    """One reply, read over one connection after the other."""

    def __init__(self, background: Background, ticket: Ticket, request: ModelRequest, faults: Faults) -> None:
        self._background = background
        self._ticket = ticket
        self._faults = faults
        self._events = background.events(ticket, request, self._faults)
        self._since = monotonic()
        self._breaks = 0
        self._streams = True
        self._done = False

    async def batches(self, begun: _Stream | None) -> AsyncGenerator[Sequence[Delta]]:
        """Yield the reply to its end. Raises ProviderError."""
        if begun is not None:
            async with begun.stack, aclosing(self._read(begun.answer, begun.reads)) as batches:
                async for batch in batches:
                    yield batch
        while not self._done:
            source = self._streamed() if self._streams else self._polled()
            async with aclosing(source) as batches:
                async for batch in batches:
                    yield batch

    async def _streamed(self) -> AsyncGenerator[Sequence[Delta]]:
        """Yield what one connection brings of the stream, from the event on that came last."""
        query = {"stream": "true"}
        if self._events.number >= 0:
            query["starting_after"] = str(self._events.number)
        try:
            headers, faults, path = await self._background.place(self._ticket)
            async with self._background.http.get(path, headers, faults, query) as answer:
                if answer.status in _NO_STREAM:
                    await answer.read_some()
                    self._streams = False
                    return
                await self._background.access.check(answer)
                async with aclosing(self._read(answer, ())) as batches:
                    async for batch in batches:
                        yield batch
        except ProviderError as error:
            await self._broke(error)

    async def _read(self, answer: Answer, reads: Sequence[bytes]) -> AsyncGenerator[Sequence[Delta]]:
        """Yield what *reads*, and then *answer*, bring; that a connection breaks off is no end of the reply."""
        reader = ReplyReader(self._events, self._faults, self._background.max_event_bytes)
        try:
            async for data in _chain(reads, answer):
                number = self._events.number
                if batch := reader.feed(data):
                    yield _with_meta(batch, answer)
                if reader.failure is not None:
                    raise reader.failure
                if reader.done:
                    self._done = True
                    await answer.drain()
                    return
                self._breaks = 0 if self._events.number > number else self._breaks
                self._check_queue()
        except ProviderError as error:
            await self._broke(error)
            return
        if _is_json(answer):
            self._streams = False  # the server has no streams, and says how far the reply is
        else:
            await self._broke(
                self._faults.broken("broke off: its last event, such as response.completed, did not come")
            )

    async def _polled(self) -> AsyncGenerator[Sequence[Delta]]:
        """Yield the reply if it is whole by now, else wait."""
        try:
            status, body, answer = await self._look()
        except ProviderError as error:
            await self._broke(error)
            return
        if status in UNFINISHED:
            self._breaks = 0
            self._check_queue(queued=status == UNFINISHED[0])
            await asyncio.sleep(min(_LONGEST_WAIT_S, max(_FIRST_WAIT_S, (monotonic() - self._since) / 4)))
            return
        if self._events.number >= 0:
            raise self._faults.broken("cannot be streamed any more, and is not whole; attach to it again")
        reader = ReplyReader(self._events, self._faults, self._background.max_event_bytes)
        reader.feed(body)
        batch = reader.end()
        if reader.failure is not None:
            raise self._ended(reader.failure)
        self._done = True
        yield _with_meta(batch, answer)

    async def _look(self) -> tuple[str, bytes, Answer]:
        """Return the status of the reply, the answer that says it, and its body."""
        headers, faults, path = await self._background.place(self._ticket)
        async with self._background.http.get(path, headers, faults) as answer:
            if answer.status == _NOT_FOUND:
                await answer.read_some()
                unknown = "it was deleted, or is not kept any more: ask again"
                raise self._faults.gone(f"does not know the reply {self._faults.shown(self._ticket.id)}; {unknown}")
            await self._background.access.check(answer)
            body = await answer.read()
            try:
                return as_text(as_fields(decode_whole(body)).get("status")), body, answer
            except MalformedError as error:
                raise self._faults.protocol(f"answered with what is not a response: {error}") from error

    async def _broke(self, error: ProviderError) -> None:
        """Wait before another connection, after *error*. Raises it if there is to be none."""
        if self._events.ended or not error.retryable:
            if error.status == _NOT_FOUND:
                self._streams = False  # what cannot be streamed any more may be kept all the same
                return
            raise self._ended(error)
        self._check_queue()
        if error.kind is ProviderErrorKind.TIMEOUT and self._events.number >= 0:
            status, *_ = await self._look()
            self._breaks -= status not in ("", UNFINISHED[0])  # it is silent, and not stuck
        self._breaks += 1
        if self._breaks > MOST_BREAKS:
            raise error
        await asyncio.sleep(min(_LONGEST_WAIT_S, _FIRST_WAIT_S * 2 ** (self._breaks - 1)))

    def _check_queue(self, *, queued: bool | None = None) -> None:
        """Raise ProviderError if the reply has waited too long to be begun."""
        waits = self._events.waits if queued is None else queued
        if waits and monotonic() - self._since > self._background.queued_s:
            advice = "look again later, or cancel it and ask again"
            raise self._faults.error(
                ProviderErrorKind.TIMEOUT,
                f"{self._faults.target} has not begun within {self._background.queued_s:g} s (setting queued_s);"
                f" it is still queued: {advice}",
            )

    def _ended(self, error: ProviderError) -> ProviderError:
        error.retryable = error.retryable and not self._events.ended
        return error


async def _chain(reads: Sequence[bytes], answer: Answer) -> AsyncGenerator[bytes]:
    for data in reads:
        yield data
    async for data in answer:
        yield data


def _is_json(answer: Answer) -> bool:
    return "json" in answer.headers.get("content-type", "")


def _id_in(payload: bytes, faults: Faults) -> str:
    """Return the id of the reply that an event, or a whole answer, names. Raises the ProviderError that it holds."""
    try:
        said = as_fields(decode(payload))
    except MalformedError:
        return ""
    response = as_fields(said.get("response")) or said
    if response.get("object") == "response" or "response" in said:
        return as_text(response.get("id"))
    if said.get("error") or as_text(said.get("type")) == "error":
        raise _RefusedError(faults.from_payload(said))
    return ""


def _with_meta(batch: list[Delta], answer: Answer) -> list[Delta]:
    last = batch[-1]
    if isinstance(last, Finished):
        batch[-1] = attrs.evolve(last, meta=with_answer(last.meta, answer.meta()))
    return batch
