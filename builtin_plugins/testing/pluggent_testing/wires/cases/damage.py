"""What a provider makes of replies in which one thing is not as it should be; inherited by WireConformance.

Every place of a good reply is changed in turn, so it knows no vendor.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import aclosing
from typing import Any, TypeAlias, cast

import pytest
from pluggent_hookspecs import (
    Delta,
    FinishReason,
    Message,
    ModelRequest,
    ModelResponse,
    Provider,
    Reply,
    Text,
    ToolCall,
    Usage,
)

from pluggent_testing.providers.asking import Ask, Tell, noted, outcome, whole
from pluggent_testing.providers.values import check_deltas, check_value, check_written_down
from pluggent_testing.wires.format import Wire
from pluggent_testing.wires.http_server import Steps, answer
from pluggent_testing.wires.server import WireServer
from pluggent_testing.wires.suite import WireSuite

Path: TypeAlias = tuple[str | int, ...]

_CALL = ToolCall("call_a", "weather", '{"city": "Rome"}')
REPLY = ModelResponse(
    Message.assistant((Text("Hello"),), (_CALL,)), FinishReason.TOOL_CALLS, Usage(10, 5, cached=2), "model-1", "reply-1"
)
WRONG = (b"\xff", b"\x00", b'"', b"\n", b"{", b"\\", b"\xe5", b"", b"9", b"\r\n\r\n")
WRONG_BYTES = 400
"""How many places of a reply get a wrong byte, one at a time."""

DAMAGES: dict[str, Any] = {
    "null": None,
    "a number": 7,
    "a huge number": 10**400,
    "a negative number": -1.5,
    "a text": "7f3a",
    "an empty text": "",
    "a list": [],
    "a list with null": [None],
    "an object": {"a": 1},
    "an empty object": {},
    "true": True,
}


class Damage(WireSuite):
    """Whatever is odd in a reply, it is read as a value of the contract or refused as a ProviderError."""

    @pytest.mark.parametrize("name", [*DAMAGES, "nothing"])
    def test_a_damaged_reply_is_read_or_refused(self, told: Tell, server: WireServer, name: str) -> None:
        self.needs_whole_replies()
        good = json.loads(self.wire.whole(REPLY))
        plans = {path: answer(json.dumps(_damaged(good, path, name)).encode()) for path in _paths(good)}
        self._tell(told, server, plans, whole)

    @pytest.mark.parametrize("name", [*DAMAGES, "nothing"])
    def test_a_damaged_stream_is_read_or_refused(self, told: Tell, server: WireServer, name: str) -> None:
        self.needs_streams()
        events = self.wire.events(REPLY)
        plans = {
            (number, *path): server.by_event([b"".join([*events[:number], event, *events[number + 1 :]])])
            for number, good in enumerate(events)
            for path, event in _damaged_events(self.wire, good, name)
        }
        self._tell(told, server, plans, _checked_stream)

    def test_a_reply_with_one_wrong_byte_is_read_or_refused(self, told: Tell, server: WireServer) -> None:
        self.needs_whole_replies()
        body = self.wire.whole(REPLY)
        self._tell(told, server, {at: answer(data) for at, data in _wrong_bytes(body)}, whole)

    def test_a_stream_with_one_wrong_byte_is_read_or_refused(self, told: Tell, server: WireServer) -> None:
        self.needs_streams()
        body = b"".join(self.wire.events(REPLY))
        self._tell(told, server, {at: server.by_event([data]) for at, data in _wrong_bytes(body)}, _checked_stream)

    def test_events_in_any_order_are_read_or_refused(self, told: Tell, server: WireServer) -> None:
        self.needs_streams()
        events = self.wire.events(REPLY)
        plans: dict[Path, Steps] = {("reversed",): server.by_event(events[::-1])}
        for at in range(len(events)):
            before, this, after = events[:at], events[at], events[at + 1 :]
            plans["left out", at] = server.by_event([*before, *after])
            plans["twice", at] = server.by_event([*before, this, this, *after])
            plans["later", at] = server.by_event([*before, *after[:1], this, *after[1:]])
        self._tell(told, server, plans, _checked_stream)

    def _tell(self, told: Tell, server: WireServer, plans: Mapping[Path, Steps], ask: Ask) -> None:
        async def story(provider: Provider) -> None:
            for path, steps in plans.items():
                server.will(steps)
                with noted(f"damaged at {path}"):
                    read = await outcome(provider, self.request(tools=self.some_tools), ask)
                    if isinstance(read, ModelResponse):
                        check_written_down(check_value(read), ModelResponse)

        told(story)


async def _checked_stream(provider: Provider, request: ModelRequest) -> ModelResponse:
    """Ask for a stream; its deltas keep the rules as far as they come."""
    reply = Reply()
    deltas: list[Delta] = []
    async with aclosing(provider.stream(request)) as stream:
        async for batch in stream:
            deltas += batch
            reply.add(batch)
    check_deltas(deltas)
    return reply.response()


def _wrong_bytes(data: bytes) -> Iterator[tuple[Path, bytes]]:
    """Yield *data* with one byte changed, each time elsewhere and to something else."""
    for number, at in enumerate(range(0, len(data), len(data) // WRONG_BYTES + 1)):
        wrong = WRONG[number % len(WRONG)]
        yield (at, repr(wrong)), data[:at] + wrong + data[at + 1 :]


def _paths(value: object, path: Path = ()) -> Iterator[Path]:
    """Yield where in *value* there is something, the whole of it first."""
    yield path
    inside: Iterable[tuple[str | int, object]] = ()
    if isinstance(value, dict):
        inside = cast("dict[str, object]", value).items()
    elif isinstance(value, list):
        inside = enumerate(cast("list[object]", value))
    for key, item in inside:
        yield from _paths(item, (*path, key))


def _damaged(value: Any, path: Path, name: str) -> Any:
    """Return *value* with what is at *path* replaced, or taken away."""
    if not path:
        return DAMAGES.get(name)
    changed = copy.deepcopy(value)
    place = changed
    for key in path[:-1]:
        place = place[key]
    if name == "nothing":
        del place[path[-1]]
    else:
        place[path[-1]] = DAMAGES[name]
    return changed


def _damaged_events(wire: Wire, event: bytes, name: str) -> Iterator[tuple[Path, bytes]]:
    try:
        good = json.loads(wire.data(event))
    except ValueError:
        return  # an end mark that is no JSON
    for path in _paths(good):
        yield path, wire.with_data(event, json.dumps(_damaged(good, path, name)).encode())
