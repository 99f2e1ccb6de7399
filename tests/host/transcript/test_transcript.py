"""What a conversation is rebuilt from: any beginning of any transcript gives a whole history."""

import asyncio

import pytest
from places import Place
from pluggent_hookspecs import Ask, Deny, Message, Usage, hookimpl
from pluggent_hookspecs.errors import ToolErrorKind
from pluggent_hookspecs.events import Scope
from pluggent_hookspecs.messages import ToolCall
from pluggent_hookspecs.observations import DecisionMade, ToolFinished, TurnEnded
from pluggent_host.approvals.pending import Resumed
from pluggent_host.transcript.entries import (
    Decided,
    Dispatched,
    Said,
    SessionBegan,
    Settled,
    Spending,
    TurnBegan,
    TurnOver,
    close_call,
    rebuild,
)
from pluggent_host.transcript.logs import MemoryTranscript
from pluggent_host.turns.step import Why
from pluggent_testing.fakes import call
from saved import LIMITS, SCRIPTS, TOOLS, play
from talking import assert_whole, results, shape, talking

BEGAN = SessionBegan("s", 0.0, "scripted/m", "be short")
A, B = ToolCall("a", "write", '{"n":1}'), ToolCall("b", "write", '{"n":2}')
ASKED = (BEGAN, TurnBegan("t1", 0.0), Said("t1", Message.user("go")), Said("t1", Message.assistant((), (A, B))))


def dispatched(*calls):
    return Dispatched("t1", tuple((call.id, f"s.t1.0.{call.id}", f"print of {call.id}") for call in calls))


def settled(call, text="done", outcome=""):
    return Settled("t1", call.id, Message.tool(call, text), outcome)


async def recorded(kind):
    """Return the entries of a session in which the turn called *kind* was played, and the session."""
    async with talking(*SCRIPTS[kind], tools=TOOLS, limits=LIMITS) as session:
        await play(session, kind)

        return session.records(), session


# ---- real turns -------------------------------------------------------------------------


@pytest.mark.parametrize("kind", SCRIPTS)
async def test_a_whole_transcript_tells_what_the_session_held(kind):
    entries, session = await recorded(kind)

    rebuilt = rebuild(entries)
    assert rebuilt.messages == session.history
    assert rebuilt.usage == session.usage
    assert (rebuilt.model, rebuilt.turns, rebuilt.closing) == ("scripted/m", 2, ())
    assert_whole(rebuilt.messages)


@pytest.mark.parametrize("kind", SCRIPTS)
async def test_any_beginning_of_a_transcript_gives_a_whole_history(kind):
    entries, _ = await recorded(kind)

    for length in range(len(entries) + 1):
        assert_whole(rebuild(entries[:length]).messages)


@pytest.mark.parametrize("kind", SCRIPTS)
async def test_closing_what_a_crash_left_open_changes_nothing_more_however_often(kind):
    entries, _ = await recorded(kind)

    for length in range(len(entries) + 1):
        rebuilt = rebuild(entries[:length])
        for written in range(len(rebuilt.closing) + 1):  # a second crash, while closing
            again = rebuild((*entries[:length], *rebuilt.closing[:written]))
            assert again.messages == rebuilt.messages
            assert again.unsure == rebuilt.unsure
            assert again.closing == rebuilt.closing[written:]


@pytest.mark.parametrize("kind", SCRIPTS)
async def test_a_call_with_effects_that_has_no_result_yet_is_unsure(kind):
    entries, _ = await recorded(kind)

    for length in range(len(entries) + 1):
        open_calls = {}
        for entry in entries[:length]:
            if isinstance(entry, Dispatched):
                open_calls |= {(entry.turn_id, id): fingerprint for id, _, fingerprint in entry.calls}
            if isinstance(entry, Settled):
                open_calls.pop((entry.turn_id, entry.call_id), None)
        assert set(open_calls.values()) <= rebuild(entries[:length]).unsure


@pytest.mark.parametrize("kind", SCRIPTS)
async def test_every_call_with_effects_has_a_key_of_its_own(kind):
    entries, _ = await recorded(kind)

    keys = [key for entry in entries if isinstance(entry, Dispatched) for _, key, _ in entry.calls]
    assert len(set(keys)) == len(keys)


# ---- entries written by hand ------------------------------------------------------------


def test_no_entries_are_an_empty_conversation():
    rebuilt = rebuild(())

    assert (rebuilt.messages, rebuilt.turns, rebuilt.closing, rebuilt.usage) == ((), 0, (), Usage())


def test_the_first_entry_tells_model_and_system_prompt():
    rebuilt = rebuild([BEGAN])

    assert (rebuilt.model, rebuilt.system) == ("scripted/m", "be short")


def test_calls_that_never_began_are_closed_as_not_run():
    rebuilt = rebuild(ASKED)

    assert results(rebuilt.messages) == ["This call was not run: the turn ended before."] * 2
    assert rebuilt.unsure == frozenset()
    assert rebuilt.closing == (
        close_call("t1", A),
        close_call("t1", B),
        TurnOver("t1", "interrupted", "the process ended in the middle of this turn"),
    )


def test_calls_that_had_begun_are_closed_as_unknown():
    rebuilt = rebuild((*ASKED, dispatched(A)))

    first, second = results(rebuilt.messages)
    assert "Whether it took effect is unknown" in first
    assert second == "This call was not run: the turn ended before."
    assert rebuilt.unsure == {"print of a"}


def test_a_call_that_was_allowed_again_after_it_was_dispatched_is_still_closed_as_unknown():
    again = Decided(DecisionMade(Scope("s", "t1"), "tool_call", "t1.0.0", "digest", "approved", "ann", call_id=A.id))
    rebuilt = rebuild((*ASKED, dispatched(A), Resumed("t1", 1.0), again))

    assert "Whether it took effect is unknown" in results(rebuilt.messages)[0]
    assert rebuilt.unsure == {"print of a"}


