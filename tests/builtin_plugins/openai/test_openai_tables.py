"""The tables of the README, walked row by row against a real server: they cannot lie, nor miss a field."""

import asyncio
import json
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import attrs
import pluggent_openai
import pytest
from each_of import each_of
from openai_server import DONE, LENT, OddServer, batches, event, json_answer, plugin_at, stream_answer
from pluggent_hookspecs import (
    AllowedTools,
    Image,
    Message,
    ModelParameters,
    ModelRequest,
    ModelTimeouts,
    ProviderError,
    Reasoning,
    Refusal,
    Reply,
    Text,
    ToolCall,
    ToolSpec,
    freeze,
)
from pluggent_openai.chat.content import NEVER_SENT, SENT_BACK
from pluggent_openai.chat.reply import ANSWER, CHOICE, COUNTERS, DETAILS, MESSAGE, finish_reason
from pluggent_openai.dialects import Dialect
from pluggent_openai.fields import KNOWN, OWNED

README = Path(pluggent_openai.__path__[0]).parent / "README.md"
WORDS = {each.__name__: each for each in (AllowedTools, Image, ModelTimeouts, Reasoning, Refusal, Text, ToolCall)}
TOOLS = (
    ToolSpec("add", "Adds."),
    ToolSpec("shell", extra={"openai": {"type": "custom", "format": {"type": "text"}}}),
)


def words(text: str) -> list[str]:
    """Return the words of *text*."""
    return text.split()


# The API's own list: https://developers.openai.com/api/reference/resources/chat (November 2026)
REQUEST = words("""audio frequency_penalty function_call functions logit_bias logprobs max_completion_tokens max_tokens
messages metadata modalities model moderation n parallel_tool_calls prediction presence_penalty prompt_cache_key
prompt_cache_options prompt_cache_retention reasoning_effort response_format safety_identifier seed service_tier
stop store stream stream_options temperature tool_choice tools top_logprobs top_p user verbosity
web_search_options""")
ANSWERED = words("""id object created model choices usage system_fingerprint service_tier metadata moderation
obfuscation""")
SAID = words("role content refusal annotations audio function_call tool_calls")
COUNTED = words("""prompt_tokens completion_tokens total_tokens prompt_tokens_details.audio_tokens
prompt_tokens_details.cache_write_tokens prompt_tokens_details.cached_tokens prompt_tokens_details.image_tokens
prompt_tokens_details.text_tokens completion_tokens_details.accepted_prediction_tokens
completion_tokens_details.audio_tokens completion_tokens_details.reasoning_tokens
completion_tokens_details.rejected_prediction_tokens completion_tokens_details.text_tokens""")


def table(first: str) -> list[list[str]]:
    """Return the rows of the table whose first heading is *first* and that has as many columns as it should."""
    lines = README.read_text("utf-8").splitlines()
    start = next(at for at, line in enumerate(lines) if line.startswith(first)) + 2
    rows = []
    for line in lines[start:]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.strip("|").split(" | ")])
    return rows


def code(cell: str) -> str:
    """Return what stands between the backticks of a cell."""
    return cell.strip().strip("`")


REQUESTS = table("| field | set by | sent |")
ANSWERS = table("| field | example | lands in | as |")
names = {code(row[0]) for row in REQUESTS}
paths = {code(row[0]) for row in ANSWERS}


def parameters(how: str) -> ModelParameters:
    # The README's own words, and no builtins.
    given = {} if how.startswith(("ModelRequest.", "stream()")) else eval(f"dict({how})", {**WORDS, "dict": dict})  # noqa: S307
    return ModelParameters(**given)


@each_of("row", REQUESTS, ids=lambda row: f"{code(row[0])}: {row[1]}")
async def test_a_field_of_a_request_is_sent_as_the_table_says(row):
    field, how, sent = code(row[0]), code(row[1]), row[2]
    asked = ModelRequest("m", (Message.user("hello"),), TOOLS, parameters(how))
    whole = {"choices": [{"message": {"content": "a"}, "finish_reason": "stop"}]}
    streamed = event({"choices": [{"index": 0, "delta": {"content": "a"}, "finish_reason": "stop"}]})

    async with OddServer(json_answer(whole), stream_answer(streamed, DONE)) as server, asyncio.timeout(10):
        plugin, provider = plugin_at(server.url, compat={"like": "openai"})
        async with plugin.open(LENT):
            for ask in (provider.complete, lambda request: batches(provider, request)):
                if sent.startswith("refused: "):
                    with pytest.raises(ProviderError, match=re.escape(sent.removeprefix("refused: "))):
                        await ask(asked)
                else:
                    await ask(asked)

    found = [request.json[field] for request in server.requests if field in request.json]
    only_streamed = field in ("stream", "stream_options")
    assert found == ([] if sent.startswith("refused") else [json.loads(code(sent))] * (1 if only_streamed else 2))


