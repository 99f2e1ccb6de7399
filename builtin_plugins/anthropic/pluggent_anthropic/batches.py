"""Message batches: sent whole, read as JSON lines. They have no metadata: one is known by its results alone.

https://docs.anthropic.com/en/api/creating-message-batches
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from datetime import datetime
from time import time
from typing import Any
from urllib.parse import quote

import attrs
import msgspec
from pluggent_hookspecs import (
    BatchResult,
    BatchState,
    BatchTicket,
    ModelParameters,
    ModelRequest,
    ProviderError,
    Reply,
)
from pluggent_provider_http.access import Access
from pluggent_provider_http.batch_results import MOST_BYTES as MOST_RESULT_BYTES, failed, missing, read_lines
from pluggent_provider_http.client import Answer, Client, was_refused
from pluggent_provider_http.delta_batch import Batch
from pluggent_provider_http.payload import MalformedError, Object, as_count, as_fields, as_list, as_text, decode_whole
from pluggent_provider_http.server_errors import Faults

from pluggent_anthropic.request import Body, encode_request
from pluggent_anthropic.settings import Server
from pluggent_anthropic.stream import Events

__all__ = ["MOST_RESULT_BYTES", "MessageBatches"]

MOST_REQUESTS = 100_000
MOST_BYTES = 256_000_000
"""https://docs.anthropic.com/en/api/creating-message-batches (November 2026): 100,000 requests, 256 MB."""
PAGE = 100
MOST_PAGES = 100
CLOCKS_S = 3_600.0
"""How far the clocks here and there may be apart."""
_ENDED = "ended"
_OVER = frozenset({400, 404, 409})
_NOT_FOUND = 404
_OUTCOMES = {"canceled": "cancelled", "expired": "expired"}
_encode = msgspec.json.Encoder().encode

Headers = Callable[[str, str, Sequence[str], "ModelParameters | None"], "tuple[dict[str, str], Faults]"]


class _Result(msgspec.Struct):
    type: str
    message: msgspec.Raw = msgspec.Raw(b"null")
    error: msgspec.Raw = msgspec.Raw(b"null")


class _Line(msgspec.Struct):
    custom_id: str
    result: _Result


_read_line = msgspec.json.Decoder(_Line).decode


