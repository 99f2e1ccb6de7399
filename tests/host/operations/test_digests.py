"""Digests: parts that cannot be confused, and events that keep everything else."""

import attrs
import pytest
from hypothesis import given, strategies as st
from pluggent_hookspecs import (
    DeltaEvent,
    InputEvent,
    Message,
    ModelRequest,
    ModelRequestEvent,
    OutputEvent,
    Scope,
    ToolCallEvent,
    ToolOutput,
    ToolResultEvent,
    ToolSpec,
)
from pluggent_host.common.names import framed
from pluggent_host.operations.operation import with_digest

SCOPE = Scope("s", "t", "cli", "writer", "ann", workspace="/work", metadata={"a": "b"})
SPEC = ToolSpec("add", effects=("shell",))
EVENTS = (
    InputEvent(SCOPE, Message.user("hello"), "", resumed=True),
    OutputEvent(SCOPE, Message.assistant("hello"), "acme:tool/x"),
    ModelRequestEvent(SCOPE, ModelRequest("m", (Message.user("hello"),)), "app:x:provider/y", "memory:", 3),
    ToolCallEvent(SCOPE, "c1", SPEC, "app:tools:tool/add", b'{"a":1}', "d" * 64, frozenset({"shell"}), 2, 1),
    ToolResultEvent(SCOPE, "c1", SPEC, "app:tools:tool/add", b"{}", ToolOutput("3", data=3), 2, 1),
)


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_an_event_under_a_digest_keeps_everything_else(event):
    assert with_digest(event, "abc") == attrs.evolve(event, digest="abc")
    assert event.digest == ""


def test_a_digest_may_be_given_again():
    first = with_digest(EVENTS[0], "abc")

    assert with_digest(first, "def") == attrs.evolve(first, digest="def")


def test_what_has_no_digest_cannot_be_given_one():
    with pytest.raises(ValueError, match="digest"):
        with_digest(DeltaEvent(SCOPE, "text"), "abc")


@given(st.lists(st.binary(max_size=12), max_size=4), st.lists(st.binary(max_size=12), max_size=4))
def test_other_parts_never_look_the_same(one, other):
    assert (framed(*one) == framed(*other)) == (one == other)
