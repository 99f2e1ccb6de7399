"""A chat completions server on loopback that judges keys as vendors do, for commands in processes of their own."""

from __future__ import annotations

import json
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

GOOD, POOR, NARROW = "sk-good-1234567890abcdef", "sk-poor-1234567890abcdef", "sk-narrow-1234567890abcdef"
"""Keys: one that may do all, one whose account is empty, one that may not list models."""
MODELS = ("old-one", "embed-small", "chat-large", "chat-small", *(f"other-{number}" for number in range(20)))
"""The later ones are newer."""
HELLO = "Hello \x1b[2J there!"
_USAGE = {"prompt_tokens": 12, "completion_tokens": 4, "total_tokens": 16}
_REFUSED = {
    401: ("Incorrect API key provided: sk-*****.", "invalid_api_key"),
    403: ("You have insufficient permissions. Missing scopes: api.model.read", "missing_scope"),
    429: ("You exceeded your current quota, please check your plan and billing details.", "insufficient_quota"),
    404: ("This is not a chat model.", "model_not_found"),
}


class Vendor(ThreadingHTTPServer):
    """``requests`` are the lines and keys that came. It lists *models*. *keyless*: every key is right, none too.

    ``more`` is what it says of each model besides.
    """

    def __init__(self, *, keyless: bool, models: Sequence[str]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.more: Mapping[str, Any] = {}
        self.models = models
        self.keyless = keyless
        self.requests: list[tuple[str, str]] = []

    @property
    def url(self) -> str:
        """The base URL."""
        return f"http://127.0.0.1:{self.server_address[1]}/v1"


class _Handler(BaseHTTPRequestHandler):
    @property
    def _vendor(self) -> Vendor:
        assert isinstance(self.server, Vendor)
        return self.server

    def log_message(self, format: str, *_: object) -> None:
        """Log nothing."""

    def do_GET(self) -> None:
        key = self._key()
        if not self._vendor.keyless and key not in (GOOD, POOR):
            self._refuse(403 if key == NARROW else 401)
            return
        listed = [
            {"id": name, "object": "model", "created": number, **self._vendor.more}
            for number, name in enumerate(self._vendor.models)
        ]
        self._send(200, {"object": "list", "data": listed})

    def do_POST(self) -> None:
        key = self._key()
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if not self._vendor.keyless and key not in (GOOD, NARROW):
            self._refuse(429 if key == POOR else 401)
        elif asked["model"].startswith("embed"):
            self._refuse(404)
        else:
            self._stream(asked["model"]) if asked.get("stream") else self._answer(asked["model"])

    def _key(self) -> str:
        key = self.headers.get("authorization", "").removeprefix("Bearer ")
        self._vendor.requests.append((self.requestline, key))
        return key

    def _refuse(self, status: int) -> None:
        message, code = _REFUSED[status]
        kind = code if status == 429 else "invalid_request_error"
        self._send(status, {"error": {"message": message, "type": kind, "param": None, "code": code}})

    def _answer(self, model: str) -> None:
        message = {"role": "assistant", "content": HELLO}
        choices = [{"index": 0, "message": message, "finish_reason": "stop"}]
        self._send(200, {"id": "c", "model": model, "choices": choices, "usage": _USAGE})

    def _stream(self, model: str) -> None:
        parts: list[dict[str, Any]] = [
            {"choices": [{"index": 0, "delta": {"role": "assistant", "content": HELLO}}]},
            {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
            {"choices": [], "usage": _USAGE},
        ]
        common = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": model}
        lines = [f"data: {json.dumps({**common, **part})}\n\n" for part in parts]
        self._send(200, "".join([*lines, "data: [DONE]\n\n"]).encode(), "text/event-stream")

    def _send(self, status: int, content: Mapping[str, Any] | bytes, kind: str = "application/json") -> None:
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@contextmanager
def vendor(*, keyless: bool = False, models: Sequence[str] = MODELS) -> Generator[Vendor]:
    """Yield a server that runs."""
    with Vendor(keyless=keyless, models=models) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
