"""Decisions and results by the short way: their lines say what the long way says."""

import json
import math
from typing import Any, cast

import attrs
import pytest
from each_of import each_of
from hypothesis import given, strategies as st
from pluggent_hookspecs import Change, DecisionMade, Message, Role, Scope, Usage, Vote
from pluggent_hookspecs.messages import Refusal, Text, ToolCall
from pluggent_host.tools.outcome import Outcome
from pluggent_host.transcript.codec import from_plain, line_of
from pluggent_host.transcript.entries import Decided, Dispatched, Settled, Spending
from pluggent_host.transcript.fast_encoder import Lines, plain_entry


class Word(str):
    """A text of a class of its own."""

    __slots__ = ()


class LongerVote(Vote):
    """A vote as a later version may have it."""


class LongerScope(Scope):
    """A scope as a later version may have it."""


texts = st.sampled_from(("", "null", "天气", '"\\\n\x00\x1f\x7f\u2028')) | st.text(max_size=5)
odd_texts = st.sampled_from(("\ud83d", "null \udc00", Word("word")))
odd_times = st.sampled_from((-0.0, math.nan, math.inf, -math.inf, 3, 10**400))
values = st.recursive(
    st.none() | st.booleans() | st.floats() | texts | odd_texts,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(texts, inner, max_size=2),
    max_leaves=4,
)
metadata = st.dictionaries(texts, texts, max_size=2)
scopes = st.builds(Scope, texts, texts, texts, dry_run=st.booleans(), metadata=metadata)
votes = st.builds(Vote, texts, texts, texts, st.floats(allow_nan=False, allow_infinity=False))
changes = st.builds(Change, texts, st.lists(texts, max_size=2).map(tuple), values, values)
plain_decisions = st.builds(
    DecisionMade,
    *(scopes, texts, texts, texts, texts, texts, texts, texts, texts),
    arguments_json=st.sampled_from((b"", b"{}", b'{"a":null}', '{"a":"天"}'.encode(), b'{"a":"\\ud83d"}')),
    votes=st.lists(votes, max_size=3).map(tuple),
    elapsed_us=st.floats(allow_nan=False, allow_infinity=False),
)
results = st.builds(
    Settled,
    *(texts, texts),
    st.builds(
        Message,
        st.just(Role.TOOL),
        st.lists(st.builds(Text, texts), max_size=3).map(tuple),
        tool_call_id=st.none() | texts,
        name=st.none() | texts,
        is_error=st.booleans(),
    ),
    texts,
    st.none() | texts,
)


def one_of_each(**fields):
    """Return changes of one field each: the rest would take the short way, this may not."""
    return st.one_of(*(st.fixed_dictionaries({name: strategy}) for name, strategy in fields.items()))


def changed(values, changes):
    """Return values with one field changed."""
    return st.builds(lambda value, fields: attrs.evolve(value, **fields), values, changes)


odd_votes = changed(votes, one_of_each(plugin=odd_texts, reason=odd_texts, elapsed_us=odd_times))
longer_votes = st.builds(LongerVote, texts, texts)
odd_scopes = changed(
    scopes, one_of_each(agent=odd_texts, metadata=st.dictionaries(texts, odd_texts | odd_times, min_size=1))
)
decisions = plain_decisions | changed(
    plain_decisions,
    one_of_each(
        scope=odd_scopes | st.builds(LongerScope, texts),
        operation_id=odd_texts,
        reason=odd_texts,
        votes=st.lists(votes | odd_votes | longer_votes, min_size=1, max_size=3).map(tuple),
        changes=st.lists(changes, min_size=1, max_size=2).map(tuple),
        elapsed_us=odd_times,
    ),
)
odd_messages = changed(
    st.builds(Message.tool, st.builds(ToolCall, texts, texts, texts), texts, is_error=st.booleans()),
    one_of_each(
        role=st.sampled_from(Role),
        content=st.lists(st.builds(Text, texts | odd_texts) | st.builds(Refusal, texts), min_size=1).map(tuple),
        tool_calls=st.just((ToolCall("c", "add", "{}"),)),
        name=odd_texts,
        extra=st.dictionaries(texts, values, min_size=1, max_size=1),
    ),
)
all_results = (
    results
    | st.builds(Settled, texts, texts, odd_messages)
    | changed(results, one_of_each(whole=odd_texts, told=st.builds(Outcome, texts, texts | odd_texts)))
)
readable = (
    (plain_decisions | changed(plain_decisions, one_of_each(reason=odd_texts, call_id=odd_texts))).map(Decided)
    | results
    | changed(results, one_of_each(whole=odd_texts, told=st.builds(Outcome, texts, texts)))
)
SCOPE = Scope("s", "t1")


def said(line):
    """Return what *line* says, in its order, so that NaN can be compared too."""
    return repr(json.loads(line))


def assert_like_the_long_way(line, entry):
    assert said(line) == said(line_of(plain_entry(entry)))
    assert (line[-1:], line.count(b"\n")) == (b"\n", 1)


@given(decisions, decisions)
def test_decisions_say_what_the_long_way_says_of_them(one, other):
    lines = Lines()

    for made in (one, other, one, attrs.evolve(other, scope=one.scope)):
        assert_like_the_long_way(lines.of(Decided(made)), Decided(made))


@given(all_results)
def test_results_say_what_the_long_way_says_of_them(entry):
    assert_like_the_long_way(Lines().of(entry), entry)


@given(st.lists(readable, max_size=4))
def test_what_was_written_is_read_again(entries):
    lines = Lines()

    read = [from_plain(json.loads(lines.of(entry)), type(entry)) for entry in entries]

    assert read == entries


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
def test_a_line_by_the_short_way_says_exactly_this(entry, line):
    assert Lines().of(entry) == line == line_of(plain_entry(entry))


MADE = DecisionMade(SCOPE, "input", "t1", "d", "allow", "host")
RESULT = Message.tool(ToolCall("c1", "add", "{}"), "3")
NOT_FINITE = Vote("a", "none", elapsed_us=math.inf)


@each_of(
    "entry",
    [
        Decided(attrs.evolve(MADE, elapsed_us=math.nan)),
        Decided(attrs.evolve(MADE, votes=(NOT_FINITE,))),
        Decided(attrs.evolve(MADE, votes=(LongerVote("a", "none"),))),
        Decided(attrs.evolve(MADE, changes=(Change("a", after=math.nan),))),
        Decided(attrs.evolve(MADE, scope=Scope(metadata=cast("Any", {"a": math.nan})))),
        Decided(attrs.evolve(MADE, scope=LongerScope("s"))),
        Decided(attrs.evolve(MADE, reason="half \ud83d")),
        Decided(attrs.evolve(MADE, reason=Word("word"))),
        Settled("t1", "c1", attrs.evolve(RESULT, extra={"a": math.nan})),
        Settled("t1", "c1", attrs.evolve(RESULT, content=(Refusal("no"),))),
        Settled("t1", "c1", RESULT, told=Outcome("c1", "s")),
        Settled("t1", "c1", RESULT, whole="half \ud83d"),
        Spending("t1", "m", Usage(1, 2)),
        Dispatched("t1", (("c", "k", "f"),)),
    ],
)
def test_what_the_short_way_cannot_say_goes_the_long_way(entry):
    lines = Lines()

    for _ in range(2):  # what was kept of the first is no excuse for the second
        assert lines.of(entry) == line_of(plain_entry(entry))


def test_what_is_not_json_is_not_a_line():
    with pytest.raises(TypeError):
        Lines().of(Decided(DecisionMade(SCOPE, "input", "t1", "d", "allow", cast("Any", object()))))
