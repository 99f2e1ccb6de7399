"""What one request changes of the operator's settings: headers that are allowed, shorter waits, the vendor's cache."""

import asyncio
from typing import Any

import pytest
from anthropic_server import message, text
from odd_server import LEAVE, Answer, OddServer, deltas_of, json_answer, stream_answer
from openai_server import DONE, HELLO, REPLY, STOP
from pluggent_anthropic.plugin import Anthropic
from pluggent_hookspecs import Message, ModelParameters, ModelRequest, ModelTimeouts, ProviderError, Secret, ToolSpec
from pluggent_openai.plugin import OpenAI
from pluggent_provider_http.endpoint import Endpoint
from pluggent_testing.providers import opened

pytestmark = pytest.mark.usefixtures("patience")

KEY = "sk-secret-0123456789"
VALUE = "team-value-0123456789"
VENDORS = {
    "openai": (OpenAI, json_answer(REPLY), stream_answer(HELLO, STOP, DONE)),
    "anthropic": (Anthropic, json_answer(message(text("Hello"))), json_answer(message(text("Hello")))),
}
every_vendor = pytest.mark.parametrize("vendor", VENDORS)
either_way = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])


async def asked(
    vendor: str, given: ModelParameters, *answers: Answer, stream: bool = False, tools: Any = (), **settings: Any
) -> OddServer:
    """Ask a server of *vendor* with the parameters *given*, and return it."""
    plugin, whole, streamed = VENDORS[vendor]
    async with OddServer(*(answers or ((streamed if stream else whole),))) as server:
        at: dict[str, Any] = {"base_url": server.url, "api_key": Secret.of(KEY), **settings}
        if vendor == "anthropic":
            at["stream"] = False
        elif "compat" not in at:
            at["compat"] = {"like": "openai"}
        async with opened(plugin(plugin.Settings(**at))) as provider:
            request = ModelRequest("m", (Message.user("hello"),), tools, given)
            if stream:
                await deltas_of(provider, request)
            else:
                await provider.complete(request)
    return server


# ---- headers


@every_vendor
@either_way
async def test_a_header_that_the_operator_allows_is_sent(vendor, stream):
    given = ModelParameters(headers={"X-Team": VALUE})

    server = await asked(vendor, given, stream=stream, allow_headers=("x-team",), headers={"X-Team": "usual"})

    assert server.requests[0].headers["x-team"] == VALUE


@every_vendor
@pytest.mark.parametrize("name", ["X-Other", "Authorization", "Host", "x-api-key", "X-Team\r\nHost"])
async def test_a_header_that_is_not_allowed_is_refused_without_its_value(vendor, name):
    with pytest.raises(ProviderError, match="is not allowed; allowed are x-team") as caught:
        await asked(vendor, ModelParameters(headers={name: VALUE}), allow_headers=("X-Team",))

    assert caught.value.kind == "bad_request"
    assert VALUE not in str(caught.value)


@every_vendor
async def test_without_the_setting_no_header_is_allowed(vendor):
    with pytest.raises(ProviderError, match=r"none is \(setting allow_headers\)"):
        await asked(vendor, ModelParameters(headers={"X-Team": VALUE}))


@every_vendor
@pytest.mark.parametrize("value", ["a\nb", "ä", "a\x00"])
async def test_a_value_that_no_header_can_carry_is_refused_unseen(vendor, value):
    with pytest.raises(ProviderError, match="not printable ASCII") as caught:
        await asked(vendor, ModelParameters(headers={"X-Team": value + VALUE}), allow_headers=("X-Team",))

    assert VALUE not in str(caught.value)


@every_vendor
async def test_a_value_that_the_server_repeats_is_taken_out(vendor):
    refusal = json_answer({"error": {"message": f"no team {VALUE}"}}, 400)

    with pytest.raises(ProviderError, match="no team") as caught:
        await asked(vendor, ModelParameters(headers={"X-Team": VALUE}), refusal, allow_headers=("X-Team",))

    assert VALUE not in str(caught.value)


def test_values_of_headers_are_in_no_repr():
    given = ModelParameters(headers={"X-Team": VALUE})

    assert VALUE not in repr(ModelRequest("m", (), (), given))
    assert "headers=['X-Team']" in repr(given)


@pytest.mark.parametrize(
    "name",
    ["authorization", "Host", "X-Api-Key", "api-key", "Cookie", "Content-Length", "x-amz-date", "proxy-x", "ä", ""],
)
def test_no_setting_allows_what_says_who_asks_or_how_a_request_is_read(name):
    with pytest.raises(ValueError, match="allow_headers: "):
        Endpoint(base_url="http://x", allow_headers=("x-team", name))


