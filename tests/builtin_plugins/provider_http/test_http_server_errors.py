"""What a refusal means: statuses, bodies and headers of real servers."""

import json
from email.utils import formatdate

import pytest
from each_of import each_of
from pluggent_hookspecs import ProviderErrorKind as Kind
from pluggent_provider_http.retry_hints import retry_after
from pluggent_provider_http.server_errors import Faults

KEY = "sk-secret-0123456789"
FAULTS = Faults("openai", "https://api.x/v1", "gpt-9", (KEY,))


def error(status: int, body: object = "", **headers: str):
    data = body.encode() if isinstance(body, str) else json.dumps(body).encode()
    return FAULTS.from_status(status, {name.replace("_", "-"): value for name, value in headers.items()}, data)


def said(message: str, **more):
    return {"error": {"message": message, **more}}


@each_of(
    ("status", "kind"),
    [
        (301, Kind.BAD_REQUEST), (400, Kind.BAD_REQUEST), (401, Kind.AUTHENTICATION), (402, Kind.BAD_REQUEST),
        (403, Kind.AUTHENTICATION), (404, Kind.BAD_REQUEST), (405, Kind.BAD_REQUEST), (408, Kind.TIMEOUT),
        (409, Kind.UNAVAILABLE), (413, Kind.BAD_REQUEST), (422, Kind.BAD_REQUEST), (425, Kind.UNAVAILABLE),
        (429, Kind.RATE_LIMITED), (500, Kind.UNAVAILABLE), (502, Kind.UNAVAILABLE), (503, Kind.UNAVAILABLE),
        (504, Kind.TIMEOUT), (529, Kind.UNAVAILABLE), (599, Kind.UNAVAILABLE),
    ],
)  # fmt: skip
@each_of("body", ["", "<html>oops</html>", said("oops"), {"detail": "oops"}, {"error": "oops"}, [said("oops")]])
def test_a_status_has_its_kind_whatever_the_body(status, kind, body):
    found = error(status, body)

    assert (found.kind, found.status, found.provider) == (kind, status, "openai")
    assert body == "" or "oops" in str(found)


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (429, said("You exceeded your current quota", code="insufficient_quota"), Kind.BAD_REQUEST),
        (429, said("You exceeded your current quota", type="insufficient_quota"), Kind.BAD_REQUEST),
        (400, said("no", code="content_policy_violation"), Kind.REFUSED),
        (400, said("no", code="content_filter"), Kind.REFUSED),
        (
            413,
            said("Request too large for m: Limit 10000, Requested 20000", code="rate_limit_exceeded"),
            Kind.CONTEXT_LENGTH,
        ),
        (429, said("Request too large for m on tokens per min (TPM): Limit 10, Requested 20"), Kind.CONTEXT_LENGTH),
        (503, said("the context size of the cache"), Kind.UNAVAILABLE),
        (401, said("maximum context length is 5 tokens"), Kind.AUTHENTICATION),
    ],
)
def test_codes_and_words_say_more_than_the_status(status, body, kind):
    assert error(status, body).kind is kind


def test_an_empty_account_is_not_worth_another_try_and_says_so():
    found = error(429, said("You exceeded your current quota", code="insufficient_quota"))

    assert not found.retryable
    assert "no credit left" in str(found)


def test_a_balance_that_is_too_low_is_said_in_words_alone_and_is_no_credit():
    body = said("Your credit balance is too low to access the Anthropic API.", type="invalid_request_error")

    assert "no credit left" in str(error(400, body))


@pytest.mark.parametrize(
    ("message", "actual", "limit"),
    [
        ("maximum context length is 8192 tokens. However, your messages resulted in 10000 tokens.", 10000, 8192),
        ("maximum context length is 4097 tokens. However, you requested 5000 tokens (4000 in the messages", 5000, 4097),
        ("maximum context length is 32,768 tokens. However, you requested about 40,001 tokens.", 40001, 32768),
        ("maximum context length is 4096 tokens. However, your request has 5001 input tokens.", 5001, 4096),
        ("You passed 5001 input tokens … However, the model's context length is only 4096 tokens", 5001, 4096),
        ("request (9000 tokens) exceeds the available context size (4096 tokens), try increasing it", 9000, 4096),
        ("Prompt contains 400 tokens … too large for model with 300 maximum context length", 400, 300),
        ("prompt is too long: 210000 tokens > 200000 maximum", 210000, 200000),
        ("The input token count (1200) exceeds the maximum number of tokens allowed (1048).", 1200, 1048),
        ("This model's maximum prompt length is 131072 but the request contains 140000 tokens.", 140000, 131072),
        ("`inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000 `inputs` tokens and 100", 5000, 4096),
        ("The prompt is too long: 5000, model maximum context length: 4096", 5000, 4096),
        ("Please reduce the length: it exceeds the context window of this model", None, None),
    ],
)
def test_a_request_that_is_too_long_says_by_how_much(message, actual, limit):
    found = error(400, said(message))

    assert (found.kind, found.actual, found.limit) == (Kind.CONTEXT_LENGTH, actual, limit)


