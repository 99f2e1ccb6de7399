"""What a provider makes of refusals and of answers that are none; inherited by WireConformance."""

from __future__ import annotations

import time
from collections.abc import Mapping
from email.utils import formatdate

import attrs
import pytest
from pluggent_hookspecs import ListsModels, Provider, ProviderError, ProviderErrorKind as Kind

from pluggent_testing.providers.asking import Ask, Tell, both, noted, outcome, refusal, streamed
from pluggent_testing.wires.format import Fault
from pluggent_testing.wires.http_server import Step, answer, head
from pluggent_testing.wires.server import HELLO, WireServer
from pluggent_testing.wires.suite import WireSuite, assert_error, hasty

SHORT = 2000
"""How long the sentence of an error may be, in characters."""

HTML = b"<!doctype html><html><head><title>Bad gateway</title></head><body>" + b"<p>oops</p>" * 5000 + b"</body></html>"

STATUSES: Mapping[int, tuple[Kind, ...]] = {
    400: (Kind.BAD_REQUEST,),
    401: (Kind.AUTHENTICATION,),
    403: (Kind.AUTHENTICATION,),
    404: (Kind.BAD_REQUEST,),
    413: (Kind.BAD_REQUEST, Kind.CONTEXT_LENGTH),
    422: (Kind.BAD_REQUEST,),
    429: (Kind.RATE_LIMITED,),
    500: (Kind.UNAVAILABLE,),
    502: (Kind.UNAVAILABLE,),
    503: (Kind.UNAVAILABLE,),
    504: (Kind.UNAVAILABLE, Kind.TIMEOUT),
    529: (Kind.UNAVAILABLE,),
}
"""What a status means where the body says nothing."""

BODIES: Mapping[str, bytes] = {
    "no body": b"",
    "HTML": HTML,
    "words": b"upstream connect error or disconnect/reset before headers",
    "null": b"null",
    "a list": b"[]",
    "an empty object": b"{}",
    "no error": b'{"error": null}',
    "an error in one word": b'{"error": "oops"}',
    "an odd error": b'{"error": {"message": {"a": [1]}, "type": 7, "code": []}}',
    "an error in a list": b'[{"error": {"code": 503, "message": "oops", "status": "UNAVAILABLE"}}]',
    "not UTF-8": b'{"error": {"message": "\xff\xfe"}}',
    "deep": b'{"error":' * 50_000,
    "half of it": b'{"error": {"mess',
}
"""Bodies of errors that occur in front of servers, and behind them."""

RETRY_AFTER: Mapping[str, tuple[float | None, ...]] = {
    "2": (2.0,),
    "0": (0.0,),
    "3600": (3600.0,),
    "0.5": (0.5, None),
    "soon": (None,),
    "-5": (None, 0.0),
    "nan": (None,),
    "inf": (None,),
    "1e400": (None,),
    "9" * 400: (None,),
    "Mon, 99 Foo 2020 25:61:61 GMT": (None,),
    formatdate(0, usegmt=True): (0.0, None),
}
"""What a Retry-After means, in seconds."""

NO_REPLIES: Mapping[str, bytes] = {
    "no body": b"",
    "white space": b" \n\n ",
    "HTML": HTML,
    "words": b"Hello!",
    "null": b"null",
    "a number": b"7",
    "a list": b"[]",
    "an empty object": b"{}",
    "another API": b'{"jsonrpc": "2.0", "result": {}, "id": 1}',
    "half of it": b'{"id": "reply-1", "cho',
    "not UTF-8": b'{"id": "\xff\xfe"}',
    "deep": b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
    "NUL": b"\x00" * 100,
    "compressed, and not said so": b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03",
    "an empty event": b"data: \n\n",
    "an event that is no JSON": b"data: hello\n\n",
    "an event that is null": b"data: null\n\n",
    "an event of no kind": b"data: {}\n\n",
    "only the end": b"data: [DONE]\n\n",
    "only comments": b": hello\n\n: hello\n\n",
}
"""Answers with status 200 that are no reply."""


