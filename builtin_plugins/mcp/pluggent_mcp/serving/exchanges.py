"""Questions to a client in the protocol of 2026-07-28, in which a server may not ask by itself.

There a request that needs an answer first is answered with the question, and the client repeats it
with the answer and the state of the question. The original request has a task of its own, which
waits here meanwhile. The random state is required to continue it.
"""

from __future__ import annotations

import asyncio
import json
import secrets
from contextvars import ContextVar
from typing import Any, Generic, TypeAlias, TypeVar

import anyio
import attrs
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    CreateMessageRequest,
    ElicitRequest,
    InputRequiredResult,
    ListRootsRequest,
)
from mcp_types.methods import INPUT_REQUIRED_METHODS
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import BaseModel, ValidationError

LONGEST_CLIENT = 64
"""Characters of the name of a client: more are kept nowhere."""
KEPT_S = 60.0
"""How long the result of a request is kept for a client that has not answered its question."""
MOST_WAITING = 64
"""Requests that may wait for answers of their clients; beyond that no question is sent."""
FORGOTTEN = "nothing waits under that requestState: it was answered, or its time is over. Ask anew, without it"
ANOTHER = "that requestState belongs to another request"
_OF_A_ROUND = frozenset({"inputResponses", "requestState", "_meta"})

Context: TypeAlias = ServerRequestContext[Any, Any]
Request: TypeAlias = ElicitRequest | CreateMessageRequest | ListRootsRequest
A = TypeVar("A", bound=BaseModel)

_CURRENT: ContextVar[Exchange | None] = ContextVar("pluggent_mcp_exchange", default=None)


def current() -> Exchange | None:
    """Return the exchange of this context; None in protocols where a server may send requests."""
    return _CURRENT.get()


_KEYS: dict[type[Request], str] = {ElicitRequest: "person", CreateMessageRequest: "model", ListRootsRequest: "roots"}


class Question(Generic[A]):
    """A question to a client with the future for its answer, an object of *answers*."""

    def __init__(self, request: Request, answers: type[A]) -> None:
        self.request = request
        self.key = _KEYS[type(request)]
        """Under which the client is asked: a round has one question."""
        self.answer: asyncio.Future[A | None] = asyncio.get_running_loop().create_future()
        self._answers = answers

    def answered(self, given: object) -> None:
        """Set what was *given* as the answer, None if it is not one, unless one is set already."""
        if self.answer.done():
            return
        try:
            self.answer.set_result(self._answers.model_validate(given, by_name=False))
        except ValidationError:
            self.answer.set_result(None)


@attrs.frozen(eq=False)
class _PendingExchange:
    """A request whose client was asked *question*; ``forgetting`` removes it after a time."""

    exchange: Exchange
    question: Question[Any]
    forgetting: asyncio.Task[None]


