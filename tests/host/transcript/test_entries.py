"""Conversations rebuilt from entries: any beginning of any transcript gives a whole history."""

import asyncio

import pytest
from each_of import each_of
from places import Place
from pluggent_hookspecs import Ask, Message, Usage, hookimpl
from pluggent_hookspecs.errors import ToolErrorKind
from pluggent_hookspecs.events import Scope
from pluggent_hookspecs.messages import ToolCall
from pluggent_hookspecs.observations import DecisionMade, ToolFinished, TurnEnded
from pluggent_host.turns.next_step import Why
from pluggent_testing.fakes import call
from pluggent_transcript.entries import (
    Decided,
    Dispatched,
    Said,
    SessionBegan,
    Settled,
    Spending,
    TurnBegan,
    TurnOver,
)
from pluggent_transcript.logs import MemoryTranscript
from pluggent_transcript.pending import Resumed
from pluggent_transcript.rebuild import close_call, rebuild
from saved import LIMITS, SCRIPTS, TOOLS, play
from talking import assert_whole, results, shape, talking

BEGAN = SessionBegan("s", 0.0, "scripted/m", "be short")
A, B = ToolCall("a", "write", '{"n":1}'), ToolCall("b", "write", '{"n":2}')
ASKED = (BEGAN, TurnBegan("t1", 0.0), Said("t1", Message.user("go")), Said("t1", Message.assistant((), (A, B))))


def dispatched(*calls):
    return Dispatched("t1", tuple((call.id, f"s.t1.0.{call.id}", f"print of {call.id}") for call in calls))


def settled(call, text="done", outcome=""):
    return Settled("t1", call.id, Message.tool(call, text), outcome)


NOT_RUN = "This call was not run: the turn ended before."


async def recorded(kind):
    """Return the entries of a session in which the turn called *kind* was played, and the session."""
    async with talking(*SCRIPTS[kind], tools=TOOLS, limits=LIMITS) as session:
        await play(session, kind)

        return session.records(), session


@pytest.mark.parametrize("kind", SCRIPTS)
async def test_a_whole_transcript_holds_what_the_session_held(kind):
    """Every call with effects has a key of its own."""
    entries, session = await recorded(kind)

    rebuilt = rebuild(entries)
    assert rebuilt.messages == session.history
    assert rebuilt.usage == session.usage
    assert (rebuilt.model, rebuilt.turns, rebuilt.closing) == ("scripted/m", 2, ())
    assert_whole(rebuilt.messages)
    keys = [key for entry in entries if isinstance(entry, Dispatched) for _, key, _ in entry.calls]
    assert len(set(keys)) == len(keys)


@pytest.mark.parametrize("kind", SCRIPTS)
async def test_any_beginning_of_a_transcript_gives_a_whole_history_in_which_open_calls_are_unsure(kind):
    entries, _ = await recorded(kind)
    open_calls = {}

    for length in range(len(entries) + 1):
        for entry in entries[length - 1 : length] if length else ():
            if isinstance(entry, Dispatched):
                open_calls |= {(entry.turn_id, id): fingerprint for id, _, fingerprint in entry.calls}
            if isinstance(entry, Settled):
                open_calls.pop((entry.turn_id, entry.call_id), None)
        rebuilt = rebuild(entries[:length])
        assert_whole(rebuilt.messages)
        assert set(open_calls.values()) <= rebuilt.unsure
        for written in range(len(rebuilt.closing) + 1):  # a second crash, while closing
            again = rebuild((*entries[:length], *rebuilt.closing[:written]))
            assert (again.messages, again.unsure) == (rebuilt.messages, rebuilt.unsure)
            assert again.closing == rebuilt.closing[written:]


def test_no_entries_are_an_empty_conversation_and_the_first_names_model_and_system_prompt():
    empty, began = rebuild(()), rebuild([BEGAN])

    assert (empty.messages, empty.turns, empty.closing, empty.usage) == ((), 0, (), Usage())
    assert (began.model, began.system) == ("scripted/m", "be short")


def test_calls_that_never_began_are_closed_as_not_run():
    rebuilt = rebuild(ASKED)

    assert results(rebuilt.messages) == [NOT_RUN] * 2
    assert rebuilt.unsure == frozenset()
    assert rebuilt.closing == (
        close_call("t1", A),
        close_call("t1", B),
        TurnOver("t1", "interrupted", "the process ended in the middle of this turn"),
    )


ALLOWED_AGAIN = Decided(
    DecisionMade(Scope("s", "t1"), "tool_call", "t1.0.0", "digest", "approved", "ann", call_id=A.id)
)


@each_of(
    ("entries", "second"),
    [
        ([dispatched(A)], NOT_RUN),
        ([dispatched(A), Resumed("t1", 1.0), ALLOWED_AGAIN], NOT_RUN),
        ([dispatched(A, B), settled(B, "two")], "two"),
    ],
)
def test_calls_that_had_begun_are_closed_as_unknown_and_those_that_had_ended_keep_their_result(entries, second):
    rebuilt = rebuild((*ASKED, *entries))

    first, *rest = results(rebuilt.messages)
    assert "Whether it took effect is unknown" in first
    assert rest == [second]
    assert rebuilt.unsure == {"print of a"}