class Faults(WireSuite):
    """Every error is of the kind that says what to do next; none is an empty success."""

    @both
    def test_refusals_of_the_server_are_errors_by_kind(self, told: Tell, server: WireServer, ask: Ask) -> None:
        async def story(provider: Provider) -> None:
            for fault in self.wire.faults():
                server.will(server.fault(fault))
                with noted(fault.name):
                    error = assert_error(await outcome(provider, self.request(), ask), fault.kind)
                    assert error.status == fault.status, f"status {error.status}"
                    assert error.retry_after == fault.retry_after, f"retry_after {error.retry_after}"
                    told_of = (error.actual, error.limit)
                    assert told_of == (fault.actual, fault.limit), f"actual and limit are {told_of}"

        told(story)

    @both
    @pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
    def test_a_status_alone_says_what_to_do(self, told: Tell, server: WireServer, ask: Ask, body: bytes) -> None:
        async def story(provider: Provider) -> None:
            for status, kinds in STATUSES.items():
                server.will(answer(body, status, kind="text/html" if body.startswith(b"<") else "application/json"))
                with noted(f"status {status}"):
                    error = assert_error(await outcome(provider, self.request(), ask), *kinds)
                    assert error.status == status
                    assert len(str(error)) < SHORT, f"an error of {len(str(error)):,} characters"

        told(story)

    @both
    def test_retry_after_is_told_in_seconds(self, told: Tell, server: WireServer, ask: Ask) -> None:
        async def story(provider: Provider) -> None:
            for status in (429, 503):
                for text, expected in RETRY_AFTER.items():
                    server.will(answer(b"", status, {"retry-after": text}))
                    error = await refusal(provider, self.request(), ask)
                    assert error.retry_after in expected, f"retry-after: {text[:40]} was read as {error.retry_after}"
                server.will(answer(b"", status))
                assert (await refusal(provider, self.request(), ask)).retry_after is None

        told(story)

    @both
    def test_retry_after_may_be_a_date(self, told: Tell, server: WireServer, ask: Ask) -> None:
        server.will(answer(b"", 429, {"retry-after": formatdate(time.time() + 100, usegmt=True)}))

        async def story(provider: Provider) -> None:
            seconds = (await refusal(provider, self.request(), ask)).retry_after
            assert seconds is not None
            assert 60 < seconds <= 100, f"{seconds} seconds"  # noqa: PLR2004 (nothing here takes that long)

        told(story)

    @both
    @pytest.mark.parametrize("body", NO_REPLIES.values(), ids=NO_REPLIES)
    def test_what_is_no_reply_is_an_error(self, told: Tell, server: WireServer, ask: Ask, body: bytes) -> None:
        async def story(provider: Provider) -> None:
            for kind in ("application/json", self.wire.stream_type, "text/html"):
                server.will(answer(body, kind=kind))
                with noted(kind):
                    read = await outcome(provider, self.request(), ask)
                    error = assert_error(read, Kind.PROTOCOL, Kind.STREAM_BROKEN, Kind.UNAVAILABLE)
                    assert len(str(error)) < SHORT, f"an error of {len(str(error)):,} characters"

        told(story)

    @both
    def test_an_error_with_status_200_is_an_error(self, told: Tell, server: WireServer, ask: Ask) -> None:
        async def story(provider: Provider) -> None:
            for fault in self.wire.faults():
                server.will(server.fault(attrs.evolve(fault, status=200)))
                with noted(fault.name):
                    await refusal(provider, self.request(), ask)

        told(story)

    def test_an_error_in_the_middle_of_a_stream_is_an_error_by_kind(self, told: Tell, server: WireServer) -> None:
        self.needs_streams()
        events = self.wire.events(HELLO)

        async def story(provider: Provider) -> None:
            for fault in self.wire.faults_in_stream():
                for at in (0, 1, len(events) // 2):
                    server.will(server.by_event([*events[:at], fault.body, *events[at:]]))
                    with noted(f"{fault.name}, after {at} events"):
                        assert_error(await outcome(provider, self.request(), streamed), fault.kind)

        told(story)

    @both
    def test_no_error_shows_the_key(
        self, told: Tell, server: WireServer, ask: Ask, caplog: pytest.LogCaptureFixture
    ) -> None:
        async def story(provider: Provider) -> None:
            for fault in self.wire.faults():
                server.will(server.fault(_with_key(fault, server.key)))
                error = await refusal(provider, self.request(), ask)
                chain = [error, error.__cause__, error.__context__]
                assert not [each for each in chain if server.key in f"{each} {each!r}"], f"shown: {fault.name}"
            for body in (server.key.encode(), b"<html>" + server.key.encode(), b'"%b"' % server.key.encode()):
                for status in (200, 401, 500):
                    server.will(answer(body, status))
                    assert server.key not in str(await refusal(provider, self.request(), ask))

        told(story)
        assert server.key not in caplog.text, "the key is in a log"

    @both
    def test_a_redirect_is_not_followed(self, told: Tell, server: WireServer, ask: Ask) -> None:
        with WireServer(self.wire, self.calm_s, self.max_bytes) as elsewhere:

            async def story(provider: Provider) -> None:
                for status in (301, 302, 303, 307, 308):
                    server.will(answer(b"", status, {"location": elsewhere.url + "/"}))
                    await refusal(provider, self.request(), ask)

            told(story)
            assert elsewhere.requests == [], "approvals are for one target, and the key was sent to another"

    def test_a_list_of_models_that_is_none_is_an_error(self, told: Tell, server: WireServer) -> None:
        async def story(provider: Provider) -> None:
            if not isinstance(provider, ListsModels):
                pytest.skip("this provider lists no models")
            for body in (b"", HTML, b"null", b"[1]", b"{}", b'{"data": 7}', b'{"data": [7]}', b'{"data": [{}]}'):
                server.will(answer(body))
                with noted(repr(body[:40])), pytest.raises(ProviderError) as caught:
                    await provider.list_models()
                assert caught.value.provider == provider.name
            for fault in self.wire.faults():
                server.will(server.fault(fault))
                with noted(fault.name), pytest.raises(ProviderError) as caught:
                    await provider.list_models()
                assert caught.value.status == fault.status

        told(story)

    @hasty
    def test_a_list_of_models_that_does_not_come_is_given_up(self, told: Tell, server: WireServer) -> None:
        async def story(provider: Provider) -> None:
            if not isinstance(provider, ListsModels):
                pytest.skip("this provider lists no models")
            for steps in ((Step.HANG,), (head(200, {"content-length": "100"}), Step.HANG), (Step.RESET,)):
                server.will(steps)
                with pytest.raises(ProviderError) as caught:
                    await provider.list_models()
                assert caught.value.retryable, f"{caught.value.kind}: {caught.value}"

        told(story)


def _with_key(fault: Fault, key: str) -> Fault:
    """Return *fault* with a sentence that repeats the key, as some servers do."""
    return attrs.evolve(fault, body=fault.body.replace(b'"message": "', b'"message": "your key %b: ' % key.encode()))
