"""Requests of a server to the client: sampling, elicitation and roots.

The host answers them under its policies, for the tool call that the server is running. Without
a running call they are refused.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Generator, Iterable, Mapping
from contextlib import contextmanager
from contextvars import Context, ContextVar, copy_context
from pathlib import Path
from typing import Any, TypeVar, cast

import attrs
from mcp.client.session import ClientRequestContext
from mcp_types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    AudioContent,
    CreateMessageRequestParams,
    CreateMessageResult,
    ElicitRequestFormParams,
    ElicitRequestParams,
    ElicitResult,
    ErrorData,
    ImageContent,
    ListRootsResult,
    Root,
    SamplingMessage,
    TextContent,
)
from pluggent_hookspecs import (
    Accepted,
    Audio,
    Cancelled,
    Declined,
    Denied,
    FinishReason,
    Image,
    LimitReached,
    Message,
    ModelParameters,
    Part,
    PluggentError,
    Role,
    Text,
    ToolContext,
    ToolError,
    thaw,
)
from pydantic import FileUrl

from pluggent_mcp.client.tool_list import shown
from pluggent_mcp.client_model import CLIENT, ServedClient

T = TypeVar("T")
MOST_SAMPLINGS = 5
"""Sampling requests of a server in one call."""
LONGEST_QUESTION = 4_000
"""Characters of an elicitation message."""
REFUSED = -1
"""The MCP error code for a refusal by the user."""


@attrs.define(eq=False)
class ActiveCall:
    """A running call with the number of its sampling requests."""

    context: ToolContext
    variables: Context = attrs.field(factory=copy_context)
    """Those of the call: a provider may look there for whom it works."""
    samplings: int = 0
    folders: asyncio.Future[list[Path]] | None = None
    """Its roots, looked up once: a server that asks again and again is no reason to ask a client so."""


_FOR: ContextVar[ActiveCall | None] = ContextVar("pluggent_mcp_for", default=None)
"""The call that this context works for, if the transport keeps contexts apart."""


class ServerRequests:
    """Answers the requests of one server."""

    def __init__(self, server: str) -> None:
        self._server = server
        self._active: dict[int, ActiveCall] = {}
        self._numbers = itertools.count()
        self.roots_requested = False
        """Whether the server has ever requested the roots."""

    @contextmanager
    def for_call(self, context: ToolContext) -> Generator[None]:
        """Answer requests for the call of *context* in this block."""
        number, call = next(self._numbers), ActiveCall(context)
        self._active[number] = call
        token = _FOR.set(call)
        try:
            yield
        finally:
            _FOR.reset(token)
            del self._active[number]
            if call.folders is not None:
                call.folders.cancel()

    def _call(self) -> ActiveCall | None:
        """Return the call that a request belongs to, None if there is none or it is ambiguous."""
        known = _FOR.get()
        if known is not None and known in self._active.values():
            return known
        turns = {(call.context.session_id, call.context.turn_id) for call in self._active.values()}
        return next(reversed(self._active.values())) if len(turns) == 1 else None

    @property
    def context(self) -> ToolContext | None:
        """The context of the current call, None if there is none or it is ambiguous."""
        call = self._call()
        return None if call is None else call.context

    async def sample(
        self, context: ClientRequestContext, params: CreateMessageRequestParams
    ) -> CreateMessageResult | ErrorData:
        """Call the session's model for the server, after approval by a person."""
        call = self._call()
        if call is None:
            return ErrorData(code=INVALID_REQUEST, message="sampling is answered during a tool call only")
        call.samplings += 1
        if call.samplings > MOST_SAMPLINGS:
            return ErrorData(code=REFUSED, message=f"more than {MOST_SAMPLINGS} samplings in one call")
        if params.tools:
            return ErrorData(code=INVALID_PARAMS, message="sampling with tools is not supported")
        try:
            asked = call.context.call_model(
                tuple(self._conversation(params)), parameters=_parameters(params),
                ask=f"the MCP server '{self._server}' wants to ask the model",
            )  # fmt: skip
            reply = await unless_cancelled(asyncio.create_task(asked, context=call.variables))
        except (Denied, LimitReached):
            return ErrorData(code=REFUSED, message="User rejected sampling request")
        except (PluggentError, ValueError):
            # The reason is not for the server.
            return ErrorData(code=INTERNAL_ERROR, message="the model could not be asked")
        stop = "maxTokens" if reply.finish_reason == FinishReason.LENGTH else "endTurn"
        text = TextContent(text=reply.message.text)
        return CreateMessageResult(role="assistant", content=text, model=reply.model, stop_reason=stop)

    def _conversation(self, params: CreateMessageRequestParams) -> Generator[Message]:
        if params.system_prompt:
            # Never as a system message: a server wrote it.
            yield Message.user(f"[The MCP server '{self._server}' instructs]\n{params.system_prompt}")
        for message in params.messages:
            role = Role.ASSISTANT if message.role == "assistant" else Role.USER
            yield Message(role, tuple(_parts(message)))

    async def elicit(self, context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult | ErrorData:
        """Ask a person for the data that the server requests. An answer never counts as an approval."""
        call = self._call()
        if call is None or not isinstance(params, ElicitRequestFormParams):
            return ElicitResult(action="cancel")
        schema: dict[str, Any] = dict(params.requested_schema)
        try:
            message, source = shown(params.message, LONGEST_QUESTION), f"MCP server '{self._server}'"
            answer = await unless_cancelled(call.context.elicit(message, schema, source=source))
        except Denied:
            return ElicitResult(action="decline")
        except ToolError as error:
            return ErrorData(code=INVALID_PARAMS, message=error.message)
        except PluggentError:
            return ElicitResult(action="cancel")
        match answer:
            case Accepted(content=content):
                return ElicitResult(action="accept", content=_plain(content))
            case Declined():
                return ElicitResult(action="decline")
            case Cancelled():
                return ElicitResult(action="cancel")

    async def roots(self, context: ClientRequestContext) -> ListRootsResult:
        """Return the workspace of the current call's session as the only root.

        For a call of a served client the folders in it that the client says it works in. It may say anything, so
        policies do not follow it, and it widens nothing.
        """
        self.roots_requested = True
        call = self._call()
        folder = None if call is None else call.context.workspace
        if call is None or folder is None:
            return ListRootsResult(roots=[])
        if call.folders is None:
            call.folders = asyncio.create_task(_folders(folder, call.variables.get(CLIENT)), context=call.variables)
        try:
            found = await unless_cancelled(asyncio.shield(call.folders))
        except CallEndedError:
            found = []
        return ListRootsResult(roots=[_root(each) for each in found])


class CallEndedError(PluggentError):
    """What was waited for was cancelled, because the call has ended."""


async def unless_cancelled(awaited: Awaitable[T]) -> T:
    """Return what *awaited* returns; raise CallEndedError if it was cancelled, and the current task was not.

    A CancelledError in a handler would end the connection: the SDK runs all handlers in one group of tasks.
    """
    try:
        return await awaited
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        raise CallEndedError("the call that it was asked for has ended") from None


async def _folders(folder: Path, client: ServedClient | None) -> list[Path]:
    claimed = None if client is None else await client.roots()
    return await asyncio.to_thread(narrowed, folder, ("/",) if claimed is None else claimed)


def narrowed(folder: Path, claimed: Iterable[str]) -> list[Path]:
    """Return what of *claimed* lies in *folder*, as links lead now; *folder* itself if it lies in one of them.

    >>> narrowed(Path("/srv/a"), ["/srv/a/b/../c", "/srv", "/etc", "/srv/abc", "/srv/a/../d"])
    [PosixPath('/srv/a/c'), PosixPath('/srv/a')]
    """
    own = folder.resolve()
    found: list[Path] = []
    for each in claimed:
        try:
            place = Path(each).resolve()
        except (OSError, RuntimeError, ValueError):
            continue  # a ring of links, or no path at all
        if place.is_relative_to(own):
            found.append(place)
        elif own.is_relative_to(place):
            found.append(own)
    return list(dict.fromkeys(found))


def _root(folder: Path) -> Root:
    return Root(uri=FileUrl(folder.as_uri()), name=folder.name)


def _plain(content: Mapping[str, Any]) -> dict[str, Any]:
    return cast("dict[str, Any]", thaw(content))


def _parameters(params: CreateMessageRequestParams) -> ModelParameters:
    return ModelParameters(
        temperature=params.temperature,
        max_output_tokens=params.max_tokens,
        stop=tuple(params.stop_sequences or ()),
    )


def _parts(message: SamplingMessage) -> Generator[Part]:
    for block in message.content_as_list:
        match block:
            case TextContent():
                yield Text(block.text)
            case ImageContent():
                yield Image(data=block.data, media_type=block.mime_type)
            case AudioContent():
                yield Audio(block.data, block.mime_type.partition("/")[2] or "wav")
            case _:
                raise ValueError(f"a {block.type} cannot be asked with")
