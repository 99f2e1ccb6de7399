"""A filter between a transport and the SDK: drops floods and unsolicited responses, removes invalid tools.

The SDK's client refuses a whole list for one invalid tool. So lists are cleaned here, before it
sees them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Any, Self, cast

import anyio
from mcp.shared.message import SessionMessage
from mcp_types import (
    CLIENT_CAPABILITIES_META_KEY,
    CONNECTION_CLOSED,
    ErrorData,
    JSONRPCError,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    Tool,
    methods,
)
from pydantic import ValidationError

from pluggent_mcp.client.http_transport import PendingRequest, as_current, current
from pluggent_mcp.client.status import ServerStatus

BURST = 1_000
REFILL = 500.0
"""Unsolicited messages a second beyond ``BURST``; more are dropped."""
MOST_DROPPED = 5_000
"""Dropped messages after which the connection is ended."""
UNSOLICITED = "it answered a request that was never made (id {!r})"
MOST_UNSOLICITED = 100
"""Responses to requests that were never made after which the connection is ended."""

_HINTS = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")


class GuardedTransport:
    """A transport around another. ``version`` is the protocol that was agreed on, None before that."""

    def __init__(
        self,
        inner: AbstractAsyncContextManager[tuple[Any, Any]],
        status: ServerStatus,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._inner = inner
        self._status = status
        self.version: str | None = None
        self._clock = clock
        self.outputs: dict[str, dict[str, Any]] = {}
        """The schemas of results, by tool. The SDK does not check them: a regular expression could block it."""
        self._lists: set[str] = set()
        self._posts: dict[str, PendingRequest] = {}
        self._last_id = 0
        self._allowance = float(BURST)
        self._dropped = self._unsolicited = 0
        self._seen_at = clock()

    async def __aenter__(self) -> tuple[Any, Any]:
        read, write = await self._inner.__aenter__()
        return ReceiveStream(read, self), SendStream(write, self)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return await self._inner.__aexit__(kind, error, trace)

    @property
    def over(self) -> bool:
        return self._status.ended.is_set()

    def closed(self) -> None:
        """Record that the transport has ended, unless it gave a reason itself."""
        self._status.end("its connection ended")

    def sent(self, item: SessionMessage) -> PendingRequest | None:
        """Register a request, so that unsolicited responses are detected and cancelled requests are abandoned."""
        message = item.message
        if isinstance(message, JSONRPCRequest):
            if isinstance(message.id, int):
                self._last_id = max(self._last_id, message.id)
            if message.method == "tools/list":
                self._lists.add(str(message.id))
            _without_pages(message.params or {})
            post = self._posts[str(message.id)] = PendingRequest(id=message.id)
            return post
        if isinstance(message, JSONRPCNotification) and message.method == "notifications/cancelled":
            self._abandon(str((message.params or {}).get("requestId")))
        return None

    def _abandon(self, id: str) -> None:
        post = self._posts.pop(id, None)
        if post is not None:
            post.abandon()

    def passed(self, item: SessionMessage | Exception, post: PendingRequest | None = None) -> bool:
        """Return whether the SDK may see *item*, which arrived for *post*; may end the connection."""
        if isinstance(item, Exception):
            return True
        message = item.message
        if isinstance(message, JSONRPCResponse | JSONRPCError):
            if self._is_unsolicited(message.id):
                return self._answered_nothing(item, str(message.id)[:40], post)
            self._posts.pop(str(message.id), None)
            if isinstance(message, JSONRPCResponse) and str(message.id) in self._lists:
                self._lists.discard(str(message.id))
                message.result = self._cleaned(message.result)
            return True
        return not self._is_flooding()

    def _is_unsolicited(self, id: str | int | None) -> bool:
        if id is None:
            return False  # a request that it could not parse is answered without an id
        text = str(id)
        if text.startswith("listen-"):  # the SDK's own names for subscriptions
            return False
        return not text.isascii() or not text.isdigit() or not 0 < int(text[:20]) <= self._last_id

    def _answered_nothing(self, item: SessionMessage, id: str, post: PendingRequest | None) -> bool:
        """Drop *item*, a response with an unknown *id*. Where it is all that *post* gets, it is an error of that."""
        self._unsolicited += 1
        if self._unsolicited == 1:
            self._status.log.warning("MCP server '%s': %s", self._status.server, UNSOLICITED.format(id))
        if self._unsolicited > MOST_UNSOLICITED:
            self._status.end(f"it answered {MOST_UNSOLICITED} requests that were never made")
        if post is None or post.id is None or not post.single:
            return False
        failed = ErrorData(code=CONNECTION_CLOSED, message=UNSOLICITED.format(id))
        item.message = JSONRPCError(jsonrpc="2.0", id=post.id, error=failed)
        self._posts.pop(str(post.id), None)
        return True

    def _is_flooding(self) -> bool:
        now = self._clock()
        self._allowance = min(BURST, self._allowance + (now - self._seen_at) * REFILL) - 1
        self._seen_at = now
        if self._allowance >= 0:
            return False
        self._allowance = 0
        self._dropped += 1
        if self._dropped == 1:
            self._status.log.warning("MCP server '%s' sends more notifications than are looked at", self._status.server)
        if self._dropped > MOST_DROPPED:
            self._status.end(f"it sent {MOST_DROPPED:,} notifications too many")
        return True

    def _cleaned(self, result: dict[str, Any]) -> dict[str, Any]:
        tools: Any = result.get("tools")
        return (
            {**result, "tools": list(self._valid_tools(cast("list[object]", tools)))}
            if isinstance(tools, list)
            else result
        )

    def _valid_tools(self, tools: list[object]) -> Iterator[dict[str, Any]]:
        for index, tool in enumerate(tools):
            try:
                yield self._checked(tool)
            except (ValidationError, ValueError, TypeError) as error:
                named: Any = cast("dict[str, Any]", tool).get("name") if isinstance(tool, dict) else None
                what = f"its tool {str(named)[:100]!r}" if named else f"number {index + 1} of its tools"
                self._status.log.info("MCP server '%s': %s is left out: %s", self._status.server, what, _first(error))

    def _checked(self, tool: object) -> dict[str, Any]:
        if not isinstance(tool, dict):
            raise TypeError("it is not an object")
        given = cast("dict[str, Any]", tool)
        how: Any = given.get("execution")
        if isinstance(how, dict) and cast("dict[str, Any]", how).get("taskSupport") == "required":
            raise ValueError("it is for clients with tasks, which this one is not")
        known = _plain(given)
        Tool.model_validate(known, by_name=False)
        if isinstance(result := given.get("outputSchema"), dict):
            self.outputs[known["name"]] = result
        else:
            self.outputs.pop(known["name"], None)
        if self.version is not None:
            whole = {"tools": [known], "resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
            methods.validate_server_result("tools/list", self.version, whole)
        return known


def _without_pages(params: dict[str, Any]) -> None:
    """Remove URL elicitation from the capabilities that the SDK declares: it is not supported here."""
    for place, key in ((params, "capabilities"), (params.get("_meta"), CLIENT_CAPABILITIES_META_KEY)):
        capabilities = place.get(key) if place is not None else None
        if capabilities is not None and "elicitation" in capabilities:
            capabilities["elicitation"].pop("url", None)


def _plain(tool: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of *tool* that are used, without optional ones of the wrong type."""
    kept: dict[str, Any] = {key: tool[key] for key in ("name", "inputSchema") if key in tool}
    kept |= {key: tool[key] for key in ("title", "description") if isinstance(tool.get(key), str)}
    kept |= {"_meta": tool["_meta"]} if isinstance(tool.get("_meta"), dict) else {}
    if isinstance(hints := tool.get("annotations"), dict):
        given = cast("dict[str, Any]", hints)
        kept["annotations"] = {key: given[key] for key in _HINTS if isinstance(given.get(key), bool)}
    return kept


def _first(error: Exception) -> str:
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False, include_input=False)[0]
        return f"{'.'.join(str(part) for part in first['loc'] if part != 'tools')}: {first['msg']}"
    return str(error)


class ReceiveStream:
    """The stream of messages from the server."""

    def __init__(self, inner: Any, wire: GuardedTransport) -> None:
        self._inner = inner
        self._wire = wire

    @property
    def last_context(self) -> Any:
        """The context of the last message; the SDK passes it on to its handlers."""
        return getattr(self._inner, "last_context", None)

    async def receive(self) -> SessionMessage | Exception:
        return await anext(self)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        while True:
            try:
                item: SessionMessage | Exception = await anext(self._inner)
            except StopAsyncIteration:
                self._wire.closed()
                raise
            context = self.last_context
            if self._wire.passed(item, None if context is None else current(context)):
                return item
            if self._wire.over:
                raise StopAsyncIteration

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()


class SendStream:
    """The stream of messages to the server."""

    def __init__(self, inner: Any, wire: GuardedTransport) -> None:
        self._inner = inner
        self._wire = wire

    async def send(self, item: SessionMessage) -> None:
        try:
            with as_current(self._wire.sent(item)):
                await self._inner.send(item)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            self._wire.closed()
            raise

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()
