"""What goes to an Ollama server, what comes of its answers, and what an error says to do."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import attrs
import httpx2
import pytest
from pluggent_hookspecs import (
    AllowedTools,
    CachePoint,
    FinishReason,
    Image,
    Message,
    ModelParameters,
    ModelRequest,
    ProvideEvent,
    ProviderError,
    ProviderErrorKind,
    Reasoning,
    Role,
    Secret,
    Text,
    ToolCall,
    ToolSpec,
    Usage,
)
from pluggent_ollama.plugin import Ollama
from pluggent_ollama.provider import OllamaProvider
from pluggent_ollama.settings import Server, url_of

HELLO = ModelRequest("qwen3:8b", (Message.user("hi"),))
DONE: Mapping[str, Any] = {"message": {"role": "assistant", "content": ""}, "done": True, "done_reason": "stop"}
ADD = ToolSpec("add", "Add.", {"type": "object", "properties": {"a": {"type": "integer"}}}, effects=())
CALL = ToolCall("c1", "add", '{"a": 1}')


def lines(*said: Mapping[str, Any]) -> bytes:
    return b"".join(json.dumps({"model": "qwen3:8b", **each}).encode() + b"\n" for each in said)


def at(answer: Callable[[httpx2.Request], httpx2.Response] | bytes, **settings: Any) -> OllamaProvider:
    def respond(request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, content=answer) if isinstance(answer, bytes) else answer(request)

    given = Ollama.Settings(**{"base_url": "http://127.0.0.1:11434", **settings})
    provider, *_ = Ollama(given, transport=httpx2.MockTransport(respond)).provide_providers(ProvideEvent())
    assert isinstance(provider, OllamaProvider)
    return provider


def body(request: ModelRequest = HELLO, **settings: Any) -> dict[str, Any]:
    asked = at(b"", **settings).asked(request)
    assert asked.path == "/api/chat"
    read: dict[str, Any] = json.loads(asked.body)
    return read


# ---- what is sent ---------------------------------------------------------------------------


def test_a_request_without_settings_leaves_everything_to_the_server_but_forgets_nothing() -> None:
    assert body() == {
        "model": "qwen3:8b",
        "messages": [{"role": "user", "content": "hi"}],
        "stream": True,
        "truncate": False,
        "shift": False,
    }


def test_settings_say_the_window_how_long_a_model_stays_and_whether_the_beginning_may_go() -> None:
    sent = body(num_ctx=32_768, keep_alive="24h", truncate=True)

    assert (sent["options"], sent["keep_alive"]) == ({"num_ctx": 32_768}, "24h")
    assert "truncate" not in sent
    assert body(keep_alive="-1")["keep_alive"] == -1


def test_parameters_are_options_of_the_server() -> None:
    parameters = ModelParameters(
        temperature=0.5, top_p=0.9, top_k=5, seed=7, stop=("END",), max_output_tokens=64, presence_penalty=0.25,
        frequency_penalty=0.5, logprobs=2, output_schema={"type": "object"},
        extra={"options": {"min_p": 0.1}, "keep_alive": 0},
    )  # fmt: skip

    sent = body(attrs.evolve(HELLO, parameters=parameters))

    assert sent["options"] == {
        "temperature": 0.5, "top_p": 0.9, "top_k": 5, "seed": 7, "stop": ["END"], "num_predict": 64,
        "presence_penalty": 0.25, "frequency_penalty": 0.5, "min_p": 0.1,
    }  # fmt: skip
    assert (sent["format"], sent["logprobs"], sent["top_logprobs"]) == ({"type": "object"}, True, 2)
    assert sent["keep_alive"] == 0


@pytest.mark.parametrize(
    ("effort", "think"), [("none", False), ("minimal", "low"), ("medium", "medium"), ("xhigh", "max"), ("max", "max")]
)
def test_an_effort_is_a_level_of_thinking(effort: str, think: object) -> None:
    assert body(attrs.evolve(HELLO, parameters=ModelParameters(reasoning_effort=effort)))["think"] == think


@pytest.mark.parametrize(
    ("parameters", "told"),
    [
        ({"reasoning_effort": "much"}, "reasoning_effort: expected none, minimal, low"),
        ({"tool_choice": "required"}, "cannot be told that a tool has to be called"),
        ({"tool_choice": AllowedTools(("add", "gone"))}, "names what is not offered: gone"),
        ({"user": "ann"}, "parameters.user: Ollama has no such field"),
        ({"temperature": float("nan")}, "parameters.temperature is nan"),
        ({"temperature": 1.0, "extra": {"options": {"temperature": 0}}}, "option 'temperature' is already set"),
        ({"extra": {"stream": False}}, "'stream' is already set"),
    ],
)
def test_what_the_server_cannot_be_told_is_refused_by_name(parameters: dict[str, Any], told: str) -> None:
    request = attrs.evolve(HELLO, tools=(ADD,), parameters=ModelParameters(**parameters))

    with pytest.raises(ProviderError, match=told) as caught:
        at(b"").asked(request)

    assert caught.value.kind is ProviderErrorKind.BAD_REQUEST


def test_calls_go_back_with_their_arguments_as_objects_and_thinking_in_its_place() -> None:
    history = (
        Message(Role.DEVELOPER, (Text("Be brief."),)),
        Message.user((Text("look"), Image(data="QQ=="))),
        Message.assistant((Reasoning("hm"), Text("Let me see.")), (CALL, ToolCall("c2", "add", '{"a": '))),
        Message.tool(CALL, "1"),
    )

    assert body(ModelRequest("m", history, (ADD,)))["messages"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "look", "images": ["QQ=="]},
        {
            "role": "assistant",
            "content": "Let me see.",
            "thinking": "hm",
            "tool_calls": [
                {"id": "c1", "function": {"name": "add", "arguments": {"a": 1}}},
                {"id": "c2", "function": {"name": "add", "arguments": {"_invalid": '{"a": '}}},
            ],
        },
        {"role": "tool", "content": "1", "tool_call_id": "c1", "tool_name": "add"},
    ]


def test_tools_that_may_not_be_called_are_left_out() -> None:
    two = attrs.evolve(HELLO, tools=(ADD, attrs.evolve(ADD, name="sub")))
    allowed = ModelParameters(tool_choice=AllowedTools(("sub",)))

    assert "tools" not in body(attrs.evolve(two, parameters=ModelParameters(tool_choice="none")))
    sent = body(attrs.evolve(two, parameters=allowed))["tools"]
    assert [tool["function"]["name"] for tool in sent] == ["sub"]


async def test_a_key_is_sent_where_there_is_one() -> None:
    seen: list[str | None] = []

    def server(request: httpx2.Request) -> httpx2.Response:
        seen.append(request.headers.get("authorization"))
        return httpx2.Response(200, content=lines(DONE))

    for settings in ({}, {"api_key": Secret.of("key-0123456789")}):
        await at(server, **settings).complete(HELLO)

    assert seen == [None, "Bearer key-0123456789"]


# ---- what comes back ------------------------------------------------------------------------


async def test_everything_that_the_server_says_is_kept() -> None:
    counts = {"prompt_eval_count": 10, "eval_count": 5, "total_duration": 7, "load_duration": 3}
    answer = lines(
        {"message": {"role": "assistant", "content": "", "thinking": "h"}, "done": False, "created_at": "x"},
        {"message": {"role": "assistant", "content": "", "thinking": "m"}, "done": False},
        {"message": {"role": "assistant", "content": "He"}, "done": False},
        {"message": {"role": "assistant", "content": "llo", "new": {"a": 1}}, "done": False},
        {**DONE, **counts, "remote_host": "https://ollama.com"},
    )

    reply = await at(answer).complete(HELLO)

    assert reply.message.content == (Reasoning("hm"), Text("Hello"))
    assert (reply.finish_reason, reply.usage, reply.model) == (FinishReason.STOP, Usage(10, 5), "qwen3:8b")
    assert reply.extra == {"total_duration": 7, "load_duration": 3, "remote_host": "https://ollama.com"}
    assert reply.message.extra == {"ollama": {"new": {"a": 1}}}


async def test_calls_keep_the_words_of_the_model_and_get_ids() -> None:
    raw = b'{"message":{"role":"assistant","content":"","tool_calls":[{"function":{"name":"add","arguments":'
    answer = raw + b'{"a": 1.0, "a" : 1e2}}},{"function":{"name":"add"}}]},"done":false}\n' + lines(DONE)

    reply = await at(answer).complete(HELLO)

    assert reply.message.tool_calls == (ToolCall("call_0", "add", '{"a": 1.0, "a" : 1e2}'), ToolCall("call_1", "add"))
    assert reply.finish_reason is FinishReason.TOOL_CALLS


async def test_a_cache_point_is_left_out_and_the_meta_says_so() -> None:
    request = ModelRequest("m", (Message.user((Text("hi"), CachePoint())),))

    assert body(request)["messages"] == [{"role": "user", "content": "hi"}]
    notes = (await at(lines(DONE)).complete(request)).meta.notes
    assert notes == ("the cache points were left out: Ollama keeps its cache by itself",)
    assert (await at(lines(DONE)).complete(HELLO)).meta.notes == ()


async def test_a_model_that_was_only_loaded_is_another_end() -> None:
    reply = await at(lines({**DONE, "done_reason": "load"})).complete(HELLO)

    assert (reply.finish_reason, reply.extra["finish_reason"]) == (FinishReason.OTHER, "load")


@pytest.mark.parametrize(
    ("answer", "kind", "told"),
    [
        (lines({"error": "model runner has unexpectedly stopped"}), "unavailable", "unexpectedly stopped"),
        (lines({"error": "no such tool", "status": 400}), "bad_request", "no such tool"),
        (lines({"message": {"content": "Hel"}, "done": False}), "stream_broken", "no line said that it is done"),
        ('{"message": {"content": "北'.encode()[:-1], "stream_broken", "broke off"),
        (lines({"done": True}), "protocol", "without any content or done_reason"),
        (lines({"message": {"tool_calls": [{"function": {}}]}}), "protocol", "a tool call names no function"),
        (lines({"message": {"tool_calls": [{"function": {"name": "a"}}] * 1025}}), "protocol", "more than 1,024"),
        (b"", "protocol", "answered with an empty stream"),
    ],
)
async def test_an_answer_that_is_no_reply_is_an_error_of_its_kind(answer: bytes, kind: str, told: str) -> None:
    with pytest.raises(ProviderError, match=told) as caught:
        await at(answer).complete(HELLO)

    assert caught.value.kind == kind


# ---- what to do -----------------------------------------------------------------------------


async def test_a_server_that_is_stopped_is_named_with_what_to_do() -> None:
    provider = OllamaProvider("ollama", Server(base_url="http://127.0.0.1:9"))

    for ask in (provider.complete(HELLO), provider.list_models()):
        with pytest.raises(
            ProviderError, match=r"127\.0\.0\.1:9 cannot be reached.*To start it: ollama serve"
        ) as caught:
            await ask
        assert caught.value.kind is ProviderErrorKind.UNAVAILABLE
        assert caught.value.retryable
    await provider.close()


@pytest.mark.parametrize(
    ("status", "error", "told"),
    [
        (404, "model 'qwen3:8b' not found", "To get the model: pluggent ollama pull qwen3:8b"),
        (400, "the input length exceeds the context length", "A larger window: num_ctx"),
    ],
)
async def test_an_error_says_what_to_do(status: int, error: str, told: str) -> None:
    with pytest.raises(ProviderError, match=told) as caught:
        await at(lambda _: httpx2.Response(status, json={"error": error})).complete(HELLO)

    assert caught.value.status == status


# ---- the list -------------------------------------------------------------------------------


async def test_the_list_has_windows_as_far_as_the_server_says_them() -> None:
    def server(request: httpx2.Request) -> httpx2.Response:
        if request.url.path == "/api/tags":
            listed = [{"name": "a", "details": {"context_length": 8192}}, {"model": "b:1"}, {"model": "c"}]
            return httpx2.Response(200, json={"models": listed})
        asked = json.loads(request.content)["model"]
        if asked == "c":
            return httpx2.Response(404, json={"error": "gone"})
        return httpx2.Response(200, json={"model_info": {"qwen3.context_length": 40_960, "qwen3.x": 1}})

    listed = await at(server).list_models()

    assert [(model.id, model.context_window) for model in listed] == [("a", 8192), ("b:1", 40_960), ("c", None)]


# ---- settings -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"base_url": "http://127.0.0.1:11434/v1"}, "base_url: leave out /v1"),
        ({"keep_alive": "soon"}, "keep_alive: expected a duration such as 10m"),
        ({"num_ctx": -1}, "num_ctx: expected a whole number from 0"),
        ({"servers": {"ollama": Server(base_url="http://a")}}, "'ollama' cannot name a provider"),
    ],
)
def test_a_setting_that_makes_no_sense_is_refused(settings: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        Ollama.Settings(**settings)


def test_the_address_of_the_environment_is_read_as_ollama_reads_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OLLAMA_HOST", "gpu.example")
    (provider,) = Ollama().provide_providers(ProvideEvent())

    assert provider.target == "http://gpu.example:11434"
    assert url_of("[::1]:8080") == "http://[::1]:8080"
    assert url_of(":8080") == "http://127.0.0.1:8080"
    assert url_of("https://gpu.example/ollama/") == "https://gpu.example/ollama"
