"""The server at the other end of a provider under test: a loopback server that speaks a wire."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import cast
from zlib import crc32

from pluggent_hookspecs import FinishReason, Json, Message, ModelInfo, ModelResponse, ToolCall, Usage

from pluggent_testing.providers.asking import WAIT_S
from pluggent_testing.providers.suite import CALLS_WANTED
from pluggent_testing.wires.format import Fault, Wire
from pluggent_testing.wires.http_server import (
    Endless,
    LoopbackServer,
    Pause,
    Plan,
    Received,
    Step,
    Steps,
    answer,
    chunked,
    until_closed,
)

KEY = "key-7f3a-0123456789-abcdefgh"
"""What the server is asked with, and what nothing may show."""

UNKNOWN_MODEL = "no-such-model-7f3a"
HELLO = ModelResponse(
    Message.assistant("Hello, 世界 🎉. How are you?"), usage=Usage(input=10, output=5), model="model-1", id="reply-1"
)
MODELS = tuple(ModelInfo(f"model-{number}", created=1_700_000_000.0 + number) for number in range(5))

Packed = Callable[[Sequence[bytes]], Steps]
"""Makes an answer of the events of a stream."""


class WireServer(LoopbackServer):
    """Speaks *wire*. What no test has laid out is answered by a model of few words.

    That model says hello; asked by the suite's ``ask_for_calls``, it makes the calls. A provider
    is to ask at ``url`` with ``key``; to wait no longer than ``patience_s`` for anything; and to
    read no more than ``max_bytes`` of one reply.
    """

    def __init__(self, wire: Wire, patience_s: float, max_bytes: int, wait_s: float = WAIT_S) -> None:
        super().__init__(self.by_itself, wait_s)
        self.wire = wire
        self.key = KEY
        self.patience_s = patience_s
        self.max_bytes = max_bytes

    @property
    def url(self) -> str:
        """The base URL: origin, and what this vendor's base URLs end with."""
        return self.origin + self.wire.base_path

    @property
    def asked(self) -> list[Received]:
        """The requests for a reply; those for other things are not among them."""
        return [request for request in self.requests if request.method == "POST"]

    # ---- what it can be told to answer ------------------------------------------------------

    def reply(self, reply: ModelResponse, packed: Packed | None = None) -> Plan:
        """Return the plan to answer with *reply*, whole or streamed as it is asked for."""

        def plan(asked: Received) -> Steps:
            if self.wire.wants_stream(asked):
                return (packed or self.by_event)(self.wire.events(reply))
            return answer(self.wire.whole(reply))

        return plan

    def either(self, whole: Steps, stream: Steps) -> Plan:
        """Return the plan to answer with one or the other, as it is asked for."""
        return lambda asked: stream if self.wire.wants_stream(asked) else whole

    def changed(self, reply: ModelResponse, change: Callable[[bytes], bytes]) -> Plan:
        """Return the plan to answer with *reply*, the data of its events, or the whole, passed through *change*."""
        wire = self.wire
        events = [wire.with_data(event, change(wire.data(event))) for event in wire.events(reply)]
        return self.either(answer(change(self.wire.whole(reply))), self.by_event(events))

    def fault(self, fault: Fault) -> Steps:
        """Return the answer that is *fault*."""
        return answer(fault.body, fault.status, fault.headers)

    def by_event(self, events: Sequence[bytes | Step | Pause | Endless], *, ends: bool = True) -> Steps:
        """Return a stream that sends each of *events* by itself."""
        return chunked(self.wire.stream_type, events, ends=ends)

    # ---- the model of few words -------------------------------------------------------------

    def by_itself(self, asked: Received) -> Steps:
        """Return the answer to a request for which no plan was laid out."""
        if asked.method == "GET":
            return answer(self.wire.models(MODELS, asked))
        if UNKNOWN_MODEL in asked.path or UNKNOWN_MODEL.encode() in asked.body:
            return self.fault(next(fault for fault in self.wire.faults() if fault.name == "unknown model"))
        calls = _calls_wanted(asked)
        if not calls:
            return self.reply(HELLO)(asked)
        called = ModelResponse(
            Message.assistant((), calls), FinishReason.TOOL_CALLS, Usage(20, 10), "model-1", "reply-2"
        )
        return self.reply(called)(asked)


def packings(wire: Wire) -> Mapping[str, Packed]:
    """Return the ways in which one and the same stream can arrive."""
    kind = wire.stream_type
    any_format: dict[str, Packed] = {
        "event by event": lambda events: chunked(kind, events),
        "all at once": lambda events: chunked(kind, [b"".join(events)]),
        "byte by byte": lambda events: chunked(kind, _cut(events, 1)),
        "three bytes a time": lambda events: chunked(kind, _cut(events, 3)),
        "until the connection is closed": lambda events: until_closed(kind, events),
    }
    sse: dict[str, Packed] = {
        "line ends as on Windows": lambda events: chunked(kind, _cut([_lines(each, b"\r\n") for each in events], 5)),
        "old line ends": lambda events: chunked(kind, _cut([_lines(each, b"\r") for each in events], 4)),
        "comments between": lambda events: chunked(kind, [b": still here\n\n" + event for event in events]),
        "retry and id fields": lambda events: chunked(kind, [b"id: 1\nretry: 9\n" + event for event in events]),
        "no space behind the colon": lambda events: chunked(kind, [e.replace(b"data: ", b"data:", 1) for e in events]),
        "a byte order mark": lambda events: chunked(kind, [b"\xef\xbb\xbf", *events]),
    }
    return any_format | (sse if wire.is_sse else {})


def _lines(event: bytes, end: bytes) -> bytes:
    return event.replace(b"\n", end)


def _cut(events: Sequence[bytes], size: int) -> list[bytes]:
    data = b"".join(events)
    return [data[start : start + size] for start in range(0, len(data), size)]


# ---- what is in a request ----------------------------------------------------------------


def strings(value: object) -> Iterator[str]:
    """Yield every text in a JSON value, keys included, in order."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in cast("list[object]", value):
            yield from strings(item)
    elif isinstance(value, dict):
        for name, item in cast("dict[str, object]", value).items():
            yield name
            yield from strings(item)


def holds(value: object, wanted: object) -> bool:
    """Tell whether a JSON value is *wanted*, or has it somewhere inside."""
    if value == wanted:
        return True
    if isinstance(value, dict):
        return any(holds(item, wanted) for item in cast("dict[str, object]", value).values())
    return isinstance(value, list) and any(holds(item, wanted) for item in cast("list[object]", value))


def _calls_wanted(asked: Received) -> tuple[ToolCall, ...]:
    """Return the calls that are to be made now: those of the first round that was not made yet."""
    prompts = [text for text in strings(asked.json) if CALLS_WANTED in text]
    if not prompts:
        return ()
    prompt = prompts[-1]
    rounds: list[list[dict[str, Json]]] = json.loads(prompt.partition(CALLS_WANTED)[2])
    for number, calls in enumerate(rounds):
        ids = [f"call_{crc32(prompt.encode()):08x}_{number}_{index}" for index in range(len(calls))]
        if not set(ids) & set(strings(asked.json)):
            return tuple(
                ToolCall(id, str(call["name"]), json.dumps(call["arguments"]))
                for id, call in zip(ids, calls, strict=True)
            )
    return ()
