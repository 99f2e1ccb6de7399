"""Batches: requests as a file of JSON lines, found again by a key in the metadata, results as files.

https://developers.openai.com/docs/guides/batch
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from time import time
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import msgspec
from pluggent_hookspecs import BatchResult, BatchState, BatchTicket, ModelParameters, ModelRequest, ProviderError
from pluggent_provider_http.access import Access
from pluggent_provider_http.batch_results import MOST_BYTES as MOST_RESULT_BYTES, failed, missing, read_lines
from pluggent_provider_http.client import Client, was_refused
from pluggent_provider_http.multipart import Upload, form
from pluggent_provider_http.payload import MalformedError, Object, as_count, as_fields, as_list, as_text, decode_whole
from pluggent_provider_http.server_errors import Faults

from pluggent_openai.wire import Wire

if TYPE_CHECKING:  # as the client, which is handed over
    from pluggent_provider_http.client import Answer

__all__ = ["MOST_RESULT_BYTES", "OpenAIBatches"]

MOST_REQUESTS = 50_000
MOST_BYTES = 200_000_000
"""https://developers.openai.com/docs/guides/batch#rate-limits (November 2026): 50,000 requests, 200 MB."""
KEY = "pluggent_key"
"""The metadata that a batch is found by."""
PAGE = 100
MOST_PAGES = 100
CLOCKS_S = 3_600.0
"""How far the clocks here and there may be apart."""
_ENDED = frozenset({"failed", "completed", "expired", "cancelled"})
_OVER = frozenset({400, 404, 409})
_encode = msgspec.json.Encoder().encode

Headers = Callable[[str, str, "ModelParameters | None"], "tuple[dict[str, str], Faults]"]
WireOf = Callable[[ModelRequest], Wire]


class _Body(msgspec.Struct):
    status_code: int = 200
    body: msgspec.Raw = msgspec.Raw(b"null")


class _Problem(msgspec.Struct):
    code: str | None = None
    message: str | None = None


class _Line(msgspec.Struct):
    custom_id: str
    response: _Body | None = None
    error: _Problem | None = None


_read_line = msgspec.json.Decoder(_Line).decode


