"""Requests to a client for a call that it has made: to its model (sampling), and for its folders (roots).

Its model is one like any other: what is asked passes the policies on model calls, and a ledger books it. What a
client answers is its own word: no model need have been asked, and its folders may be any.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from typing import TypeVar
from urllib.parse import unquote, urlsplit

import attrs
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata
from mcp_types import (
    AudioContent,
    CreateMessageRequest,
    CreateMessageRequestParams,
    CreateMessageResult,
    ImageContent,
    ListRootsRequest,
    ListRootsResult,
    ModelHint,
    ModelPreferences,
    SamplingMessage,
    TextContent,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pluggent_hookspecs import (
    Audio,
    CachePoint,
    FinishReason,
    Image,
    Message,
    ModelParameters,
    ModelRequest,
    ModelResponse,
    Part,
    ProviderError,
    Role,
    Text,
)
from pluggent_hookspecs.errors import ProviderErrorKind
from pydantic import BaseModel, ValidationError

from pluggent_mcp.client_model import ANY, NAME
from pluggent_mcp.serving.exchanges import (
    Context,
    Request,
    can_list_roots,
    can_sample,
    client_of,
    current,
    session_of,
)

A = TypeVar("A", bound=BaseModel)

SAMPLING_S = 120.0
"""Time for an answer; the limits of the call and of model calls count too."""
ROOTS_S = 5.0
"""Time for a client to list its roots."""
MOST_ROOTS = 64
MOST_TOKENS = 4_096
"""Of a reply for which the request sets no limit: MCP wants one."""
_LOG = logging.getLogger("pluggent.mcp.serve")
LONGEST_SAID = 300
"""Characters of a client's error, or of the name of its model."""
USER_REJECTED = -1
"""The MCP error code for a refusal by the user."""
_HAS = frozenset({"temperature", "max_output_tokens", "stop"})
"""The parameters that sampling knows."""
_ENDS = {
    "endTurn": FinishReason.STOP, "stopSequence": FinishReason.STOP, "maxTokens": FinishReason.LENGTH
}  # fmt: skip


class ClientRequests:
    """The client that made a call, asked over the connection of its request. Implements ServedClient."""

    def __init__(self, context: Context, root_changes: int) -> None:
        self._context = context
        self._exchange = current()
        self._root_changes = root_changes

    @property
    def key(self) -> str:
        """What tells it, with its folders of now, from others."""
        return f"{session_of(self._context)} {self._root_changes} {client_of(self._context)}"

    @property
    def samples(self) -> bool:
        """Whether it offers its model."""
        return can_sample(self._context)

    async def sample(self, request: ModelRequest) -> ModelResponse:
        """Return the reply. Raises ProviderError; none is worth another try, as a person may be asked each time."""
        asked = CreateMessageRequest(params=_params(request))
        try:
            async with asyncio.timeout(SAMPLING_S):
                result = await self._answered(asked, CreateMessageResult)
        except TimeoutError:
            raise _error(ProviderErrorKind.TIMEOUT, f"the client did not answer within {SAMPLING_S:g} s") from None
        except MCPError as error:
            kind = ProviderErrorKind.REFUSED if error.code == USER_REJECTED else ProviderErrorKind.UNAVAILABLE
            raise _error(kind, f"the client says: {_plain(error.message)}") from error
        except ValidationError as error:
            raise _error(ProviderErrorKind.PROTOCOL, "the client's answer is not a message") from error
        if result is None:
            raise _error(ProviderErrorKind.PROTOCOL, "the client came back without an answer")
        return _response(result)

    async def roots(self) -> tuple[str, ...] | None:
        """Return the folders that the client lists; None if it lists none in time, or what are no folders."""
        if not can_list_roots(self._context):
            return None
        try:
            async with asyncio.timeout(ROOTS_S):
                listed = await self._answered(ListRootsRequest(), ListRootsResult)
        except (TimeoutError, MCPError, ValidationError) as error:
            _LOG.info("a client did not list its roots: %s", type(error).__name__)
            return None
        if listed is None or len(listed.roots) > MOST_ROOTS:
            return None
        return tuple(filter(None, (_folder(str(root.uri)) for root in listed.roots)))

    async def _answered(self, request: Request, answers: type[A]) -> A | None:
        if self._context.protocol_version in MODERN_PROTOCOL_VERSIONS:
            return None if self._exchange is None else await self._exchange.ask(request, answers)
        related = ServerMessageMetadata(related_request_id=self._context.request_id)
        return await self._context.session.send_request(request, answers, metadata=related)


