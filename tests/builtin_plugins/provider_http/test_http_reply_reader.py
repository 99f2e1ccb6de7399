"""What a vendor's events add up to, read by read; and the providers of a plugin that is made of servers."""

from __future__ import annotations

from typing import Any, cast

import pytest
from odd_server import failure_in, read_all
from pluggent_hookspecs import Finished, ModelRequest, PluginContext, ProvideEvent, ProviderErrorKind as Kind, TextDelta
from pluggent_provider_http.delta_batch import Batch
from pluggent_provider_http.endpoint import Endpoint, check_names
from pluggent_provider_http.payload import MalformedError
from pluggent_provider_http.provider import Asked, HttpProvider
from pluggent_provider_http.reply_reader import ReplyReader
from pluggent_provider_http.server_errors import Faults
from pluggent_provider_http.servers_plugin import ServersPlugin

FAULTS = Faults("acme", "http://x/v1", "m")
LENT = cast("PluginContext", None)
END = b"data: end\n\n"


class Words:
    """Events that are words; ``end`` is the last one, ``odd`` is none, ``busy`` an error of the server."""

    def __init__(self) -> None:
        self.done = self.complete = False

    def take(self, payload: bytes, batch: Batch) -> None:
        match payload:
            case b"end":
                self.done = self.complete = True
            case b"odd":
                raise MalformedError("it is odd")
            case b"busy":
                raise FAULTS.error(Kind.UNAVAILABLE, "busy")
            case _:
                batch.grow(TextDelta, payload.decode())

    def finish(self, batch: Batch) -> None:
        if not self.complete:
            raise FAULTS.broken("broke off")
        batch.add(Finished())

    def take_whole(self, body: bytes, batch: Batch) -> None:
        if body != b'{"all"}':
            raise MalformedError("it is not all")
        batch.add_all((TextDelta("all"), Finished()))


def reader(max_event_bytes: int = 100) -> ReplyReader:
    return ReplyReader(Words(), FAULTS, max_event_bytes)


def test_each_read_is_a_batch_and_nothing_comes_after_the_end():
    reading = reader()

    assert reading.feed(b"data: a\n\ndata: b\n\ndata: c") == [TextDelta("ab")]
    assert reading.feed(b"\n\n" + END + b"data: d\n\n") == [TextDelta("c"), Finished()]
    assert (reading.done, reading.feed(b"data: e\n\n"), reading.end(), reading.failure) == (True, [], [], None)


def test_what_came_before_a_failure_in_the_same_read_is_handed_on():
    reading = reader()

    assert reading.feed(b"data: a\n\ndata: odd\n\n" + END) == [TextDelta("a")]
    assert "sent an event that is not a piece of a reply: it is odd: odd" in str(reading.failure)
    assert not reading.done


@pytest.mark.parametrize(
    ("sent", "kind", "said"),
    [
        (b"data: busy\n\n", Kind.UNAVAILABLE, "busy"),
        (b"data: a\n\n", Kind.STREAM_BROKEN, "broke off"),
        (b"data: a\n\ndata: odd", Kind.STREAM_BROKEN, "broke off inside an event"),
        (b"data: " + b"a" * 200, Kind.PROTOCOL, "an event of more than 100 bytes"),
        (b"", Kind.PROTOCOL, "answered with nothing"),
        (b"\xef\xbb\xbf\r\n ", Kind.PROTOCOL, "answered with nothing"),
        (b"<html>", Kind.PROTOCOL, "answered with what is not a reply: it is not all: <html>"),
    ],
)
def test_what_is_no_reply_is_an_error_that_says_why(sent: bytes, kind: Kind, said: str):
    error = failure_in(reader(), sent)

    assert error.kind is kind
    assert said in str(error)


def test_an_answer_that_came_at_once_is_a_reply_too():
    assert read_all(reader(), b'{"a', b'll"}') == [TextDelta("all"), Finished()]


class Made(HttpProvider[Endpoint]):
    closed = 0

    def asked(self, request: ModelRequest) -> Asked:
        return Asked("/say", b"", {}, FAULTS, Words())

    async def close(self) -> None:
        Made.closed += 1


async def test_a_plugin_makes_one_provider_for_each_server_once_and_closes_them():
    made: list[str] = []

    def make(name: str, server: Endpoint) -> Made:
        made.append(f"{name} {server.base_url}")
        return Made(name, server)

    plugin = ServersPlugin({"a": Endpoint(base_url="http://a/v1"), "b": Endpoint(base_url="http://b?key=1")}, make)
    assert made == []
    async with plugin.open(LENT):
        first, again = (list(plugin.provide_providers(ProvideEvent())) for _ in range(2))

    assert (first == again, made, Made.closed) == (True, ["a http://a/v1", "b http://b?key=1"], 2)
    assert repr(plugin) == "<ServersPlugin a at http://a/v1, b at http://b>"


@pytest.mark.parametrize("name", ["", "a/b", "acme"])
def test_a_name_that_no_other_server_can_have_is_refused(name: str):
    check: Any = check_names("acme")
    attribute: Any = type("Servers", (), {"name": "servers"})

    with pytest.raises(
        ValueError, match=r"servers: .* cannot name a provider; take a word without '/', other than acme"
    ):
        check(None, attribute, {"fine": 1, name: 2})