@attrs.frozen(eq=False)
class MessageBatches:
    """The batches of one server, below *path*. Methods are those of the contract's Batches."""

    name: str
    target: str
    server: Server
    path: str
    access: Access
    http: Client
    headers: Headers

    async def submit(self, requests: Mapping[str, ModelRequest], key: str) -> BatchTicket:
        """Send *requests* as a batch."""
        faults = Faults(self.name, self.target)
        if len(requests) > MOST_REQUESTS:
            problem = f"{len(requests):,} requests are more than the {MOST_REQUESTS:,} of a batch; make two of it"
            raise faults.unsendable(ValueError(problem))
        body = await asyncio.to_thread(self._body, requests, faults)
        await self.access.prepare()
        headers, faults = self.headers("", self.path, body.betas, None)
        try:
            async with self.http.post(self.path, body.data, headers, faults) as answer:
                await self.access.check(answer)
                batch = await _object(answer, faults)
        except ProviderError as error:
            if was_refused(error):
                raise
            raise faults.in_doubt(error, "the batch") from error
        if not (id := as_text(batch.get("id"))):
            unnamed = faults.protocol(f"answered with what is not a batch: {faults.shown(_encode(batch))}")
            raise faults.in_doubt(unnamed, "the batch")
        extra: Mapping[str, Any] = {"notes": list(body.notes)} if body.notes else {}
        return BatchTicket(self.name, self.target, id, key, time(), extra)

    async def find(self, key: str, requests: Mapping[str, ModelRequest], since_s: float) -> BatchTicket | None:
        """Return the batch of *requests* that was sent since then. A batch shows its ids once it has ended."""
        unclear: list[str] = []
        async for batch, faults in self._listed(since_s - CLOCKS_S):
            id, counts = as_text(batch.get("id")), as_fields(batch.get("request_counts"))
            if sum(as_count(count) or 0 for count in counts.values()) != len(requests):
                continue
            ticket = BatchTicket(self.name, self.target, id, key, time())
            if batch.get("processing_status") != _ENDED:
                unclear.append(faults.shown(id))
            elif await self._is_of(ticket, requests):
                return ticket
        if unclear:
            _, faults = self.headers("", self.path, (), None)
            mend = "wait until they have ended, or look at them in the console"
            running = faults.protocol(f"does not say of which requests these batches are: {', '.join(unclear)}; {mend}")
            raise faults.in_doubt(running, f"the batch {key}")
        return None

    async def state(self, ticket: BatchTicket) -> BatchState:
        """Return how far the batch is."""
        batch, faults = await self._batch(ticket)
        counts = as_fields(batch.get("request_counts"))
        said = {name: as_count(count) or 0 for name, count in counts.items()}
        status, total = faults.shown(as_text(batch.get("processing_status"))), sum(said.values())
        done, running = said.get("succeeded", 0), said.get("processing", 0)
        return BatchState(status, status == _ENDED, total, done, total - done - running)

    async def results(
        self, ticket: BatchTicket, requests: Mapping[str, ModelRequest]
    ) -> AsyncGenerator[Sequence[BatchResult]]:
        """Yield the results of a batch that has ended; none before."""
        batch, _ = await self._batch(ticket)
        if batch.get("processing_status") != _ENDED:
            return
        left = dict.fromkeys(requests)
        async with aclosing(self._lines(ticket, requests)) as pages:
            async for page in pages:
                found = [result for result in page if result.id in left]
                for result in found:
                    del left[result.id]
                yield found
        if left:
            yield missing(left, _ENDED)

    async def cancel(self, ticket: BatchTicket) -> None:
        """End the batch."""
        path = f"{self._path(ticket)}/cancel"
        headers, faults = await self._asked_with(path)
        async with self.http.post(path, b"{}", headers, faults) as answer:
            if answer.status not in _OVER:
                await self.access.check(answer)
            await answer.drain()

    # ---- parts ---------------------------------------------------------------------------

    def _body(self, requests: Mapping[str, ModelRequest], faults: Faults) -> Body:
        """Return the batch of *requests*. Raises ProviderError; runs in a thread."""
        betas: dict[str, None] = {}
        notes: dict[str, None] = {}
        parts: list[bytes] = []
        size = 0
        for id, request in requests.items():
            if request.parameters.background:
                raise faults.unsendable(ValueError(f"'{id}': a batch is made in the background; leave out background"))
            body = encode_request(request, self.server, faults, stream=False)
            betas |= dict.fromkeys(body.betas)
            notes |= dict.fromkeys(body.notes)
            parts.append(b'{"custom_id":%b,"params":%b}' % (_encode(id), body.data))
            size += len(parts[-1]) + 1
            if size > MOST_BYTES:
                problem = f"the requests up to '{id}' have more than {MOST_BYTES:,} bytes; make two batches of it"
                raise faults.unsendable(ValueError(problem))
        return Body(b'{"requests":[%b]}' % b",".join(parts), tuple(betas), tuple(notes))

    async def _listed(self, since_s: float) -> AsyncGenerator[tuple[Object, Faults]]:
        query = {"limit": str(PAGE)}
        for _ in range(MOST_PAGES):
            headers, faults = await self._asked_with(self.path)
            async with self.http.get(self.path, headers, faults, query) as answer:
                await self.access.check(answer)
                page = await _object(answer, faults)
            try:
                batches = [as_fields(each) for each in as_list(page.get("data"), "data")]
            except MalformedError as error:
                raise faults.protocol(f"answered with what is no list of batches: {error}") from error
            for batch in batches:
                if _made_s(batch) >= since_s:
                    yield batch, faults
            if not batches or not page.get("has_more") or _made_s(batches[-1]) < since_s:
                return
            query["after_id"] = as_text(batches[-1].get("id"))

    async def _is_of(self, ticket: BatchTicket, requests: Mapping[str, ModelRequest]) -> bool:
        """Say whether an ended batch is that of *requests*: whether it has results of exactly these ids."""
        ids: set[str] = set()
        async with aclosing(self._lines(ticket, requests)) as pages:
            async for page in pages:
                ids |= {result.id for result in page}
        return ids == set(requests)

    async def _lines(
        self, ticket: BatchTicket, requests: Mapping[str, ModelRequest]
    ) -> AsyncGenerator[Sequence[BatchResult]]:
        path = f"{self._path(ticket)}/results"
        headers, faults = await self._asked_with(path)
        notes = tuple(map(str, ticket.extra.get("notes", ()) or ()))  # type: ignore[arg-type] # as it was made above

        def read(line: bytes) -> BatchResult | None:
            return _result(line, requests, faults, notes)

        async with self.http.get(path, headers, faults) as answer:
            await self._known(answer, ticket, faults)
            async for page in read_lines(answer, read, faults):
                yield page

    async def _batch(self, ticket: BatchTicket) -> tuple[Object, Faults]:
        path = self._path(ticket)
        headers, faults = await self._asked_with(path)
        async with self.http.get(path, headers, faults) as answer:
            await self._known(answer, ticket, faults)
            return await _object(answer, faults), faults

    async def _known(self, answer: Answer, ticket: BatchTicket, faults: Faults) -> None:
        if answer.status == _NOT_FOUND:
            await answer.read_some()
            problem = f"does not know the batch {faults.shown(ticket.id)}, or does not keep its results any more"
            raise faults.gone(f"{problem}: submit it again")
        await self.access.check(answer)

    def _path(self, ticket: BatchTicket) -> str:
        return f"{self.path}/{quote(ticket.id, safe='')}"

    async def _asked_with(self, path: str) -> tuple[dict[str, str], Faults]:
        await self.access.prepare()
        return self.headers("", path, (), None)


