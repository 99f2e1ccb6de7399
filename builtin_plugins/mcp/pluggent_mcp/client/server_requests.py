"""What a server asks of us while it works: the model, a person, and which folder is meant.

It is answered through the call for which the server asks, by the host, under its policies. A
server that asks while no call of ours runs gets no answer.
"""

from __future__ import annotations

import itertools
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, cast

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

from pluggent_mcp.client.offered import shown

MOST_SAMPLINGS = 5
"""How often a server may ask the model during one call."""
LONGEST_QUESTION = 4_000
"""Characters of a question to a person."""
REFUSED = -1
"""The code that MCP gives a person's refusal."""


@attrs.define(eq=False)
class Running:
    """A call that runs, and how often the server has asked the model for it."""

    context: ToolContext
    samplings: int = 0


_FOR: ContextVar[Running | None] = ContextVar("pluggent_mcp_for", default=None)
"""The call for which this is done, wherever the transport can tell."""


class Asked:
    """Answers the requests of one server."""

    def __init__(self, server: str) -> None:
        self._server = server
        self._running: dict[int, Running] = {}
        self._numbers = itertools.count()
        self.roots_asked = False
        """Whether the server wanted to know the folders, ever."""

    @contextmanager
    def during(self, context: ToolContext) -> Generator[None]:
        """Answer for the call of *context* until it is over."""
        number, call = next(self._numbers), Running(context)
        self._running[number] = call
        token = _FOR.set(call)
        try:
            yield
        finally:
            _FOR.reset(token)
            del self._running[number]

    def _call(self) -> Running | None:
        """Return the call for which the server asks, None if there is none or it cannot be told."""
        known = _FOR.get()
        if known is not None and known in self._running.values():
            return known
        turns = {(call.context.session_id, call.context.turn_id) for call in self._running.values()}
        return next(reversed(self._running.values())) if len(turns) == 1 else None

    @property
    def context(self) -> ToolContext | None:
        """That of the call for which the server speaks now, None if there is none or it cannot be told."""
        call = self._call()
        return None if call is None else call.context

    async def sample(
        self, context: ClientRequestContext, params: CreateMessageRequestParams
    ) -> CreateMessageResult | ErrorData:
        """Ask the session's model what the server wants to know, once a person has agreed."""
        call = self._call()
        if call is None:
            return ErrorData(code=INVALID_REQUEST, message="sampling is answered during a tool call only")
        call.samplings += 1
        if call.samplings > MOST_SAMPLINGS:
            return ErrorData(code=REFUSED, message=f"more than {MOST_SAMPLINGS} samplings in one call")
        if params.tools:
            return ErrorData(code=INVALID_PARAMS, message="sampling with tools is not supported")
        try:
            reply = await call.context.call_model(
                tuple(self._conversation(params)), parameters=_parameters(params),
                ask=f"the MCP server '{self._server}' wants to ask the model",
            )  # fmt: skip
        except (Denied, LimitReached):
            return ErrorData(code=REFUSED, message="User rejected sampling request")
        except (PluggentError, ValueError):
            # Why is nothing that the server needs to know.
            return ErrorData(code=INTERNAL_ERROR, message="the model could not be asked")
        stop = "maxTokens" if reply.finish_reason == FinishReason.LENGTH else "endTurn"
        text = TextContent(text=reply.message.text)
        return CreateMessageResult(role="assistant", content=text, model=reply.model, stop_reason=stop)

    def _conversation(self, params: CreateMessageRequestParams) -> Generator[Message]:
        if params.system_prompt:
            # Never as the system's: it is what a server wrote.
            yield Message.user(f"[The MCP server '{self._server}' instructs]\n{params.system_prompt}")
        for message in params.messages:
            role = Role.ASSISTANT if message.role == "assistant" else Role.USER
            yield Message(role, tuple(_parts(message)))

    async def elicit(self, context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult | ErrorData:
        """Ask a person what the server wants to know. No answer to it approves anything."""
        call = self._call()
        if call is None or not isinstance(params, ElicitRequestFormParams):
            return ElicitResult(action="cancel")
        schema: dict[str, Any] = dict(params.requested_schema)
        try:
            answer = await call.context.elicit(
                shown(params.message, LONGEST_QUESTION), schema, source=f"MCP server '{self._server}'"
            )
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
        """Tell the folder of the session for which the server works, and no other."""
        self.roots_asked = True
        call = self.context
        folder = None if call is None else call.workspace
        return ListRootsResult(roots=[] if folder is None else [_root(folder)])


def _root(folder: Path) -> Root:
    return Root(uri=FileUrl(folder.resolve().as_uri()), name=folder.name)


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