class Exchange:
    """One request of a client, from its first round to its last. ``context`` is that of the round that is open."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.about = _about(context)
        self._task: asyncio.Task[HandlerResult] | None = None
        self._one_at_a_time = asyncio.Lock()
        self._changed = asyncio.Event()
        self._question: Question[Any] | None = None

    @property
    def task(self) -> asyncio.Task[HandlerResult]:
        """The task of the request."""
        assert self._task is not None
        return self._task

    def begin(self, call_next: CallNext) -> None:
        """Start handling the request in a task of its own."""

        async def handle() -> HandlerResult:
            _CURRENT.set(self)  # for this task alone
            return await call_next(self.context)

        self._task = asyncio.create_task(handle(), name="pluggent-mcp-exchange")
        self._task.add_done_callback(lambda _: self._changed.set())

    async def ask(self, request: Request, answers: type[A]) -> A | None:
        """Ask the client; return None if the reply is not one of *answers*."""
        async with self._one_at_a_time:
            asked = self._question = Question(request, answers)
            self._changed.set()
            try:
                return await asked.answer
            finally:
                self._question = None

    async def round(self) -> Question[Any] | None:
        """Wait for the next question, or for the end: None. A cancellation ends the exchange."""
        try:
            while not (self.task.done() or self._open is not None):
                self._changed.clear()
                await self._changed.wait()
        except asyncio.CancelledError:
            await self.end()
            raise
        return None if self.task.done() else self._open

    @property
    def _open(self) -> Question[Any] | None:
        """The question without an answer yet."""
        return self._question if self._question is not None and not self._question.answer.done() else None

    async def end(self) -> None:
        """Cancel what still runs, and wait for it."""
        self.task.cancel()
        # The SDK cancels again and again until its scope is left.
        with anyio.CancelScope(shield=True):
            await asyncio.wait((self.task,))


class Exchanges:
    """Middleware for all requests of the SDK's server."""

    def __init__(self, kept_s: float = KEPT_S) -> None:
        self._kept_s = kept_s
        self._waiting: dict[str, _PendingExchange] = {}

    @property
    def waiting(self) -> int:
        """How many requests wait for their clients to come back."""
        return len(self._waiting)

    async def __call__(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        """Answer a request, with a question if one is open. Raises MCPError."""
        asks = ctx.protocol_version in MODERN_PROTOCOL_VERSIONS and ctx.method in INPUT_REQUIRED_METHODS
        if not asks or ctx.request_id is None:
            return await call_next(ctx)
        state = (ctx.params or {}).get("requestState")
        if state is None and not (can_answer(ctx) or can_sample(ctx) or can_list_roots(ctx)):
            return await call_next(ctx)  # the task of an exchange is for questions
        if state is None:
            exchange = Exchange(ctx)
            exchange.begin(call_next)
        else:
            exchange = self._resumed(state, ctx)
        while (question := await exchange.round()) is not None:
            if len(self._waiting) < MOST_WAITING:
                return self._ask_client(exchange, question)
            question.answered(None)
        return exchange.task.result()

    async def aclose(self) -> None:
        """End all that waits for a client to come back."""
        waiting = [*self._waiting.values()]
        self._waiting.clear()
        for each in waiting:
            each.forgetting.cancel()
        await asyncio.gather(*(each.exchange.end() for each in waiting))

    def _ask_client(self, exchange: Exchange, question: Question[Any]) -> HandlerResult:
        state = secrets.token_urlsafe(32)
        forgetting = asyncio.create_task(self._forget(state, exchange), name="pluggent-mcp-exchange-end")
        self._waiting[state] = _PendingExchange(exchange, question, forgetting)
        asked = InputRequiredResult(input_requests={question.key: question.request}, request_state=state)
        return asked.model_dump(by_alias=True, mode="json", exclude_none=True)

    def _resumed(self, state: object, context: Context) -> Exchange:
        found = self._waiting.get(state) if isinstance(state, str) else None
        if found is None:
            raise MCPError(INVALID_PARAMS, FORGOTTEN)
        if found.exchange.about != _about(context):
            raise MCPError(INVALID_PARAMS, ANOTHER)
        del self._waiting[str(state)]
        found.forgetting.cancel()
        found.exchange.context = context
        # If that question is closed and another one is open, that one is sent now.
        found.question.answered(_answer_in(context, found.question.key))
        return found.exchange

    async def _forget(self, state: str, exchange: Exchange) -> None:
        """Remove the exchange of *state* if its client does not return within some time after its end."""
        # The host sets the deadline of an answer and continues without one.
        await asyncio.wait((exchange.task,))
        await asyncio.sleep(self._kept_s)
        del self._waiting[state]
        if not exchange.task.cancelled():
            exchange.task.exception()  # retrieved, or asyncio would warn


def can_answer(context: Context) -> bool:
    """Return whether the client of *context* says that its person answers forms."""
    can = context.session.client_capabilities
    modes = can.elicitation if can is not None else None
    # Without any mode it is the older way of saying that there are forms.
    return modes is not None and (modes.form is not None or modes.url is None)


def can_sample(context: Context) -> bool:
    """Return whether the client of *context* says that it has a model to be asked."""
    can = context.session.client_capabilities
    return can is not None and can.sampling is not None


def can_list_roots(context: Context) -> bool:
    """Return whether the client of *context* says that it lists the folders that it works in."""
    can = context.session.client_capabilities
    return can is not None and can.roots is not None


def session_of(context: Context) -> str:
    """Return the client's session over HTTP, empty for the one client of a pipe."""
    headers = getattr(context.request, "headers", None)
    return "" if headers is None else str(headers.get("mcp-session-id", ""))


def client_of(context: Context) -> str:
    """Return what the client of *context* calls itself, cut to what counts; empty if it does not say."""
    params = context.session.client_params
    return params.client_info.name[:LONGEST_CLIENT] if params is not None else ""


def _about(context: Context) -> str:
    """Return what must be equal in all rounds of a request."""
    given = {key: value for key, value in (context.params or {}).items() if key not in _OF_A_ROUND}
    return json.dumps([context.method, client_of(context), given], sort_keys=True)


def _answer_in(context: Context, key: str) -> object:
    try:
        return (context.params or {})["inputResponses"][key]
    except (TypeError, LookupError):
        return None