def _result(
    line: bytes, requests: Mapping[str, ModelRequest], faults: Faults, notes: tuple[str, ...]
) -> BatchResult | None:
    if not line.strip():
        return None
    try:
        said = _read_line(line)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise faults.protocol(f"sent a line that is no result: {error}: {faults.shown(line)}") from error
    id, result = said.custom_id, said.result
    request = requests.get(id)
    if request is None:
        return BatchResult(id, "failed")
    if result.type in _OUTCOMES:
        return BatchResult(id, _OUTCOMES[result.type], message=f"the request is {result.type}")  # type: ignore[arg-type]
    try:
        if result.type != "succeeded":
            raise faults.from_payload(_error_in(bytes(result.error)))
        batch, reply = Batch(), Reply()
        Events(request, faults, notes).take_whole(bytes(result.message), batch)
        reply.add(batch.done())
        return BatchResult(id, "done", reply.response())
    except ProviderError as error:
        return failed(id, error)
    except (MalformedError, RecursionError) as error:
        return failed(id, faults.protocol(f"sent a result that cannot be used: {error}: {faults.shown(line)}"))


def _error_in(data: bytes) -> Object:
    said = as_fields(decode_whole(data))
    return said if said.get("error") else {"error": said or "no reason given"}


def _made_s(batch: Object) -> float:
    try:
        return datetime.fromisoformat(as_text(batch.get("created_at"))).timestamp()
    except ValueError:
        return float("inf")  # it is looked at


async def _object(answer: Answer, faults: Faults) -> Object:
    data = await answer.read()
    try:
        return as_fields(decode_whole(data))
    except MalformedError as error:
        raise faults.protocol(f"answered with what is not JSON: {error}: {faults.shown(data)}") from error