@each_of("verdict", ["deny", "ask", "respond", "refused"])
def test_a_call_that_was_not_allowed_before_its_process_ended_cannot_have_happened(verdict):
    decided = Decided(DecisionMade(Scope("s", "t1"), "tool_call", "t1.0.0", "digest", verdict, "ann", call_id=A.id))

    rebuilt = rebuild((*ASKED, decided, Resumed("t1", 1.0)))

    assert results(rebuilt.messages) == [NOT_RUN] * 2
    assert rebuilt.unsure == frozenset()


def test_results_stand_in_the_order_of_the_calls_whenever_they_came():
    rebuilt = rebuild((*ASKED, settled(B, "two"), settled(A, "one"), TurnOver("t1", Why.COMPLETED)))

    assert results(rebuilt.messages) == ["one", "two"]
    assert rebuilt.closing == ()


TWINS = Dispatched("t1", (("a", "key 1", "print"), ("b", "key 2", "print")))
TWICE = Dispatched("t1", (("b", "key", "print of a"),))


@each_of(
    ("entries", "unsure"),
    [
        *(([dispatched(A), settled(A, "?", str(outcome))], {"print of a"})
          for outcome in (ToolErrorKind.TIMEOUT, ToolErrorKind.CANCELLED, ToolErrorKind.OUTCOME_UNKNOWN)),
        *(([dispatched(A), settled(A, "!", str(outcome))], set())
          for outcome in ("", ToolErrorKind.FAILED, ToolErrorKind.DENIED, ToolErrorKind.RESULT)),
        # approved and made again
        ([dispatched(A), settled(A, "?", "timeout"), TWICE, settled(B, "done")], set()),
        # its twin was denied, or dispatched beside it
        ([TWINS, settled(A, "?", "timeout"), settled(B, "no", "denied")], {"print"}),
        ([TWINS, settled(A, "?", "timeout"), settled(B, "done")], {"print"}),
        # below another call
        ([Dispatched("t1", (("t1.0.0.1", "s.t1.0.0.1", "print of nested"),))], {"print of nested"}),
    ],
)  # fmt: skip
def test_calls_that_may_have_happened_are_unsure_until_one_like_them_is_made_again(entries, unsure):
    assert rebuild((*ASKED, *entries)).unsure == unsure


def test_a_direct_call_is_unsure_too():
    direct = Dispatched("t1", (("t1.direct", "s.t1.0.0", "print of direct"),))
    rebuilt = rebuild((BEGAN, TurnBegan("t1", 0.0), direct))

    assert (rebuilt.unsure, rebuilt.messages) == ({"print of direct"}, ())


def test_one_id_in_two_turns_means_two_calls():
    second = (
        TurnBegan("t2", 1.0), Said("t2", Message.user("again")), Said("t2", Message.assistant((), (A,))),
        Settled("t2", "a", Message.tool(A, "second")),
    )  # fmt: skip
    rebuilt = rebuild((*ASKED, dispatched(A, B), settled(A, "first"), settled(B), TurnOver("t1", "completed"), *second))

    assert results(rebuilt.messages) == ["first", "done", "second"]


def test_a_given_history_with_calls_is_rebuilt_as_it_was():
    past = (Message.user("q"), Message.assistant((), (A,)), Message.tool(A, "given"), Message.assistant("answer"))
    rebuilt = rebuild((BEGAN, *(Said("", message) for message in past)))

    assert rebuilt.messages == past
    assert rebuilt.closing == ()


def test_what_was_spent_is_summed_and_the_messages_of_an_interrupted_turn_stay():
    spending = Spending("t1", "scripted/m", Usage(3, 4), "cancelled")

    assert rebuild((*ASKED, spending, spending)).usage == Usage(6, 8)
    assert shape(rebuild(ASKED[:3]).messages) == ["user go"]


def test_a_turn_that_was_denied_before_it_began_counts_as_a_turn():
    rebuilt = rebuild((BEGAN, TurnBegan("t1", 0.0), TurnOver("t1", "denied")))

    assert (rebuilt.turns, rebuilt.messages, rebuilt.closing) == (1, (), ())


async def test_a_transcript_in_memory_gives_back_what_was_appended():
    transcript = MemoryTranscript()
    transcript.append(BEGAN)
    transcript.append(*ASKED[1:])
    await transcript.sync(asyncio.to_thread)
    await transcript.aclose()

    assert transcript.entries() == ASKED


class AfterTheFirst:
    """A policy that asks about calls decided after another one has ended in this turn."""

    ended = False

    @hookimpl
    def decide_tool_call(self, event):
        return Ask("sure?") if self.ended else None

    @hookimpl
    def observe(self, event):
        self.ended = isinstance(event, ToolFinished) or (self.ended and not isinstance(event, TurnEnded))


async def test_a_call_that_was_announced_and_never_began_is_not_doubted_later():
    place = Place()

    async def approver(event):
        await place.hang()

    both = (call("write", "a", n=1), call("write", "b", n=2))
    async with talking(both, "x", tools=TOOLS, plugins=[AfterTheFirst()], approver=approver) as session:
        turn = asyncio.create_task(session.say("go"))
        await place.reached.wait()
        turn.cancel()
        await asyncio.wait((turn,))

        assert results(session.history)[0] == "written 1"
        assert rebuild(session.records()).unsure == frozenset()
