"""Keys, what must not be shown, and JSON whose shape is not trusted."""

import pytest
from pluggent_hookspecs import (
    PartDelta,
    ProviderError,
    ProviderErrorKind as Kind,
    ReasoningDelta,
    Secret,
    Text,
    TextDelta,
    ToolCallDelta,
)
from pluggent_provider_http.credentials import hidden, read_key
from pluggent_provider_http.delta_batch import Batch
from pluggent_provider_http.endpoint import Endpoint
from pluggent_provider_http.payload import MalformedError, as_count, as_list, as_object, as_text, decode, decode_whole
from pluggent_provider_http.server_errors import Faults

FAULTS = Faults("acme", "https://x")


def test_a_key_is_read_each_time_and_without_the_line_end_of_its_file(tmp_path):
    file = tmp_path / "key"
    secret = Secret(f"file:{file}")
    found = []
    for key in ("old\n", "new\n"):
        file.write_text(key, "utf-8")
        found.append(read_key(secret, FAULTS))

    assert found == ["old", "new"]


@pytest.mark.parametrize(
    "secret", [Secret("env:NO_SUCH_VARIABLE"), Secret.of("sk-ключ"), Secret.of("a\nb"), Secret.of(" ")]
)
def test_a_key_that_cannot_be_sent_is_an_authentication_error_that_does_not_show_it(secret):
    with pytest.raises(ProviderError) as caught:
        read_key(secret, FAULTS, "token")

    assert (caught.value.kind, caught.value.provider) == (Kind.AUTHENTICATION, "acme")
    assert "ключ" not in str(caught.value)


def test_keys_headers_their_words_and_the_query_are_hidden_the_longest_first():
    endpoint = Endpoint(
        base_url="https://x/v1?token=query%2D12345678&short=abc", headers={"authorization": "Bearer header-12345"}
    )

    found = hidden(endpoint, "key-12345678", "")

    assert set(found) == {
        "key-12345678", "Bearer header-12345", "header-12345", "query-12345678", "query%2D12345678",
    }  # fmt: skip
    assert list(map(len, found)) == sorted(map(len, found), reverse=True)


@pytest.mark.parametrize(
    "data",
    [
        b"", b"{", b"{'a':1}", b'{"a":Nan}', b'{"a":"\xff"}', b"[" * 100_000, b'"\xed\xa0\x80"', rb'"\ud83c"',
        rb'{"a": NaN, "b": "\ud83c"}', b'{"function": {"arguments": {"a": NaN}}}', b'{"input": {"a": [1e999]}}',
        b'{"a": NaN, "b": ' + b"[" * 100_000, b'\xef\xbb\xbf{"a": NaN}',
    ],
)  # fmt: skip
def test_what_is_no_json_is_malformed(data):
    with pytest.raises(MalformedError):
        decode(data)


def test_numbers_that_json_has_no_word_for_are_null():
    assert decode(b'{"a": [NaN, 1, -Infinity], "b": 1e999, "c": -1e5}') == {"a": [None, 1, None], "b": None, "c": -1e5}


def test_an_answer_of_megabytes_is_read_strictly_only():
    with pytest.raises(MalformedError):
        decode(b"[" + b"1," * 3_000_000 + b"NaN]")
    with pytest.raises(MalformedError):
        decode_whole(b'"' + rb"\\" * 1_000_000 + rb'\ud83c"')


@pytest.mark.parametrize("value", [None, 1, "x", True])
def test_shapes_that_are_others_are_named(value):
    with pytest.raises(MalformedError, match="the answer is not an object"):
        as_object(value, "the answer")
    with pytest.raises(MalformedError, match="the answer is not a list"):
        as_list(value, "the answer")
    assert as_text(value) == ("x" if value == "x" else "")
    assert as_count(value) == (1 if value == 1 and value is not True else None)


def test_neighbouring_pieces_of_text_and_of_thinking_become_one():
    batch = Batch()
    batch.grow(TextDelta, "a")
    batch.add_all((TextDelta("b"), ReasoningDelta("c"), ReasoningDelta("d"), ReasoningDelta("", "sig"), TextDelta("")))
    batch.add_all((ToolCallDelta(0, "i", "n"), PartDelta(Text("x"))))
    batch.grow(TextDelta, "")
    batch.grow(TextDelta, "e")

    assert batch.done() == [
        TextDelta("ab"), ReasoningDelta("cd"), ReasoningDelta("", "sig"), ToolCallDelta(0, "i", "n"),
        PartDelta(Text("x")), TextDelta("e"),
    ]  # fmt: skip
