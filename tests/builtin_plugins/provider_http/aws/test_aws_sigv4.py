"""Signatures: as the vendor's documents and its own library make them."""

from __future__ import annotations

from datetime import UTC, datetime
from importlib import import_module
from typing import Any
from urllib.parse import quote, urlencode

import pytest
from hypothesis import given, strategies as st
from pluggent_provider_http.aws.sigv4 import Credentials, Scope, signed

WHO = Credentials("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY")
SCOPE = Scope("us-east-1", "service")
NOW = datetime(2015, 8, 30, 12, 36, tzinfo=UTC).timestamp()
FORM = "application/x-www-form-urlencoded"


# From the vendor's test suite of signatures (aws-sig-v4-test-suite), by the names of its cases.
@pytest.mark.parametrize(
    ("method", "path", "headers", "body", "signature"),
    [
        ("GET", "/", {}, b"", "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"),
        ("POST", "/", {}, b"", "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"),
        ("GET", "/?Param2=value2&Param1=value1", {}, b"",
         "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500"),
        ("POST", "/", {"content-type": FORM}, b"Param1=value1",
         "ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a"),
    ],
    ids=["get-vanilla", "post-vanilla", "get-vanilla-query-order-key-case", "post-x-www-form-urlencoded"],
)  # fmt: skip
def test_a_signature_is_the_one_of_the_vendors_test_suite(method, path, headers, body, signature):
    made = signed(method, f"https://example.amazonaws.com{path}", headers, body, WHO, SCOPE, NOW)

    assert made["x-amz-date"] == "20150830T123600Z"
    assert made["authorization"].rpartition("Signature=")[2] == signature


def test_the_token_of_a_session_is_sent_and_signed():
    made = signed("GET", "https://example.org/", {}, b"", Credentials("AK", "SK", "tok"), SCOPE, NOW)

    assert made["x-amz-security-token"] == "tok"
    assert "SignedHeaders=host;x-amz-date;x-amz-security-token," in made["authorization"]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("https://example.org/", "https://example.org:443/"),
        ("http://example.org/", "http://example.org:80/"),
        ("https://example.org", "https://example.org/"),
        ("https://EXAMPLE.org/", "https://user@example.org/"),
    ],
)
def test_the_host_is_signed_as_it_is_sent(one, other):
    assert signed("GET", one, {}, b"", WHO, SCOPE, NOW) == signed("GET", other, {}, b"", WHO, SCOPE, NOW)


def test_what_is_secret_is_not_shown():
    assert "SECRET" not in repr(Credentials("AK", "SECRET", "SECRET"))


paths = st.lists(st.text(st.characters(codec="ascii", categories=["L", "N"]) | st.sampled_from("-._~"), min_size=1))


@given(
    path=paths,
    model=st.text(max_size=30),
    query=st.dictionaries(st.text(max_size=8), st.text(max_size=8), max_size=4),
    body=st.binary(max_size=200),
    token=st.sampled_from(["", "tok/+="]),
    header=st.text(st.characters(codec="ascii", categories=["L", "N", "P", "Zs"]), max_size=20),
)
def test_a_signature_is_the_one_that_botocore_makes(path, model, query, body, token, header):
    auth = pytest.importorskip("botocore.auth", reason="botocore, which is only compared with, is not installed")
    url = url_of(path, model, query)
    headers = {"content-type": "application/json", "x-own": header}
    theirs, date = by_botocore(auth, url, dict(headers), body, token)
    now = datetime.strptime(date, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC).timestamp()

    made = signed("POST", url, headers, body, Credentials("AK", "SK", token), Scope("eu-west-1", "bedrock"), now)

    assert made["authorization"] == theirs


def url_of(path: list[str], model: str, query: dict[str, str]) -> str:
    asked = f"?{urlencode(query)}" if query else ""
    segments = [segment for segment in path if segment not in (".", "..")]
    whole = "/".join(["", *segments, f"m{quote(model, safe='')}", "x"])
    return f"https://bedrock-runtime.eu-west-1.amazonaws.com{whole}{asked}"


def by_botocore(auth: Any, url: str, headers: dict[str, str], body: bytes, token: str) -> tuple[str, str]:
    request = import_module("botocore.awsrequest").AWSRequest("POST", url, headers=headers, data=body)
    who = import_module("botocore.credentials").Credentials("AK", "SK", token or None)
    auth.SigV4Auth(who, "bedrock", "eu-west-1").add_auth(request)
    return request.headers["Authorization"], request.headers["X-Amz-Date"]