class OpenAIBatches:
    """The batches of one server. Methods are those of the contract's Batches."""

    def __init__(self, access: Access, name: str, target: str, wire_of: WireOf, http: Client, headers: Headers) -> None:
        self._access = access
        self._name = name
        self._target = target
        self._wire_of = wire_of
        self._http = http
        self._headers = headers

    async def submit(self, requests: Mapping[str, ModelRequest], key: str) -> BatchTicket:
        """Upload *requests* and make a batch of them."""
        headers, faults = await self._asked_with("/batches")
        if len(requests) > MOST_REQUESTS:
            raise faults.unsendable(
                ValueError(f"{len(requests):,} requests are more than the {MOST_REQUESTS:,} of a batch")
            )
        endpoint, notes, lines = await asyncio.to_thread(self._lines, requests, faults)
        file = await self._uploaded(lines, key, headers, faults)
        made = {"input_file_id": file, "endpoint": endpoint, "completion_window": "24h", "metadata": {KEY: key}}
        try:
            async with self._http.post("/batches", _encode(made), headers, faults) as answer:
                await self._access.check(answer)
                batch = await _object(answer, faults)
        except ProviderError as error:
            if was_refused(error):
                raise
            raise faults.in_doubt(error, "the batch") from error
        ticket = self._ticket(batch, key, notes)
        if not ticket.id:
            unnamed = faults.protocol(f"answered with what is not a batch: {faults.shown(_encode(batch))}")
            raise faults.in_doubt(unnamed, "the batch")
        return ticket

    async def find(self, key: str, since_s: float) -> BatchTicket | None:
        """Return the batch with *key* in its metadata."""
        headers, faults = await self._asked_with("/batches")
        query = {"limit": str(PAGE)}
        for _ in range(MOST_PAGES):
            async with self._http.get("/batches", headers, faults, query) as answer:
                await self._access.check(answer)
                page = await _object(answer, faults)
            batches = [as_fields(each) for each in _list(page.get("data"), faults)]
            for batch in batches:
                if as_text(as_fields(batch.get("metadata")).get(KEY)) == key:
                    return self._ticket(batch, key, ())
            created = [as_count(batch.get("created_at")) or 0 for batch in batches]
            if not batches or not page.get("has_more") or created[-1] < since_s - CLOCKS_S:
                return None
            query["after"] = as_text(batches[-1].get("id"))
        problem = f"has more than {MOST_PAGES * PAGE:,} batches since then"
        raise faults.in_doubt(faults.protocol(problem), f"the batch {key}")

    async def state(self, ticket: BatchTicket) -> BatchState:
        """Return how far the batch is."""
        batch, faults = await self._batch(ticket)
        return _state(batch, faults)

    async def results(
        self, ticket: BatchTicket, requests: Mapping[str, ModelRequest]
    ) -> AsyncGenerator[Sequence[BatchResult]]:
        """Yield what the files of the batch hold and, once it has ended, what they lack."""
        batch, faults = await self._batch(ticket)
        state = _state(batch, faults)
        left = dict.fromkeys(requests)
        notes = tuple(map(str, as_list(list(ticket.extra.get("notes", ()) or ()), "notes")))  # type: ignore[arg-type]
        for field in ("output_file_id", "error_file_id"):
            if not (file := as_text(batch.get(field))):
                continue
            path = f"/files/{quote(file, safe='')}/content"
            headers, faults = await self._asked_with(path)

            def read(line: bytes, faults: Faults = faults) -> BatchResult | None:
                result = self._result(line, requests, faults, notes)
                if result is None or result.id not in left:
                    return None
                del left[result.id]
                return result

            async with self._http.get(path, headers, faults) as answer:
                await _known(answer, ticket, faults, self._access)
                async for page in read_lines(answer, read, faults):
                    yield page
        if state.ended and left:
            why = f"{state.status}: {state.problem}" if state.problem else state.status
            yield missing(left, why)

    async def cancel(self, ticket: BatchTicket) -> None:
        """End the batch."""
        path = f"/batches/{quote(ticket.id, safe='')}/cancel"
        headers, faults = await self._asked_with(path)
        async with self._http.post(path, b"{}", headers, faults) as answer:
            if answer.status not in _OVER:
                await self._access.check(answer)
            await answer.drain()

    # ---- parts ---------------------------------------------------------------------------

    async def _asked_with(self, path: str) -> tuple[dict[str, str], Faults]:
        await self._access.prepare()
        return self._headers("", path, None)

    def _lines(self, requests: Mapping[str, ModelRequest], faults: Faults) -> tuple[str, tuple[str, ...], bytes]:
        """Return the endpoint, notes, and the file of *requests*. Raises ProviderError; runs in a thread."""
        endpoints: dict[str, str] = {}
        notes: dict[str, None] = {}
        lines: list[bytes] = []
        size = 0
        for id, request in requests.items():
            if request.parameters.background:
                raise faults.unsendable(ValueError(f"'{id}': a batch is made in the background; leave out background"))
            wire = self._wire_of(request)
            endpoints.setdefault(f"/v1{wire.path}", id)
            body = wire.encode(request, faults, stream=False)
            notes |= dict.fromkeys(body.notes)
            line = b'{"custom_id":%b,"method":"POST","url":%b,"body":%b}\n' % (
                _encode(id), _encode(f"/v1{wire.path}"), body.data
            )  # fmt: skip
            size += len(line)
            if size > MOST_BYTES:
                problem = (
                    f"the requests up to '{id}' have more than the {MOST_BYTES:,} bytes of a batch; make two of it"
                )
                raise faults.unsendable(ValueError(problem))
            lines.append(line)
        if len(endpoints) > 1:
            (one, first), (other, second) = list(endpoints.items())[:2]
            problem = f"'{first}' is for {one} and '{second}' for {other}; a batch is for one: set api for this model"
            raise faults.unsendable(ValueError(problem))
        return next(iter(endpoints)), tuple(notes), b"".join(lines)

    async def _uploaded(self, lines: bytes, key: str, headers: Mapping[str, str], faults: Faults) -> str:
        content_type, body = form({"purpose": "batch"}, [Upload("file", f"{key}.jsonl", "application/jsonl", lines)])
        typed = {**headers, "content-type": content_type}
        async with self._http.post("/files", body, typed, faults) as answer:
            await self._access.check(answer)
            file = await _object(answer, faults)
        if not (id := as_text(file.get("id"))):
            raise faults.protocol(f"answered with what is not a file: {faults.shown(_encode(file))}")
        return id

    async def _batch(self, ticket: BatchTicket) -> tuple[Object, Faults]:
        path = f"/batches/{quote(ticket.id, safe='')}"
        headers, faults = await self._asked_with(path)
        async with self._http.get(path, headers, faults) as answer:
            await _known(answer, ticket, faults, self._access)
            return await _object(answer, faults), faults

    def _result(
        self, line: bytes, requests: Mapping[str, ModelRequest], faults: Faults, notes: tuple[str, ...]
    ) -> BatchResult | None:
        if not line.strip():
            return None
        try:
            said = _read_line(line)
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise faults.protocol(f"sent a line that is no result: {error}: {faults.shown(line)}") from error
        request = requests.get(said.custom_id)
        if request is None:
            return None
        if said.response is None:
            return _without_answer(said.custom_id, said.error or _Problem())
        data = bytes(said.response.body)
        if said.response.status_code not in range(200, 300):
            return failed(said.custom_id, faults.from_status(said.response.status_code, {}, data))
        try:
            return BatchResult(said.custom_id, "done", self._wire_of(request).read(data, request, faults, notes))
        except ProviderError as error:
            return failed(said.custom_id, error)

    def _ticket(self, batch: Object, key: str, notes: tuple[str, ...]) -> BatchTicket:
        extra: Mapping[str, Any] = {"notes": list(notes)} if notes else {}
        return BatchTicket(self._name, self._target, as_text(batch.get("id")), key, time(), extra)


