"""Servers on loopback that take batches as OpenAI and Anthropic do: submitted, listed, read, cancelled.

The first part of a path names an account, so that one server serves many tests, or many processes of one.
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime
from time import time
from types import TracebackType
from typing import Any, ClassVar
from urllib.parse import unquote, urlsplit

import attrs
from pluggent_hookspecs import Message, ModelResponse, Usage

from pluggent_testing.wires.formats.anthropic import AnthropicWire
from pluggent_testing.wires.formats.openai import OpenAIWire
from pluggent_testing.wires.formats.responses import ResponsesWire
from pluggent_testing.wires.http_server import LoopbackServer, Received, Step, Steps, answer

SECRET = "sk-7f3a-secret"  # noqa: S105 (the suite's own)


@attrs.define(eq=False)
class _Batch:
    id: str
    requests: dict[str, Any]
    metadata: dict[str, str] = attrs.field(factory=dict[str, str])
    created: int = attrs.field(factory=lambda: int(time()))
    status: str = "in_progress"


@attrs.define(eq=False)
class Account:
    """What one account has. ``batches`` is what it pays for, by id; ``files`` cost nothing."""

    batches: dict[str, _Batch] = attrs.field(factory=dict[str, _Batch])
    files: dict[str, bytes] = attrs.field(factory=dict[str, bytes])
    cancelled: list[str] = attrs.field(factory=list[str])
    loses: bool = False
    status: int = 0
    ends: bool = False
    """Whether a batch has ended as soon as it was submitted."""


class BatchServer(ABC):
    """What both servers share; a context manager. It answers ``say X`` with X, and refuses ``fail``."""

    secret = SECRET
    finds: ClassVar[bool] = True
    ended: ClassVar[str]

    def __init__(self) -> None:
        self._server = LoopbackServer(self._plan)
        self.accounts: dict[str, Account] = defaultdict(Account)

    def __enter__(self) -> Any:
        self._server.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.__exit__(kind, error, trace)

    def url(self, account: str = "a") -> str:
        """Return the base URL of *account*."""
        return f"{self._server.origin}/{account}/v1"

    @property
    def origin(self) -> str:
        """Scheme, host and port."""
        return self._server.origin

    # ---- the vendor of BatchConformance --------------------------------------------------

    @property
    def account(self) -> Account:
        """The account ``a``."""
        return self.accounts["a"]

    @property
    def paid(self) -> int:
        """How many batches were begun."""
        return len(self.account.batches)

    @property
    def cancelled(self) -> int:
        """How many batches were cancelled."""
        return len(self.account.cancelled)

    def lose(self) -> None:
        """Take the next batch and hang up."""
        self.account.loses = True

    def refuse(self) -> None:
        """Refuse every request."""
        self.account.status = 400

    def end(self) -> None:
        """End every batch."""
        for batch in self.account.batches.values():
            batch.status = self.ended

    # ---- answering -----------------------------------------------------------------------

    def _plan(self, request: Received) -> Steps:
        parts = urlsplit(request.path)
        _, name, _, *rest = parts.path.split("/")
        account = self.accounts[name]
        if account.status:
            return _answer({"error": {"message": "no", "type": "invalid_request_error"}}, account.status)
        return self._served(account, request, [unquote(each) for each in rest])

    @abstractmethod
    def _served(self, account: Account, request: Received, path: list[str]) -> Steps:
        """Return the answer to *request*, which asks for *path* below the base URL of *account*."""

    def _begun(self, account: Account, batch: _Batch) -> Steps:
        account.batches[batch.id] = batch
        batch.status = self.ended if account.ends else batch.status
        if account.loses:
            account.loses = False
            return (Step.CLOSE,)
        return _answer(self._shown(batch))

    @abstractmethod
    def _shown(self, batch: _Batch) -> Any:
        """Return *batch* as the vendor shows it."""


def _reply(text: str, usage: Usage) -> ModelResponse:
    return ModelResponse(Message.assistant(text.removeprefix("say ")), usage=usage, model="m", id="r")


def _last_text(body: Any) -> str:
    """Return what the user says last in the body of a request."""
    said = (body.get("input") or body.get("messages"))[-1]["content"]
    return said if isinstance(said, str) else str(said[-1]["text"])


class OpenAIBatchServer(BatchServer):
    """``/files`` and ``/batches``."""

    ended = "completed"

    def _served(self, account: Account, request: Received, path: list[str]) -> Steps:
        match request.method, path:
            case "POST", ["files"]:
                id = f"file_{len(account.files) + 1}"
                account.files[id] = _file_in(request)
                return _answer({"id": id, "object": "file", "purpose": "batch"})
            case "POST", ["batches"]:
                given = request.json
                assert given["completion_window"] == "24h"
                lines = [json.loads(line) for line in account.files[given["input_file_id"]].splitlines()]
                assert {line["url"] for line in lines} == {given["endpoint"]}
                requests = {line["custom_id"]: (line["url"], line["body"]) for line in lines}
                id = f"batch_{len(account.batches) + 1}"
                return self._begun(account, _Batch(id, requests, given["metadata"]))
            case "GET", ["batches"]:
                batches = [self._shown(batch) for batch in reversed(account.batches.values())]
                return _answer({"object": "list", "data": batches, "has_more": False})
            case "GET", ["batches", id] if id in account.batches:
                return _answer(self._shown(account.batches[id]))
            case "POST", ["batches", id, "cancel"] if id in account.batches:
                account.cancelled.append(id)
                account.batches[id].status = "cancelled"
                return _answer(self._shown(account.batches[id]))
            case "GET", ["files", name, "content"] if name.partition("-")[2] in account.batches:
                good = name.startswith("out")
                lines = list(self._lines(account.batches[name.partition("-")[2]], good=good))
                return answer(b"\n".join(lines), kind="application/octet-stream")
            case _:
                return _answer({"error": {"message": "No such object", "type": "invalid_request_error"}}, 404)

    def _shown(self, batch: _Batch) -> Any:
        done = batch.status == "completed"
        return {
            "id": batch.id, "object": "batch", "status": batch.status, "metadata": batch.metadata,
            "created_at": batch.created, "request_counts": {"total": len(batch.requests), "completed": 0, "failed": 0},
            "output_file_id": f"out-{batch.id}" if done else None,
            "error_file_id": f"err-{batch.id}" if done else None,
        }  # fmt: skip

    def _lines(self, batch: _Batch, *, good: bool) -> Iterator[bytes]:
        for id, (url, body) in reversed(batch.requests.items()):
            text = _last_text(body)
            if (text != "fail") is not good:
                continue
            wire = ResponsesWire() if url.endswith("/responses") else OpenAIWire()
            whole: Any = json.loads(wire.whole(_reply(text, Usage(input=10, output=5))))
            if not good:
                whole = {"error": {"message": "it does not like that", "type": "invalid_request_error"}}
            response = {"status_code": 200 if good else 400, "request_id": "q", "body": whole}
            yield json.dumps({"id": "l", "custom_id": id, "response": response, "error": None}).encode()


class AnthropicBatchServer(BatchServer):
    """``/v1/messages/batches``: batches have no metadata, and show ids of requests in their results alone."""

    ended = "ended"
    finds = False

    def _served(self, account: Account, request: Received, path: list[str]) -> Steps:
        match request.method, path:
            case "POST", ["messages", "batches"]:
                requests = {each["custom_id"]: each["params"] for each in request.json["requests"]}
                return self._begun(account, _Batch(f"msgbatch_{len(account.batches) + 1}", requests))
            case "GET", ["messages", "batches"]:
                batches = [self._shown(batch) for batch in reversed(account.batches.values())]
                return _answer({"data": batches, "has_more": False, "first_id": None, "last_id": None})
            case "GET", ["messages", "batches", id] if id in account.batches:
                return _answer(self._shown(account.batches[id]))
            case "POST", ["messages", "batches", id, "cancel"] if id in account.batches:
                account.cancelled.append(id)
                account.batches[id].status = "ended"
                return _answer(self._shown(account.batches[id]))
            case "GET", ["messages", "batches", id, "results"] if id in account.batches:
                lines = list(self._lines(account, account.batches[id]))
                return answer(b"\n".join(lines), kind="application/x-jsonl")
            case _:
                return _answer({"type": "error", "error": {"type": "not_found_error", "message": "Not found"}}, 404)

    def _shown(self, batch: _Batch) -> Any:
        number = len(batch.requests)
        done = batch.status == "ended"
        counts = {"processing": 0 if done else number, "succeeded": number if done else 0, "errored": 0}
        made = datetime.fromtimestamp(batch.created, UTC).isoformat()
        return {
            "id": batch.id, "type": "message_batch", "processing_status": batch.status, "created_at": made,
            "request_counts": {**counts, "canceled": 0, "expired": 0}, "results_url": None,
        }  # fmt: skip

    def _lines(self, account: Account, batch: _Batch) -> Iterator[bytes]:
        for id, body in reversed(batch.requests.items()):
            text = _last_text(body)
            if batch.id in account.cancelled:
                result: Any = {"type": "canceled"}
            elif text == "fail":
                error = {"type": "invalid_request_error", "message": "it does not like that"}
                result = {"type": "errored", "error": {"type": "error", "error": error}}
            else:
                message = json.loads(AnthropicWire().whole(_reply(text, Usage(input=10, output=5))))
                result = {"type": "succeeded", "message": message}
            yield json.dumps({"custom_id": id, "result": result}).encode()


def _file_in(request: Received) -> bytes:
    """Return the file in a multipart form."""
    found = re.search(rb"boundary=(.+)", request.headers["content-type"].encode())
    assert found is not None
    parts = request.body.split(b"--" + found[1])
    (file,) = [part for part in parts if b'name="file"' in part]
    return file.partition(b"\r\n\r\n")[2].removesuffix(b"\r\n")


def _answer(value: Any, status: int = 200) -> Steps:
    return answer(json.dumps(value).encode(), status)
