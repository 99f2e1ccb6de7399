"""A server on loopback that makes Responses in the background as OpenAI does: kept, streamed again, cancelled.

The first part of a path names an account, so that one server serves many tests, or many processes of one.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

import attrs
from pluggent_hookspecs import Message, ModelResponse, Usage

from pluggent_testing.wires.formats.responses import ResponsesWire
from pluggent_testing.wires.http_server import LoopbackServer, Received, Step, Steps, answer, chunked

SSE = "text/event-stream"
USAGE = Usage(input=10, output=5)
Replies = Callable[[Any], ModelResponse]
"""Makes the reply to the body of a request."""


def said(_: Any) -> ModelResponse:
    """Return a reply of three words."""
    return ModelResponse(Message.assistant("it is done"), usage=USAGE, model="m")


@attrs.define(eq=False)
class Account:
    """What one account has: ``bodies`` by id are the replies that it pays for.

    The next answers are as ``cuts`` say: so many events and then an end of the connection, -1 without a word, None
    whole. ``status`` refuses every request. ``plain``: there are no streams, and a reply is whole when it was asked
    about so often. ``queued``: no reply is ever begun. ``forgets``: nothing is kept.
    """

    bodies: dict[str, Any] = attrs.field(factory=dict[str, Any])
    cancelled: list[str] = attrs.field(factory=list[str])
    cuts: list[int | None] = attrs.field(factory=list["int | None"])
    status: int = 0
    plain: int = 0
    queued: bool = False
    forgets: bool = False
    gap: int = 0
    """The number of an event that is left out."""


class ResponsesServer:
    """The server; a context manager. *replies* makes what is answered."""

    def __init__(self, replies: Replies = said) -> None:
        self._replies = replies
        self._server = LoopbackServer(self._plan)
        self._wire = ResponsesWire()
        self.accounts: dict[str, Account] = defaultdict(Account)

    def __enter__(self) -> Self:
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
    def requests(self) -> Sequence[Received]:
        """The requests that have come."""
        return self._server.requests

    def _plan(self, request: Received) -> Steps:
        parts = urlsplit(request.path)
        _, name, _, *rest = parts.path.split("/")
        account, query = self.accounts[name], parse_qs(parts.query)
        if account.status:
            return answer(_json({"error": {"message": "no", "code": "x"}}), account.status)
        match request.method, rest:
            case "POST", ["responses"]:
                return self._submitted(account, request.json)
            case "GET", ["responses", id] if id in account.bodies and not account.forgets:
                return self._shown(account, id, query)
            case "POST", ["responses", id, "cancel"] if id in account.bodies and not account.forgets:
                account.cancelled.append(id)
                return answer(self._whole(account, id))
            case _:
                return answer(_json({"error": {"message": "Response not found", "code": "not_found"}}), 404)

    def _submitted(self, account: Account, body: Any) -> Steps:
        assert body["background"] is True
        assert body["store"] is True
        id = f"resp_{len(account.bodies) + 1}"
        account.bodies[id] = body
        if account.plain:
            cut = account.cuts.pop(0) if account.cuts else None
            return (Step.CLOSE,) if cut is not None else answer(self._whole(account, id))
        return self._stream(account, id, -1)

    def _shown(self, account: Account, id: str, query: dict[str, list[str]]) -> Steps:
        streams = query.get("stream") == ["true"]
        if streams and account.plain:
            return answer(_json({"error": {"message": "was not created with stream=true", "code": "x"}}), 400)
        if streams:
            return self._stream(account, id, int(query.get("starting_after", ["-1"])[0]))
        account.plain -= account.plain > 1
        return answer(self._whole(account, id))

    def _stream(self, account: Account, id: str, after: int) -> Steps:
        events = self._events(account, id)[after + 1 :]
        cut = account.cuts.pop(0) if account.cuts else None
        if cut is None:
            return chunked(SSE, [*events, *([Step.HANG] if account.queued else [])])
        return (Step.CLOSE,) if cut < 0 else chunked(SSE, events[:cut], ends=False)

    def _events(self, account: Account, id: str) -> list[bytes]:
        events = self._wire.events(attrs.evolve(self._replies(account.bodies[id]), id=id))
        if account.queued:
            frame = {**json.loads(self._whole(account, id)), "status": "queued"}
            return [_event({"type": "response.created", "response": frame, "sequence_number": 0})]
        if id in account.cancelled:
            frame = json.loads(self._whole(account, id))
            return [_event({"type": "response.cancelled", "response": frame, "sequence_number": 0})]
        return [event for number, event in enumerate(events) if not account.gap or number != account.gap]

    def _whole(self, account: Account, id: str) -> bytes:
        whole = json.loads(self._wire.whole(attrs.evolve(self._replies(account.bodies[id]), id=id)))
        if id in account.cancelled:
            return _json({**whole, "status": "cancelled", "output": [], "usage": None})
        if account.queued or account.plain > 1:
            return _json({**whole, "status": "queued" if account.queued else "in_progress", "output": []})
        return _json(whole)


class ResponsesVendor(ResponsesServer):
    """The same as the vendor of TicketConformance: its one account is ``a``."""

    secret = "sk-7f3a-secret"  # noqa: S105 (the suite's own)
    reply = said(None)

    @property
    def account(self) -> Account:
        """The account."""
        return self.accounts["a"]

    @property
    def paid(self) -> int:
        """How many replies it has begun."""
        return len(self.account.bodies)

    @property
    def cancelled(self) -> int:
        """How many were cancelled."""
        return len(self.account.cancelled)

    @property
    def events(self) -> int:
        """How many events the reply has."""
        return 0 if self.account.plain else len(self._wire.events(self.reply))

    def cut(self, *events: int) -> None:
        """End each of the next streams behind so many events."""
        self.account.cuts = list(events)

    def lose(self) -> None:
        """Take the next submission and hang up."""
        self.account.cuts = [-1]

    def refuse(self) -> None:
        """Refuse every request."""
        self.account.status = 400

    def forget(self) -> None:
        """Keep no reply any more."""
        self.account.forgets = True


def _event(value: Any) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (value["type"].encode(), _json(value))


def _json(value: object) -> bytes:
    return json.dumps(value).encode()