def test_the_code_alone_says_that_a_request_is_too_long():
    found = error(400, said("Please reduce the length of the messages", code="context_length_exceeded"))

    assert (found.kind, found.actual, found.limit) == (Kind.CONTEXT_LENGTH, None, None)


def test_counts_beside_the_message_are_used():
    found = error(400, said("too big", type="exceed_context_size_error", n_prompt_tokens=9000, n_ctx=4096))

    assert (found.kind, found.actual, found.limit) == (Kind.CONTEXT_LENGTH, 9000, 4096)


def test_a_missing_model_is_named_with_what_to_check():
    found = str(error(404, said("The model does not exist", code="model_not_found")))

    assert "gpt-9" in found
    assert "base_url" in found


def test_the_key_is_taken_out_of_what_the_server_echoes():
    found = error(401, said(f"Incorrect API key provided: {KEY}."))

    assert KEY not in str(found) + repr(found) + found.message + repr(FAULTS)
    assert "[secret]" in str(found)


def test_the_key_is_taken_out_before_a_body_is_cut():
    found = error(400, "x" * 495 + KEY)

    assert KEY[:4] not in str(found)


def test_a_long_body_is_cut_and_says_how_long_it_was():
    found = str(error(400, "x" * 10_000))

    assert len(found) < 700
    assert "(10,000 characters)" in found


def test_control_characters_of_a_body_are_not_shown():
    assert "\x1b" not in str(error(400, "\x1b[31mred\x07\x00"))


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "2"}, 2.0),
        ({"retry-after": "0"}, 0.0),
        ({"retry-after": "1.5"}, 1.5),
        ({"retry-after": "3600"}, 3600.0),
        ({"retry-after-ms": "250"}, 0.25),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"retry-after-ms": "soon", "retry-after": "9"}, 9.0),
        ({"retry-after": formatdate(1000 + 30, usegmt=True)}, 30.0),
        ({"retry-after": formatdate(1000 - 30, usegmt=True)}, 0.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": ""}, None),
        ({"retry-after": "-5"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "1e999"}, None),
        ({"retry-after": "Fri, 99 Foo 2026 99:99:99 GMT"}, None),
    ],
)
def test_retry_after_is_read_in_every_form(headers, seconds):
    assert retry_after(headers, now=1000.0) == seconds


def test_retry_after_is_a_fact_of_the_error():
    assert error(429, retry_after="7").retry_after == 7.0
    assert error(503, retry_after_ms="1500").retry_after == 1.5


def test_a_body_that_is_not_utf_8_is_shown_as_far_as_it_goes():
    found = FAULTS.from_status(500, {}, b'{"error": {"message": "oops \xff"}}')

    assert found.kind is Kind.UNAVAILABLE
    assert "oops" in str(found)


@pytest.mark.parametrize("header", ["x-request-id", "request-id"])
def test_the_request_is_named_for_the_vendors_support(header):
    found = FAULTS.from_status(500, {header: f"req_1 {KEY}"}, b"oops")

    assert str(found).endswith("answered 500 (request req_1 [secret]): oops")


@pytest.mark.parametrize(
    ("word", "kind"),
    [
        ("overloaded_error", Kind.UNAVAILABLE), ("api_error", Kind.UNAVAILABLE), ("billing_error", Kind.BAD_REQUEST),
        ("rate_limit_error", Kind.RATE_LIMITED), ("request_too_large", Kind.BAD_REQUEST),
        ("timeout_error", Kind.TIMEOUT), ("authentication_error", Kind.AUTHENTICATION), ("", Kind.UNAVAILABLE),
    ],
)  # fmt: skip
def test_an_error_inside_an_answer_has_its_kind_by_its_words(word, kind):
    assert FAULTS.from_payload({"error": {"type": word, "message": "no"}}).kind is kind


def test_advice_names_the_path_that_requests_append():
    named = Faults("acme", "https://x", "m", path="/say")

    assert "does base_url end where /say follows?" in str(named.from_status(404, {}, b""))


@pytest.mark.parametrize("code", ["9" * 5000, 10**300, 1e300, "\u00b2", [[]], True, "099", "600"])
def test_a_code_that_is_none_is_no_status_and_no_other_failure(code):
    found = FAULTS.from_payload({"error": {"message": "oops", "code": code}})

    assert (found.kind, found.status) == (Kind.UNAVAILABLE, None)


@pytest.mark.parametrize(
    "words", ["maximum context length is 1 tokens ", "request too large limit 1, ", "contains 1 tokens "]
)
@pytest.mark.parametrize("place", ["message", "failed_generation", "metadata"])
def test_a_sentence_of_megabytes_does_not_hold_up_the_event_loop(words, place):
    long = words * 100_000  # what is searched for in all of it takes minutes
    found = FAULTS.from_payload({"error": {place: {"raw": long} if place == "metadata" else long}})

    assert len(str(found)) < 700
