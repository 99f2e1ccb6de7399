"""What a server of OpenAI's Responses says, event by event, and the readers and writers of it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from pluggent_hookspecs import (
    Delta,
    HostedTool,
    Message,
    ModelParameters,
    ModelRequest,
    ModelResponse,
    ProviderError,
    Reply,
)
from pluggent_openai.dialects import Dialect, dialect_for
from pluggent_openai.responses.events import Events, read_reply
from pluggent_openai.responses.items import Known
from pluggent_openai.responses.parameters import NO_FIELDS
from pluggent_openai.responses.request import Writer
from pluggent_openai.server_tools import declared
from pluggent_openai.settings import Server
from pluggent_openai.wire import Body
from pluggent_provider_http.hosted_tools import offered
from pluggent_provider_http.reply_reader import ReplyReader
from pluggent_provider_http.server_errors import Faults

SERVER = "https://api.openai.com/v1"
FAULTS = Faults("openai", SERVER, "m")
ASKED = ModelRequest("m", (Message.user("hi"),))


def text(words: str, **more: Any) -> dict[str, Any]:
    return {"type": "output_text", "text": words, "annotations": [], **more}


def message(*content: Mapping[str, Any], id: str = "msg_1", **more: Any) -> dict[str, Any]:
    return {"type": "message", "id": id, "role": "assistant", "status": "completed", "content": [*content], **more}


def thought(*summary: str, id: str = "rs_1", signature: str | None = "sealed", **more: Any) -> dict[str, Any]:
    parts = [{"type": "summary_text", "text": words} for words in summary]
    signed = {} if signature is None else {"encrypted_content": signature}
    return {"type": "reasoning", "id": id, "summary": parts, **signed, **more}


def call(id: str = "call_1", name: str = "add", arguments: str = '{"a":1}', **more: Any) -> dict[str, Any]:
    return {"type": "function_call", "id": f"fc_{id}", "status": "completed", "call_id": id, "name": name,
            "arguments": arguments, **more}  # fmt: skip


def custom_call(id: str = "call_1", name: str = "shell", words: str = "ls") -> dict[str, Any]:
    return {"type": "custom_tool_call", "id": f"ctc_{id}", "call_id": id, "name": name, "input": words}


def search(id: str = "ws_1") -> dict[str, Any]:
    return {"type": "web_search_call", "id": id, "status": "completed", "action": {"type": "search", "query": "q"}}


def answer(*output: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    return {"id": "resp_1", "object": "response", "model": "m-1", "status": "completed", "error": None,
            "output": [*output], **more}  # fmt: skip


def numbered(*events: Mapping[str, Any]) -> list[bytes]:
    return [sse({**event, "sequence_number": number}) for number, event in enumerate(events)]


def sse(event: Mapping[str, Any]) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (str(event.get("type")).encode(), json.dumps(event).encode())


CREATED = {"type": "response.created", "response": {"id": "resp_1", "model": "m-1", "status": "in_progress"}}


def added(place: int, item: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "response.output_item.added", "output_index": place, "item": item}


def done(place: int, item: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "response.output_item.done", "output_index": place, "item": item}


def piece(words: str, place: int = 0, index: int = 0, **more: Any) -> dict[str, Any]:
    return {"type": "response.output_text.delta", "output_index": place, "content_index": index, "delta": words, **more}


def end(*output: Mapping[str, Any], kind: str = "completed", **more: Any) -> dict[str, Any]:
    return {"type": f"response.{kind}", "response": answer(*output, **{"status": kind, **more})}


def streamed(*events: bytes) -> tuple[list[Delta], ProviderError | None]:
    """Return what *events*, each read by itself, brought, and how they failed."""
    reader = ReplyReader(Events(ASKED, SERVER, FAULTS), FAULTS)
    found: list[Delta] = []
    for event in events:
        found += reader.feed(event)
        if reader.failure is not None or reader.done:
            return found, reader.failure
    return [*found, *reader.end()], reader.failure


def reply_of(*events: bytes) -> ModelResponse:
    deltas, failure = streamed(*events)
    if failure is not None:
        raise failure
    reply = Reply()
    reply.add(deltas)
    return reply.response()


def failure_of(*events: bytes) -> ProviderError:
    _, failure = streamed(*events)
    assert failure is not None
    return failure


def whole(
    *output: Mapping[str, Any], asked: ModelRequest = ASKED, prices: Mapping[str, float] | None = None, **more: Any
) -> ModelResponse:
    known = Known(Writer(dialect_for(SERVER), SERVER, thinking=True).before, prices or {})
    return read_reply(json.dumps(answer(*output, **more)).encode(), asked, SERVER, FAULTS, known=known)


def whole_of(body: Mapping[str, Any]) -> ModelResponse:
    """Return the reply in a whole answer, as a server gave it."""
    return read_reply(json.dumps(body).encode(), ASKED, SERVER, FAULTS)


def sent(
    messages: Sequence[Message],
    *,
    server: str = SERVER,
    thinking: bool = True,
    dialect: Dialect | None = None,
    tools: Sequence[Any] = (),
    server_tools: Sequence[Mapping[str, Any]] = (),
    hosted: Sequence[HostedTool] | None = None,
    fields: Mapping[str, Any] = NO_FIELDS,
    **parameters: Any,
) -> tuple[dict[str, Any], Body]:
    """Return the body of a request as JSON, and the Body; *hosted* None asks for all of the *server_tools*."""
    known = declared(Server(base_url=SERVER, server_tools=server_tools).server_tools)
    may = offered("openai", known) if hosted is None else hosted
    request = ModelRequest("m", tuple(messages), tuple(tools), ModelParameters(**parameters), may)
    writer = Writer(dialect or dialect_for(SERVER), server, thinking=thinking, hosted=known, fields=fields)
    body = writer.encode(request, FAULTS, stream=False)
    return json.loads(body.data), body
