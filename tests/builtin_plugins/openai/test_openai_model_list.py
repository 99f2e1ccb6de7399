"""The list of models, as servers give it."""

import asyncio

import pytest
from openai_server import CLOSE, KEY, LENT, OddServer, answer, json_answer, plugin_at
from pluggent_hookspecs import ListsModels, ModelInfo, ProviderError, ProviderErrorKind as Kind


async def listed(scripted, **settings):
    """Return what a server's answer makes, and the server that was asked."""
    async with OddServer(scripted) as server, asyncio.timeout(10):
        plugin, provider = plugin_at(server.url, **settings)
        async with plugin.open(LENT):
            return await provider.list_models(), server


async def failure(scripted, **settings) -> ProviderError:
    with pytest.raises(ProviderError) as caught:
        await listed(scripted, **settings)
    return caught.value


def test_the_provider_says_that_it_can():
    assert isinstance(plugin_at("http://127.0.0.1:1")[1], ListsModels)


async def test_the_list_of_openai_is_read():
    entry = {"id": "gpt-9", "object": "model", "created": 1700000000, "owned_by": "openai", "shutdown_date": None}

    found, server = await listed(json_answer({"object": "list", "data": [entry]}))

    assert found == (ModelInfo("gpt-9", "", 1700000000.0, extra={"owned_by": "openai"}),)
    assert server.requests[0].line == "GET /v1/models HTTP/1.1"
    assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"


@pytest.mark.parametrize(
    ("entry", "name", "window", "output"),
    [
        ({"id": "a", "context_window": 9, "max_completion_tokens": 5}, "", 9, 5),  # Groq
        ({"id": "a", "name": "A", "context_length": 9, "top_provider": {"max_completion_tokens": 5}}, "A", 9, 5),
        ({"id": "a", "display_name": "A", "context_length": 9}, "A", 9, None),  # Together
        ({"id": "a", "name": "a", "max_context_length": 9}, "", 9, None),  # Mistral
        ({"id": "a", "max_model_len": 9}, "", 9, None),  # vLLM
        ({"id": "a", "meta": {"n_ctx_train": 9}}, "", 9, None),  # llama.cpp
        ({"id": "a", "meta": None, "context_length": "9", "top_provider": 7}, "", None, None),
    ],
)
async def test_sizes_are_found_by_every_name(entry, name, window, output):
    (found,), _ = await listed(json_answer({"data": [entry]}))

    assert (found.id, found.name, found.context_window, found.max_output_tokens) == ("a", name, window, output)


@pytest.mark.parametrize(
    ("body", "ids"),
    [
        ([{"id": "a"}, {"id": "b"}], ["a", "b"]),
        ({"models": [{"model": "a"}, {"name": "b"}, "c"]}, ["a", "b", "c"]),
        ({"data": [7, {}, None, {"id": ""}, {"id": "a", "created": "long ago"}]}, ["a"]),
        ({"data": []}, []),
    ],
)
async def test_lists_of_other_shapes_are_read_too(body, ids):
    found, _ = await listed(json_answer(body))

    assert [model.id for model in found] == ids


@pytest.mark.parametrize(
    "body", ["", "oops", "7", "{}", '{"data": 7}', "[7]", "<html>", "[" * 50_000, '{"data": null}']
)
async def test_what_is_no_list_is_a_protocol_error(body):
    error = await failure(answer(body))

    assert error.kind is Kind.PROTOCOL
    assert len(str(error)) < 1000


async def test_what_python_cannot_nest_is_a_protocol_error():
    deep = '{"a":' * 990 + "1" + "}" * 990

    assert (await failure(answer(f'{{"data": [{{"id": "a", "x": {deep}}}]}}'))).kind is Kind.PROTOCOL


@pytest.mark.parametrize(
    ("scripted", "kind"),
    [
        (json_answer({"error": {"message": "no"}}, 401), Kind.AUTHENTICATION),
        (json_answer({"error": {"message": "no"}}, 429, {"retry-after": "3"}), Kind.RATE_LIMITED),
        (json_answer({"error": {"message": "no", "code": 503}}), Kind.UNAVAILABLE),
        (answer("", 404), Kind.BAD_REQUEST),
        ((CLOSE,), Kind.UNAVAILABLE),
    ],
)
async def test_errors_have_their_kind(scripted, kind):
    assert (await failure(scripted)).kind is kind


async def test_a_list_that_is_too_long_is_refused():
    error = await failure(json_answer({"data": [{"id": "x" * 5000}]}), max_response_bytes=1000)

    assert (error.kind, "max_response_bytes" in str(error)) == (Kind.PROTOCOL, True)


async def test_a_list_needs_its_key_too():
    error = await failure(json_answer({"data": []}, 401, {"x": KEY}))

    assert KEY not in str(error)