def _folder(uri: str) -> str:
    """Return the path in *uri*; empty if it is not one on this machine.

    >>> _folder("file:///srv/a%20b"), _folder("file://other/srv"), _folder("file:///a%00b")
    ('/srv/a b', '', '')
    """
    try:
        parts = urlsplit(uri)
    except ValueError:
        return ""
    path = unquote(parts.path)
    here = parts.scheme == "file" and parts.netloc in ("", "localhost")
    return path if here and path.startswith("/") and "\0" not in path else ""


def _params(request: ModelRequest) -> CreateMessageRequestParams:
    given = request.parameters
    unknown = [
        field.name
        for field in attrs.fields(ModelParameters)
        if field.name not in _HAS and getattr(given, field.name) != getattr(_PLAIN, field.name)
    ]
    if unknown or request.tools:
        wrong = ", ".join([*unknown, *(["tools"] if request.tools else [])])
        raise _error(ProviderErrorKind.BAD_REQUEST, f"a client cannot be asked with {wrong}")
    system = "\n\n".join(message.text for message in request.messages if message.role in _SYSTEM)
    messages = [
        SamplingMessage(role="assistant" if message.role is Role.ASSISTANT else "user", content=content)
        for message in request.messages
        if message.role not in _SYSTEM
        for content in _contents(message)
    ]
    hint = None if request.model == ANY else ModelPreferences(hints=[ModelHint(name=request.model)])
    return CreateMessageRequestParams(
        messages=messages,
        max_tokens=given.max_output_tokens or MOST_TOKENS,
        system_prompt=system or None,
        temperature=given.temperature,
        stop_sequences=[*given.stop] or None,
        model_preferences=hint,
    )


_PLAIN = ModelParameters()
_SYSTEM = frozenset({Role.SYSTEM, Role.DEVELOPER})


def _contents(message: Message) -> Iterator[TextContent | ImageContent | AudioContent]:
    """Yield the content of *message*, each for a message of its own: older clients know no lists."""
    if message.role is Role.TOOL or message.tool_calls:
        raise _error(ProviderErrorKind.BAD_REQUEST, "a client cannot be asked with calls of tools")
    for part in message.content:
        match part:
            case Text(text=text):
                yield TextContent(text=text)
            case Image(data=str(data)):
                yield ImageContent(data=data, mime_type=part.media_type)
            case CachePoint():
                pass  # clients have no such points
            case Audio():
                yield AudioContent(data=part.data, mime_type=f"audio/{part.format}")
            case _:
                what = type(part).__name__.lower()
                raise _error(ProviderErrorKind.BAD_REQUEST, f"a client cannot be asked with a part of type {what}")


def _response(result: CreateMessageResult) -> ModelResponse:
    match result.content:
        case TextContent(text=text):
            part: Part = Text(text)
        case ImageContent():
            part = Image(data=result.content.data, media_type=result.content.mime_type)
        case AudioContent():
            part = Audio(result.content.data, result.content.mime_type.partition("/")[2] or "wav")
    reason = _ENDS.get(result.stop_reason or "", FinishReason.OTHER)
    return ModelResponse(Message(Role.ASSISTANT, (part,)), reason, model=_plain(result.model))


def _error(kind: ProviderErrorKind, problem: str) -> ProviderError:
    return ProviderError(kind, problem, provider=NAME, retryable=False)


def _plain(text: str) -> str:
    return "".join(char if char.isprintable() else " " for char in text[:LONGEST_SAID])