def _without_answer(id: str, problem: _Problem) -> BatchResult:
    code, message = problem.code or "", problem.message or problem.code or "no reason given"
    outcome = "expired" if "expired" in code else "cancelled" if "cancel" in code else "failed"
    return BatchResult(id, outcome, message=message[:500])  # type: ignore[arg-type] # one of the three


def _state(batch: Object, faults: Faults) -> BatchState:
    counts = as_fields(batch.get("request_counts"))
    status = as_text(batch.get("status"))
    problems = _list_or_none(as_fields(batch.get("errors")).get("data"))
    said = [as_text(as_fields(each).get("message")) for each in problems]
    total, done, failures = (as_count(counts.get(name)) or 0 for name in ("total", "completed", "failed"))
    return BatchState(
        faults.shown(status), status in _ENDED, total, done, failures, faults.shown("; ".join(filter(None, said[:5])))
    )


def _list_or_none(value: object) -> list[Any]:
    try:
        return as_list(value, "data")
    except MalformedError:
        return []


async def _known(answer: Answer, ticket: BatchTicket, faults: Faults, access: Access) -> None:
    if answer.status == 404:  # noqa: PLR2004
        await answer.read_some()
        problem = f"does not know the batch {faults.shown(ticket.id)}, or does not keep its results any more"
        raise faults.gone(f"{problem}: submit it again")
    await access.check(answer)


async def _object(answer: Answer, faults: Faults) -> Object:
    data = await answer.read()
    try:
        return as_fields(decode_whole(data))
    except MalformedError as error:
        raise faults.protocol(f"answered with what is not JSON: {error}: {faults.shown(data)}") from error


def _list(value: object, faults: Faults) -> list[Any]:
    try:
        return as_list(value, "data")
    except MalformedError as error:
        raise faults.protocol(f"answered with what is no list of batches: {error}") from error
