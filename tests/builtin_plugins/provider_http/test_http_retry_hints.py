"""What servers say of another try, in headers and in bodies of errors."""

import json
from urllib.parse import quote

import pytest
from pluggent_hookspecs import ProviderErrorKind as Kind
from pluggent_provider_http.retry_hints import limit_reset, retry_delay, should_retry
from pluggent_provider_http.server_errors import Faults

NOW = 1_700_000_000.0
KEY = 'sk-Aa1/+="<0123456789abcdefghij'
LOWER = quote(KEY, safe="").replace("%2F", "%2f").replace("%3C", "%3c")
FAULTS = Faults("acme", "https://api.x/v1", "m", (KEY,))
TOO_LONG = "This model's maximum context length is 8192 tokens. However, your messages resulted in 9001 tokens."


def refusal(status: int, error: object, **headers: str):
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return FAULTS.from_status(status, named, json.dumps({"error": error}).encode())


# ---- waits ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"x-ratelimit-reset": "1700000030000"}, 30.0),
        ({"x-ratelimit-reset": "1700000030"}, 30.0),
        ({"x-ratelimit-reset": "1600000000"}, 0.0),
        ({"x-ratelimit-reset": "30"}, 30.0),
        ({"ratelimit-reset": "30"}, 30.0),
        ({"x-ratelimit-reset": "6m0s"}, 360.0),
        ({"x-ratelimit-reset": "120ms"}, 0.12),
        ({"x-ratelimit-reset": "2023-11-14T22:13:50Z"}, 30.0),
        ({"x-ratelimit-reset": "2023-11-14T22:13:50"}, None),
        ({"x-ratelimit-reset": "30", "x-ratelimit-remaining": "5"}, None),
        ({"x-ratelimit-reset": "30", "x-ratelimit-remaining": "0"}, 30.0),
        ({"x-ratelimit-reset-requests": "7s", "x-ratelimit-remaining-requests": "0"}, 7.0),
        ({"x-ratelimit-reset-requests": "7s", "x-ratelimit-remaining-requests": "3"}, None),
        ({"x-ratelimit-reset-requests": "7s"}, None),
        (
            {
                "x-ratelimit-reset-requests": "1h", "x-ratelimit-remaining-requests": "9",
                "x-ratelimit-reset-tokens": "1m30s", "x-ratelimit-remaining-tokens": "0",
            },
            90.0,
        ),
        *(({"x-ratelimit-reset": text}, None) for text in ("soon", "", "-5", "nan", "inf", "s", "1e999", "9" * 400)),
    ],
)  # fmt: skip
def test_the_reset_of_the_limit_that_was_hit_is_read_in_every_form(headers, seconds):
    assert limit_reset(headers, NOW) == seconds


@pytest.mark.parametrize(
    "details", [None, 7, [], [7], ["x"], [{}], [{"retryDelay": 7}], [{"retryDelay": "soon"}], [{"retryDelay": "-1s"}]]
)
def test_details_without_a_delay_give_none(details):
    assert retry_delay({"details": details}) is None


def test_a_wait_stands_in_the_body_of_some_servers():
    info = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34.5s"}
    google = {"code": 429, "message": "Quota exceeded", "status": "RESOURCE_EXHAUSTED", "details": [{}, info]}
    openrouter = {"code": 429, "message": "Rate limit", "metadata": {"headers": {"X-RateLimit-Reset": "20"}}}

    assert refusal(429, google).retry_after == 34.5
    assert refusal(429, google, retry_after="2").retry_after == 2.0
    assert refusal(429, openrouter).retry_after == 20.0
    assert refusal(429, {}, x_ratelimit_reset="9").retry_after == 9.0
    assert refusal(503, {}, x_ratelimit_reset="9").retry_after is None
    assert FAULTS.from_payload({"error": google}).retry_after == 34.5


# ---- whether ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "meant"), [("true", True), ("False ", False), ("", None), ("perhaps", None), (None, None)]
)
def test_what_the_server_says_of_another_try_counts(said, meant):
    headers = {} if said is None else {"x-should-retry": said}

    assert should_retry(headers) is meant
    for status, usual in ((429, True), (400, False)):
        found = FAULTS.from_status(status, headers, b"")
        assert found.retryable is (usual if meant is None else meant)
    assert FAULTS.from_status(429, headers, b"").kind is Kind.RATE_LIMITED


# ---- why --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "raw",
    [
        TOO_LONG, json.dumps({"error": {"message": TOO_LONG}}), {"error": {"message": TOO_LONG}}, {"message": TOO_LONG},
        json.dumps({"error": {"message": "Provider returned error", "metadata": {"raw": TOO_LONG}}}),
    ],
)  # fmt: skip
def test_what_the_server_behind_a_gateway_said_is_shown_and_decides(raw):
    found = refusal(400, {"message": "Provider returned error", "code": 400, "metadata": {"raw": raw}})

    assert (found.kind, found.actual, found.limit) == (Kind.CONTEXT_LENGTH, 9001, 8192)
    assert f"Provider returned error: {TOO_LONG[:40]}" in str(found).replace("error: Provider returned ", "")


@pytest.mark.parametrize("raw", [None, 7, [], {}, "", {"error": {"metadata": {"raw": {"error": {}}}}}])
def test_a_gateway_that_says_nothing_more_adds_nothing(raw):
    found = refusal(502, {"message": "Provider returned error", "metadata": {"raw": raw}})

    assert str(found).endswith("answered 502: Provider returned error")


def test_what_the_model_wrote_in_place_of_a_call_is_shown():
    error = {"message": "Failed to call a function.", "code": "tool_use_failed", "failed_generation": "<add>{1}</add>"}

    assert str(refusal(400, error)).endswith("Failed to call a function.: the model wrote: <add>{1}</add>")


# ---- secrets ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "shown",
    [
        KEY, quote(KEY), quote(KEY, safe=""), LOWER, json.dumps(KEY),
        KEY.replace("/", r"\/"), KEY.replace('"', "&quot;").replace("<", "&lt;"), KEY[:-6], KEY[:16] + "...",
        "c2stQWExLys9IjwwMTIzNDU2Nzg5YWJjZGVmZ2hpag==",
    ],
)  # fmt: skip
@pytest.mark.parametrize("place", ["message", "metadata", "failed_generation", "body"])
def test_a_key_is_not_shown_however_the_server_spells_it(shown, place):
    said = f"bad {shown}"
    error = {"metadata": {"metadata": {"raw": said}}, "body": said}.get(place, {place: said})
    found = str(refusal(401, error))

    assert "0123456789" not in found
    assert shown.strip('"')[:16] not in found
    assert "[secret]" in found


def test_no_error_is_longer_than_a_few_lines_or_more_than_one():
    long = "very long\n" * 100_000
    errors = [
        FAULTS.error(Kind.BAD_REQUEST, long), FAULTS.protocol(long), FAULTS.broken(long),
        refusal(400, {"message": long, "metadata": {"raw": long}, "failed_generation": long}),
        FAULTS.from_payload({"error": {"message": long}}), FAULTS.from_status(500, {"request-id": long}, b""),
        Faults("acme", "https://api.x/v1", long).from_status(404, {}, long.encode()),
    ]  # fmt: skip

    assert [error for error in errors if len(str(error)) > 1600 or "\n" in str(error)] == []
