"""Decisions and results by the short way: their lines say what the long way says."""

import json
import math
from collections.abc import Iterator
from typing import Any, cast

import attrs
import pytest
from each_of import each_of
from hypothesis import given, strategies as st
from pluggent_contract_values.as_json import from_plain, line_of
from pluggent_hookspecs import Change, DecisionMade, Message, Role, Scope, Usage, Vote
from pluggent_hookspecs.messages import Refusal, Text, ToolCall
from pluggent_transcript.codec import Encoder, plain_entry
from pluggent_transcript.entries import Decided, Dispatched, Entry, Settled, Spending
from pluggent_transcript.pending import Outcome


class Word(str):
    """A text of a class of its own."""

    __slots__ = ()


class LongerVote(Vote):
    """A vote as a later version may have it."""


class LongerScope(Scope):
    """A scope as a later version may have it."""


texts = st.sampled_from(("", "null", "天气", '"\\\n\x00\x1f\x7f\u2028')) | st.text(max_size=5)
times = st.floats(allow_nan=False, allow_infinity=False)
scopes = st.builds(
    Scope, texts, texts, texts, dry_run=st.booleans(), metadata=st.dictionaries(texts, texts, max_size=2)
)
decisions = st.builds(
    DecisionMade,
    *(scopes, texts, texts, texts, texts, texts, texts, texts, texts),
    arguments_json=st.sampled_from((b"", b"{}", b'{"a":null}', '{"a":"天"}'.encode(), b'{"a":"\\ud83d"}')),
    votes=st.lists(st.builds(Vote, texts, texts, texts, times), max_size=3).map(tuple),
    elapsed_us=times,
)
messages = st.builds(
    Message,
    st.just(Role.TOOL),
    st.lists(st.builds(Text, texts), max_size=3).map(tuple),
    tool_call_id=st.none() | texts,
    name=st.none() | texts,
    is_error=st.booleans(),
)
results = st.builds(Settled, texts, texts, messages, texts, st.none() | texts)

SCOPE = Scope("s", "t1")
VOTE = Vote("a", "none")
MADE = DecisionMade(SCOPE, "input", "t1", "d", "allow", "host", "no", "cap", "c1", votes=(VOTE,))
RESULT = Message.tool(ToolCall("c1", "add", "{}"), "3")
SETTLED = Settled("t1", "c1", RESULT, "", "whole")


def odd_entries() -> Iterator[Entry]:
    """Yield entries with one odd value each, which the short way cannot say, and entries of other classes."""
    for text in ("\ud83d", "null \udc00", Word("word")):
        for field in ("operation", "operation_id", "digest", "verdict", "by", "reason", "capability", "call_id"):
            yield Decided(attrs.evolve(MADE, **{field: text}))
        for field in ("session_id", "turn_id", "agent"):
            yield Decided(attrs.evolve(MADE, scope=attrs.evolve(SCOPE, **{field: text})))
        for field in ("plugin", "verdict", "reason"):
            yield Decided(attrs.evolve(MADE, votes=(VOTE, attrs.evolve(VOTE, **{field: text}))))
        for field in ("turn_id", "call_id", "outcome", "whole"):
            yield attrs.evolve(SETTLED, **{field: text})
        for changed in ({"name": text}, {"tool_call_id": text}, {"content": (Text(text),)}):
            yield attrs.evolve(SETTLED, message=attrs.evolve(RESULT, **cast("Any", changed)))
    for time in (-0.0, math.nan, math.inf, -math.inf, 3, 10**400):
        yield Decided(attrs.evolve(MADE, elapsed_us=time))
        yield Decided(attrs.evolve(MADE, votes=(attrs.evolve(VOTE, elapsed_us=time),)))
        yield Decided(attrs.evolve(MADE, scope=Scope(metadata=cast("Any", {"a": time}))))
    yield Decided(attrs.evolve(MADE, votes=(LongerVote("a", "none"),)))
    yield Decided(attrs.evolve(MADE, changes=(Change("a", ("b",), 1, math.nan),)))
    yield Decided(attrs.evolve(MADE, scope=LongerScope("s")))
    for role in Role:
        yield attrs.evolve(SETTLED, message=attrs.evolve(RESULT, role=role))
    for odd in ({"extra": {"a": math.nan}}, {"content": (Refusal("no"),)}, {"tool_calls": (ToolCall("c", "add"),)}):
        yield attrs.evolve(SETTLED, message=attrs.evolve(RESULT, **cast("Any", odd)))
    yield attrs.evolve(SETTLED, told=Outcome("c1", "s"))
    yield Spending("t1", "m", Usage(1, 2))
    yield Dispatched("t1", (("c", "k", "f"),))