def test_calls_that_had_ended_keep_their_result():
    rebuilt = rebuild((*ASKED, dispatched(A, B), settled(B, "two")))

    first, second = results(rebuilt.messages)
    assert "unknown" in first
    assert second == "two"
    assert rebuilt.unsure == {"print of a"}


def test_results_stand_in_the_order_of_the_calls_whenever_they_came():
    rebuilt = rebuild((*ASKED, settled(B, "two"), settled(A, "one"), TurnOver("t1", Why.COMPLETED)))

    assert results(rebuilt.messages) == ["one", "two"]
    assert rebuilt.closing == ()


@pytest.mark.parametrize("outcome", [ToolErrorKind.TIMEOUT, ToolErrorKind.CANCELLED, ToolErrorKind.OUTCOME_UNKNOWN])
def test_calls_that_may_have_happened_stay_unsure(outcome):
    rebuilt = rebuild((*ASKED, dispatched(A), settled(A, "?", str(outcome))))

    assert rebuilt.unsure == {"print of a"}


@pytest.mark.parametrize("outcome", ["", ToolErrorKind.FAILED, ToolErrorKind.DENIED, ToolErrorKind.RESULT])
def test_calls_that_came_to_an_end_are_not_unsure(outcome):
    assert rebuild((*ASKED, dispatched(A), settled(A, "!", str(outcome)))).unsure == frozenset()


def test_a_call_that_was_approved_and_made_again_is_no_longer_unsure():
    again = Dispatched("t1", (("b", "key", "print of a"),))
    entries = (*ASKED, dispatched(A), settled(A, "?", "timeout"), again, settled(B, "done"))

    assert rebuild(entries).unsure == frozenset()


def test_a_call_that_was_denied_leaves_the_doubt_about_its_twin():
    twins = Dispatched("t1", (("a", "key 1", "print"), ("b", "key 2", "print")))
    entries = (*ASKED, twins, settled(A, "?", "timeout"), settled(B, "no", "denied"))

    assert rebuild(entries).unsure == {"print"}


def test_a_twin_that_was_dispatched_beside_it_does_not_end_the_doubt_about_a_call():
    twins = Dispatched("t1", (("a", "key 1", "print"), ("b", "key 2", "print")))
    entries = (*ASKED, twins, settled(A, "?", "timeout"), settled(B, "done"))

    assert rebuild(entries).unsure == {"print"}


def test_a_call_below_another_one_is_unsure_too():
    nested = Dispatched("t1", (("t1.0.0.1", "s.t1.0.0.1", "print of nested"),))

    assert rebuild((*ASKED, nested)).unsure == {"print of nested"}


def test_a_direct_call_is_unsure_too():
    direct = Dispatched("t1", (("t1.direct", "s.t1.0.0", "print of direct"),))
    rebuilt = rebuild((BEGAN, TurnBegan("t1", 0.0), direct))

    assert rebuilt.unsure == {"print of direct"}
    assert rebuilt.messages == ()


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


def test_what_was_spent_is_summed_whatever_became_of_the_turn():
    spending = Spending("t1", "scripted/m", Usage(3, 4), "cancelled")

    assert rebuild((*ASKED, spending, spending)).usage == Usage(6, 8)


def test_a_turn_that_was_denied_before_it_began_counts_as_a_turn():
    rebuilt = rebuild((BEGAN, TurnBegan("t1", 0.0), TurnOver("t1", "denied")))

    assert (rebuilt.turns, rebuilt.messages, rebuilt.closing) == (1, (), ())


def test_the_messages_of_an_interrupted_turn_stay():
    assert shape(rebuild(ASKED[:3]).messages) == ["user go"]


async def test_a_transcript_in_memory_gives_back_what_was_appended():
    transcript = MemoryTranscript()
    transcript.append(BEGAN)
    transcript.append(*ASKED[1:])
    await transcript.sync(asyncio.to_thread)
    await transcript.aclose()

    assert transcript.entries() == ASKED


# ---- what a session doubts while it is open ---------------------------------------------


class AfterTheFirst:
    """A policy that gives *answer* for calls decided after another one has ended in this turn."""

    def __init__(self, answer):
        self.answer = answer
        self.ended = False

    @hookimpl
    def decide_tool_call(self, event):
        return self.answer if self.ended else None

    @hookimpl
    def observe(self, event):
        self.ended = isinstance(event, ToolFinished) or (self.ended and not isinstance(event, TurnEnded))


async def test_a_denied_twin_leaves_the_doubt_in_the_session_too():
    asked = []

    async def approver(event):
        asked.append(event)
        return False

    twins = (call("hang", "a", n=1), call("hang", "b", n=1))
    async with talking(
        twins, "x", call("hang", n=1), "x", tools=TOOLS, plugins=[AfterTheFirst(Deny("no"))], approver=approver
    ) as session:
        await session.say("go")
        assert results(session.history)[1] == "Denied: no"
        await session.say("again")

        assert len(asked) == 1
        assert len(rebuild(session.records()).unsure) == 1


async def test_a_call_that_was_announced_and_never_began_is_not_doubted_later():
    place = Place()

    async def approver(event):
        await place.hang()

    both = (call("write", "a", n=1), call("write", "b", n=2))
    async with talking(both, "x", tools=TOOLS, plugins=[AfterTheFirst(Ask("sure?"))], approver=approver) as session:
        turn = asyncio.create_task(session.say("go"))
        await place.reached.wait()
        turn.cancel()
        await asyncio.wait((turn,))

        assert results(session.history)[0] == "written 1"
        assert rebuild(session.records()).unsure == frozenset()
