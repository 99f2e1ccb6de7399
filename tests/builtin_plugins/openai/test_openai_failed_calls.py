"""A call that a server refuses (Groq's tool_use_failed) is handed on as the model meant it."""

import json
from typing import Any

import httpx2
import pytest
from openai_server import HELLO, event
from pluggent_hookspecs import (
    FinishReason,
    Message,
    ModelRequest,
    ModelResponse,
    ProvideEvent,
    ProviderError,
    ProviderErrorKind,
    Text,
    ToolCall,
    collect,
)
from pluggent_openai.chat.failed_calls import failed_call
from pluggent_openai.plugin import OpenAI

REASON = "Tool call validation failed: missing properties: 'name'"


def error(written: object, code: str = "tool_use_failed") -> dict[str, Any]:
    about = {"message": REASON, "type": "invalid_request_error", "code": code, "failed_generation": written}
    return {"error": about}


@pytest.mark.parametrize(
    ("written", "call"),
    [
        ('{"name": "get", "arguments": {\n  "foo": "bar"\n}}', ("get", '{\n  "foo": "bar"\n}')),
        ('{"name": "get", "arguments": {"a": }}', ("get", '{"a": }')),
        ('{"name": "get", "parameters": {}}', ("get", "{}")),
        ('{"name": "g\\u00e9t", "arguments": "no"}', ("gét", '"no"')),
        ('<tool_call>\n{"name": "get", "arguments": {"a": 1}}\n</tool_call>', ("get", '{"a": 1}')),
        ('<function=get>{"a": 1}</function>', ("get", '{"a": 1}')),
        ('<function=get{"a": 1}></function>', ("get", '{"a": 1}')),
        ("maybe", None),
        ("", None),
        ('{"name": 7, "arguments": {}}', None),
        ('{"arguments": {}}', None),
        (None, None),
        ("{" * 200_000, None),
        ('{"name": "get", "arguments": {}' + "} " * 200_000 + "x", None),
        ('{"name": "get", "arguments": {}}' + " " * 500_000 + "x", None),
        ("<function=get>" + " " * 500_000 + "x</function>", ("get", "x")),
        ("<tool_call>" + " " * 500_000 + "</tool_call>", None),
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_the_model_wrote_is_read_and_not_repaired(written: object, call: tuple[str, str] | None) -> None:
    found = failed_call(error(written))

    assert (found and (found.name, found.arguments)) == call
    assert failed_call(error(written, "other")) is None


async def asked(answer: httpx2.Response, *, stream: bool) -> ModelResponse:
    provider: Any
    settings = OpenAI.Settings(base_url="http://127.0.0.1:8000/v1", api_key=None)
    transport = httpx2.MockTransport(lambda _: answer)
    (provider,) = OpenAI(settings, transport=transport).provide_providers(ProvideEvent())
    request = ModelRequest("m", (Message.user("hi"),))
    reply: ModelResponse = await (collect(provider.stream(request)) if stream else provider.complete(request))
    return reply


@pytest.mark.parametrize(
    ("status", "stream", "before"), [(400, False, b""), (200, False, b""), (200, True, b""), (200, True, HELLO)]
)
async def test_a_refused_call_is_a_call(status: int, stream: bool, before: bytes) -> None:
    failed = error('{"name": "get", "arguments": {"foo": "bar"}}')
    content = before + event(failed) if stream else json.dumps(failed).encode()

    reply = await asked(httpx2.Response(status, content=content, headers={"x-request-id": "r1"}), stream=stream)

    assert reply.message.tool_calls == (ToolCall("call_0", "get", '{"foo": "bar"}'),)
    assert reply.message.content == ((Text("Hello"),) if before else ())
    assert reply.finish_reason is FinishReason.TOOL_CALLS
    assert reply.meta.request_id == "r1"
    assert reply.meta.notes == (f"the server refused the call of get, which is handed on as it is: {REASON}",)


@pytest.mark.parametrize("stream", [False, True])
async def test_a_refusal_without_a_call_is_an_error(stream: bool) -> None:
    failed = error("maybe")
    answer = httpx2.Response(200, content=HELLO + event(failed)) if stream else httpx2.Response(400, json=failed)

    with pytest.raises(ProviderError, match="the model wrote: maybe") as caught:
        await asked(answer, stream=stream)

    assert caught.value.kind is ProviderErrorKind.BAD_REQUEST


async def test_another_refusal_is_what_it_was() -> None:
    with pytest.raises(ProviderError, match="answered 400: no such field") as caught:
        await asked(httpx2.Response(400, json={"error": {"message": "no such field"}}), stream=False)

    assert caught.value.status == 400