def assert_like_the_long_way(line: bytes, entry: Entry) -> None:
    assert repr(json.loads(line)) == repr(json.loads(line_of(plain_entry(entry))))  # NaN too, and in its order
    assert (line[-1:], line.count(b"\n")) == (b"\n", 1)


@given(decisions, decisions)
def test_decisions_say_what_the_long_way_says_of_them(one: DecisionMade, other: DecisionMade) -> None:
    lines = Encoder()

    for made in (one, other, one, attrs.evolve(other, scope=one.scope)):
        line = lines.of(Decided(made))
        assert_like_the_long_way(line, Decided(made))
        assert from_plain(json.loads(line), Decided) == Decided(made)


@given(results)
def test_results_say_what_the_long_way_says_of_them(entry: Settled) -> None:
    line = Encoder().of(entry)

    assert_like_the_long_way(line, entry)
    assert from_plain(json.loads(line), Settled) == entry


def test_what_the_short_way_cannot_say_goes_the_long_way() -> None:
    lines = Encoder()

    for entry in odd_entries():
        for _ in range(2):  # what was kept of the first is no excuse for the second
            assert lines.of(entry) == line_of(plain_entry(entry))
        assert_like_the_long_way(lines.of(Decided(MADE)), Decided(MADE))


@each_of(
    ("entry", "line"),
    [
        (
            Decided(DecisionMade(SCOPE, "tool_call", "t1.0.1", "d", "allow", "host")),
            (
                b'{"t":"Decided","decision":{"scope":{"session_id":"s","turn_id":"t1","type":"Scope"},'
                b'"operation":"tool_call","operation_id":"t1.0.1","digest":"d","verdict":"allow","by":"host",'
                b'"type":"DecisionMade"},"type":"Decided"}\n'
            ),
        ),
        (
            Decided(
                DecisionMade(
                    *(SCOPE, "tool_call", "t1.0.1", "d", "deny", "a", "no", "cap", "c1", b'{"a":null}'),
                    votes=(Vote("b", "none"), Vote("a", "deny", "no", 1.5)),
                    elapsed_us=7.2,
                )
            ),
            (
                b'{"t":"Decided","decision":{"scope":{"session_id":"s","turn_id":"t1","type":"Scope"},'
                b'"operation":"tool_call","operation_id":"t1.0.1","digest":"d","verdict":"deny","by":"a",'
                b'"reason":"no","capability":"cap","call_id":"c1","arguments_json":"{\\"a\\":null}",'
                b'"votes":[{"plugin":"b","verdict":"none","type":"Vote"},'
                b'{"plugin":"a","verdict":"deny","reason":"no","elapsed_us":1.5,"type":"Vote"}],'
                b'"elapsed_us":7.2,"type":"DecisionMade"},"type":"Decided"}\n'
            ),
        ),
        (
            Settled("t1", "c1", Message.tool(ToolCall("c1", "add", "{}"), "3")),
            (
                b'{"t":"Settled","turn_id":"t1","call_id":"c1","message":{"role":"tool",'
                b'"content":[{"text":"3","type":"Text"}],"tool_call_id":"c1","name":"add","type":"Message"},'
                b'"type":"Settled"}\n'
            ),
        ),
    ],
)
def test_a_line_by_the_short_way_says_exactly_this(entry: Entry, line: bytes) -> None:
    assert Encoder().of(entry) == line == line_of(plain_entry(entry))


def test_what_is_not_json_is_not_a_line() -> None:
    with pytest.raises(TypeError):
        Encoder().of(Decided(DecisionMade(SCOPE, "input", "t1", "d", "allow", cast("Any", object()))))
