"""The settings that every provider over HTTP has: what is refused, and where requests go."""

import pytest
from pluggent_hookspecs import Secret
from pluggent_provider_http.endpoint import Endpoint, target_of, url_below


@pytest.mark.parametrize(
    "url",
    [
        "ftp://x/v1",
        "api.openai.com/v1",
        "http://",
        "http://x:port/",
        "http://[::1/",
        "https://user:pass@x/v1",
        "https://sk-1@x",
    ],
)
def test_a_base_url_that_cannot_be_used_is_refused_without_showing_it(url):
    with pytest.raises(ValueError, match="base_url") as caught:
        Endpoint(base_url=url)

    assert "pass" not in str(caught.value).replace("password", "")
    assert "sk-1" not in str(caught.value)


@pytest.mark.parametrize("limit", ["connect_s", "first_byte_s", "silence_s", "max_response_bytes"])
@pytest.mark.parametrize("value", [0, -1])
def test_limits_are_more_than_nothing(limit, value):
    with pytest.raises(ValueError, match=limit):
        Endpoint(base_url="http://x", **{limit: value})


@pytest.mark.parametrize("headers", [{"x": "\u00e9"}, {"x": "a\nb"}, {"": "a"}, {"x\r": "a"}])
def test_headers_that_cannot_be_sent_are_refused_without_their_value(headers):
    with pytest.raises(ValueError, match="headers") as caught:
        Endpoint(base_url="http://x", headers=headers)

    assert "\u00e9" not in str(caught.value)


@pytest.mark.parametrize(
    ("base", "endpoint"),
    [
        ("http://x/v1", "http://x/v1/chat/completions"),
        ("http://x/v1/", "http://x/v1/chat/completions"),
        ("http://x", "http://x/chat/completions"),
        ("http://x/d?api-version=1", "http://x/d/chat/completions?api-version=1"),
    ],
)
def test_requests_go_below_the_base_url(base, endpoint):
    assert url_below(base, "/chat/completions") == endpoint


@pytest.mark.parametrize("base", ["http://x/v1", "http://x/v1/?a=b"])
def test_a_query_is_added_to_the_one_that_is_there(base):
    assert url_below(base, "/models", {"after": "a&b"}).endswith("after=a%26b")
    assert url_below(base, "/models") == url_below(base, "/models", {})


def test_a_target_shows_nothing_secret():
    assert target_of("https://u:p@x/v1/?key=hush#hush") == "https://x/v1"


def test_an_endpoint_shows_neither_key_nor_headers():
    shown = repr(Endpoint(base_url="http://x", api_key=Secret.of("sk-1"), headers={"x-token": "hush"}))

    assert "sk-1" not in shown
    assert "hush" not in shown


def test_headers_cannot_be_changed_afterwards():
    headers = {"x-team": "a"}
    endpoint = Endpoint(base_url="http://x", headers=headers)
    headers["x-team"] = "b"

    with pytest.raises(TypeError):
        endpoint.headers["x-team"] = "b"  # type: ignore[index]
    assert endpoint.headers == {"x-team": "a"}