# ---- waits


@every_vendor
@either_way
async def test_a_request_waits_for_less_time_than_the_operator_has_set(vendor, stream):
    given = ModelParameters(timeouts=ModelTimeouts(first_byte_s=0.02))

    with pytest.raises(ProviderError, match=r"no answer .* within 0\.02 s") as caught:
        await asked(vendor, given, (LEAVE,), stream=stream)

    assert caught.value.kind == "timeout"


@every_vendor
async def test_a_request_never_waits_longer_than_the_operator_has_set(vendor):
    given = ModelParameters(timeouts=ModelTimeouts(connect_s=900, first_byte_s=900, silence_s=900))

    with pytest.raises(ProviderError, match=r"within 0\.02 s"):
        await asked(vendor, given, (LEAVE,), first_byte_s=0.02)


@either_way
async def test_silence_in_an_answer_is_waited_out_for_less_time(stream):
    begun = (b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: 900\r\n\r\n" + HELLO, LEAVE)

    with pytest.raises(ProviderError, match=r"no more of the answer .* within 0\.02 s"):
        await asked("openai", ModelParameters(timeouts=ModelTimeouts(silence_s=0.02)), begun, stream=stream)


@every_vendor
@pytest.mark.parametrize("seconds", [0, -1, float("nan")])
async def test_a_wait_that_is_none_is_refused(vendor, seconds):
    with pytest.raises(ProviderError, match=r"timeouts\.silence_s: expected more than 0") as caught:
        await asked(vendor, ModelParameters(timeouts=ModelTimeouts(silence_s=seconds)))

    assert caught.value.kind == "bad_request"


async def test_one_request_shortens_the_waits_of_no_other():
    async with (
        OddServer((LEAVE,), json_answer(REPLY)) as server,
        opened(OpenAI(OpenAI.Settings(base_url=server.url, api_key=None))) as provider,
    ):
        hasty = ModelParameters(timeouts=ModelTimeouts(first_byte_s=0.01))
        with pytest.raises(ProviderError):
            await provider.complete(ModelRequest("m", (Message.user("hello"),), (), hasty))
        async with asyncio.timeout(10):
            reply = await provider.complete(ModelRequest("m", (Message.user("hello"),)))

    assert reply.message.text == "Hello"


# ---- the vendor's cache

ADD = (ToolSpec("add", "Adds."),)


@pytest.mark.parametrize(
    ("usual", "wished", "mark"),
    [
        ("5m", None, {"type": "ephemeral"}),
        ("5m", "auto", {"type": "ephemeral"}),
        ("5m", "1h", {"type": "ephemeral", "ttl": "1h"}),
        ("off", "5m", {"type": "ephemeral"}),
        ("off", "auto", None),
        ("1h", "off", None),
    ],
)
async def test_a_request_says_how_long_its_beginning_is_kept(usual, wished, mark):
    server = await asked("anthropic", ModelParameters(cache=wished), tools=ADD, cache=usual)

    sent = server.requests[0].json
    assert sent["tools"][0].get("cache_control") == mark
    assert sent["messages"][-1]["content"][-1].get("cache_control") == mark


async def test_a_first_question_is_kept_if_the_request_wishes_it():
    server = await asked("anthropic", ModelParameters(cache="1h"))

    (block,) = server.requests[0].json["messages"][0]["content"]
    assert block["cache_control"] == {"type": "ephemeral", "ttl": "1h"}


async def test_a_time_that_the_vendor_does_not_keep_anything_for_is_refused():
    with pytest.raises(ProviderError, match=r"parameters\.cache: .* for 5m or 1h, not '2d'"):
        await asked("anthropic", ModelParameters(cache="2d"))


@pytest.mark.parametrize(
    ("wished", "sent"), [(None, None), ("auto", None), ("off", {"mode": "explicit"}), ("30m", {"ttl": "30m"})]
)
async def test_openai_is_told_what_to_keep(wished, sent):
    server = await asked("openai", ModelParameters(cache=wished))

    assert server.requests[0].json.get("prompt_cache_options") == sent


async def test_a_server_that_is_not_known_to_have_such_a_field_is_not_asked():
    with pytest.raises(ProviderError, match="not known to have such a field"):
        await asked("openai", ModelParameters(cache="off"), compat={"like": "vllm"})
