"""One conversation with tools, told through a real host: what is kept of it is alike on every provider.

``transcript_shape`` reduces the records of a session to what belongs to no vendor, for tests of
conversations of your own.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from itertools import groupby
from typing import Any

import pytest
from pluggent_function_tools.arguments import ArgumentProblems, canonical, parse
from pluggent_hookspecs import (
    CachePoint,
    Deny,
    Message,
    ProvideEvent,
    Provider,
    Reasoning,
    Refusal,
    Role,
    Text,
    TextShown,
    ToolCall,
    ToolCallEvent,
    ToolError,
    VendorPart,
    hookimpl,
    tool,
)
from pluggent_host.host import Host
from pluggent_host.session import Session
from pluggent_host.tools.selection import ToolChoice
from pluggent_transcript.entries import (
    Decided,
    Dispatched,
    Entry,
    Given,
    Said,
    SessionAdopted,
    SessionBegan,
    Settled,
    Spending,
    TurnBegan,
    TurnOver,
)

from pluggent_testing.providers.asking import Tell, Wanted
from pluggent_testing.providers.suite import Suite

FIRST_TURN: tuple[tuple[Wanted, ...], ...] = (
    (("weather", {"city": "Rome"}), ("add", {"a": 2, "b": 3})),
    (("fail", {"reason": "no reason"}), ("launch", {"count": 1}), ("add", {"a": "two", "b": 3})),
)
SECOND_TURN: tuple[tuple[Wanted, ...], ...] = ((("add", {"a": 40, "b": 2}),),)


@tool(effects=())
def weather(city: str) -> str:
    """Tell the weather."""
    return f"22 degrees in {city}"


@tool(effects=())
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool(effects=())
def fail(reason: str) -> str:
    """Fail, always."""
    raise ToolError(f"it failed, for {reason}")


@tool(effects=())
def launch(count: int) -> str:
    """Launch some; it is denied."""
    raise AssertionError(f"{count} were launched although a policy forbids it")


class NoLaunch:
    """A policy that denies every launch."""

    @hookimpl
    def decide_tool_call(self, event: ToolCallEvent) -> Deny | None:
        return Deny("nothing is launched here") if event.tool.name == "launch" else None


class Offering:
    """A plugin object that offers one provider as it is; who made it opens and closes it."""

    def __init__(self, provider: Provider) -> None:
        self._provider = provider

    @hookimpl
    def provide_providers(self, event: ProvideEvent) -> Iterable[Provider]:
        return [self._provider]


@asynccontextmanager
async def talking_with(provider: Provider, model: str) -> AsyncGenerator[Session]:
    """Open a session with *model* of *provider*, the four tools and the policy of this file."""
    parts: dict[str, Any] = {"plugins": [Offering(provider)], "policies": [NoLaunch()], "installed": False}
    tools: list[ToolChoice] = [weather, add, fail, launch]
    async with (
        Host.open(model=f"{provider.name}/{model}", tools=tools, **parts) as host,
        await host.session() as session,
    ):
        yield session


SHAPE: tuple[str, ...] = (
    "t1 begins",
    "input: allow by host",
    "user: …",
    "model_call: allow by host",
    "a model was asked",
    'assistant: -> 1 weather {"city":"Rome"}, 2 add {"a":2,"b":3}',
    "tool_call 1 app:tools:tool/weather: allow by host",
    "tool_call 2 app:tools:tool/add: allow by host",
    "result of 1: ok: 22 degrees in Rome",
    "result of 2: ok: 5",
    "model_call: allow by host",
    "a model was asked",
    'assistant: -> 3 fail {"reason":"no reason"}, 4 launch {"count":1}, 5 add {"a":"two","b":3}',
    "tool_call 3 app:tools:tool/fail: allow by host",
    "tool_call 4 app:tools:tool/launch: deny by app:nolaunch",
    "result of 3: failed",
    "result of 4: denied",
    "result of 5: invalid_arguments",
    "model_call: allow by host",
    "a model was asked",
    "assistant: …",
    "t1 is over: completed",
    "t2 begins",
    "input: allow by host",
    "user: …",
    "model_call: allow by host",
    "a model was asked",
    'assistant: -> 6 add {"a":40,"b":2}',
    "tool_call 6 app:tools:tool/add: allow by host",
    "result of 6: ok: 42",
    "model_call: allow by host",
    "a model was asked",
    "assistant: …",
    "t2 is over: completed",
)
"""What is kept of the conversation, whichever the model is; see transcript_shape."""


class Stories(Suite):
    """A conversation of two turns, whole and streamed."""

    def test_a_conversation_with_tools_has_the_same_shape_everywhere(self, told: Tell) -> None:
        first, second = self._said()

        async def story(provider: Provider) -> None:
            async with talking_with(provider, self.model) as session:
                await session.say(first)
                await session.say(second)
                assert transcript_shape(session.records(), words=False) == SHAPE

        told(story)

    def test_a_streamed_conversation_is_shown_as_it_is_kept(self, told: Tell) -> None:
        first, second = self._said()

        async def story(provider: Provider) -> None:
            async with talking_with(provider, self.model) as session:
                for said in (first, second):
                    async with session.stream(said) as events:
                        shown = [event.text async for event in events if isinstance(event, TextShown)]
                    assert "".join(shown) == events.result.text
                    assert events.result.text, "the turn ended without a word"
                assert transcript_shape(session.records(), words=False) == SHAPE

        told(story)

    def _said(self) -> tuple[Message, Message]:
        if not (self.tools and self.parallel and self.deterministic):
            pytest.skip("needs a model that makes several calls at once, and always the ones it is asked for")
        return self.ask_for_calls(*FIRST_TURN), self.ask_for_calls(*SECOND_TURN)


# ---- the shape of a transcript -----------------------------------------------------------


def transcript_shape(records: Iterable[Entry], *, words: bool = True) -> tuple[str, ...]:
    """Return what of *records* belongs to no vendor, one line an entry.

    Calls are numbered in their order, whatever their ids; results of one batch stand in that
    order. Times, token counts, digests, names of models, thinking and parts of one vendor are
    left out. Without *words* a text of a person or the model is just ``…``, and a failure its kind.

    >>> call = ToolCall("toolu_1", "add", '{"b": 1, "a": 2}')
    >>> transcript_shape([Said("t1", Message.assistant("Let me see.", (call,)))])
    ('assistant: Let me see. -> 1 add {"a":2,"b":1}',)
    """
    shape = _Shape(words=words)
    told = [line for entry in records if (line := shape.line(entry))]
    ordered: list[str] = []
    for is_result, group in groupby(told, key=lambda line: line.startswith("result of ")):
        lines = list(group)
        ordered += sorted(lines, key=_number_in) if is_result else lines
    return tuple(ordered)


def _number_in(line: str) -> int:
    return int(line.removeprefix("result of ").partition(":")[0])


class _Shape:
    def __init__(self, *, words: bool) -> None:
        self._words = words
        self._numbers: dict[str, int] = {}

    def line(self, entry: Entry) -> str:
        """Return *entry* as a line, empty for one that says nothing here."""
        match entry:
            case SessionBegan() | SessionAdopted():
                return ""
            case Given(messages):
                return f"given: {len(messages)} messages"
            case TurnBegan(turn_id):
                return f"{turn_id} begins"
            case Said(message=message):
                return self._said(message)
            case Decided(decision):
                what = f" {self._number(decision.call_id)} {decision.capability}" if decision.call_id else ""
                return f"{decision.operation}{what}: {decision.verdict} by {decision.by}"
            case Dispatched(calls=calls):
                return f"dispatched: {', '.join(self._number(call_id) for call_id, _, _ in calls)}"
            case Settled(call_id=call_id, message=message, outcome=outcome):
                return f"result of {self._number(call_id)}: {outcome or 'ok'}{self._result(message, outcome)}"
            case Spending(error=error):
                return f"a model was asked{', and failed' if error else ''}"
            case TurnOver(turn_id, why, detail):
                return " ".join(filter(None, [f"{turn_id} is over: {why}", detail]))
            case _:
                return type(entry).__name__

    def _said(self, message: Message) -> str:
        calls = ", ".join(f"{self._number(call.id)} {call.name} {_arguments(call)}" for call in message.tool_calls)
        parts = [
            self._part(part) for part in message.content if not isinstance(part, Reasoning | VendorPart | CachePoint)
        ]
        whose = f"result of {self._number(message.tool_call_id or '')}" if message.role is Role.TOOL else message.role
        # Without words, several parts of text are as good as one.
        return " ".join(filter(None, [f"{whose}:", *(part for part, _ in groupby(parts)), calls and f"-> {calls}"]))

    def _part(self, part: object) -> str:
        if isinstance(part, Text | Refusal):
            return part.text if self._words else "…"
        return f"[{type(part).__name__}]"

    def _result(self, message: Message, outcome: str) -> str:
        return f": {message.text}" if self._words or not outcome else ""

    def _number(self, call_id: str) -> str:
        return str(self._numbers.setdefault(call_id, len(self._numbers) + 1))


def _arguments(call: ToolCall) -> str:
    try:
        return canonical(parse(call.arguments)).decode()
    except ArgumentProblems:
        return call.arguments