def placed(path: str, value: object) -> Any:
    """Return a whole answer with *value* at *path*."""
    answer: Any = {"choices": [{"message": {}, "finish_reason": "stop"}]}
    steps = re.findall(r"\w+", path)
    at = answer
    for step, after in pairwise(steps):
        empty: Any = [] if after.isdecimal() else {}
        if step.isdecimal():
            while len(at) <= int(step):
                at.append({"index": len(at), "message": {}})
            at = at[int(step)]
        else:
            at = at.setdefault(step, empty)
    at[steps[-1]] = value
    return answer


def as_chunks(answer: dict) -> bytes:
    """Return the same answer as a stream: a piece that only begins, the answer, the end."""
    choices = [{**choice, "delta": choice["message"]} for choice in answer["choices"]]
    for choice in choices:
        del choice["message"]
    begun = event({"choices": [{"index": 0, "delta": {"role": "assistant"}, "finish_reason": None}]})
    return begun + event({**answer, "choices": choices}) + DONE


@each_of("row", ANSWERS, ids=lambda row: f"{code(row[0])}: {row[1]}")
@each_of("stream", [False, True], ids=["whole", "streamed"])
async def test_a_field_of_an_answer_lands_where_the_table_says(row, stream):
    path, example, where, there = map(code, row)
    answer = placed(path, json.loads(example))

    async with (
        OddServer(stream_answer(as_chunks(answer)) if stream else json_answer(answer)) as server,
        asyncio.timeout(10),
    ):
        plugin, provider = plugin_at(server.url, compat={"like": "openai"})
        asked = ModelRequest("m", (Message.user("hello"),), TOOLS)
        async with plugin.open(LENT):
            seen: dict[str, object] = {}
            try:
                if stream:
                    collected = Reply()
                    collected.add(await batches(provider, asked))
                    seen["reply"] = collected.response()
                else:
                    seen["reply"] = await provider.complete(asked)
            except ProviderError as error:
                seen["error"] = error

    assert eval(where, {**WORDS, **seen}) == freeze(eval(there, dict(WORDS)))  # noqa: S307 (the README's own words)


def test_no_field_of_the_api_is_missing():
    assert set(REQUEST) - names == set()
    assert {name for name in ANSWERED if name not in ("choices", "usage")} - paths == set()
    assert {f"choices[0].message.{name}" for name in SAID} - paths == set()
    assert {f"usage.{name}" for name in COUNTED} - paths == set()


def test_no_field_that_the_code_knows_is_missing():
    sent = {*KNOWN, *OWNED} - {"extra_headers", "extra_query"}
    counted = {*COUNTERS, *(f"{name}.{inner}" for name, details in DETAILS.items() for inner in details)}

    assert sent - names == set()
    assert ANSWER - {"choices", "usage"} - paths == set()
    assert {f"choices[0].{name}" for name in CHOICE - {"message", "delta"}} - paths == set()
    assert {
        f"choices[0].message.{name}" for name in (MESSAGE | NEVER_SENT | SENT_BACK) - {"extra_content"}
    } - paths == set()
    assert {f"usage.{name}" for name in counted} - paths == set()


def test_every_neutral_parameter_has_its_row():
    told = " ".join(code(row[1]) for row in REQUESTS)

    assert [field.name for field in attrs.fields(ModelParameters) if f"{field.name}=" not in told] == []


def test_every_field_of_compat_has_its_row():
    rows = table("| field of `compat` |")

    told = [name for row in rows for name in re.findall(r"`(\w+)`", row[0])]

    assert told == list(dict.fromkeys(told))
    assert set(told) == {"like", *(field.name for field in attrs.fields(Dialect) if field.init)}


def test_the_table_of_reasons_is_what_is_read():
    for words, meant in table("| `finish_reason` of the server")[:-1]:
        for word in words.replace("`", "").split(", "):
            calling, silent = (finish_reason(word.upper(), calls=calls) for calls in (True, False))
            first, _, other = meant.replace("`", "").partition("; ")
            expected = {first, *other.split()[:1]}
            assert {calling, silent} == expected, word
