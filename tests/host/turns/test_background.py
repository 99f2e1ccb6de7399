"""A model call that runs in the background: on record before it is sent, attached to by another host, paid for once."""

import asyncio
from typing import Any

import pytest
from pluggent_hookspecs import (
    Ask,
    Deny,
    ModelParameters,
    ProviderError,
    ProviderErrorKind,
    Role,
    SessionError,
    SettleEvent,
    SubmissionInDoubt,
    TextShown,
    Usage,
    hookimpl,
    tool,
)
from pluggent_host.settings import HostSettings
from pluggent_host.turns.next_step import Why
from pluggent_testing.fakes import Recorder, ScriptedModel, call
from pluggent_testing.later.fakes import LaterModel, LaterVendor
from pluggent_transcript.entries import RunRefused, Spending
from pluggent_transcript.pending import Paused
from pluggent_transcript.rebuild import rebuild
from talking import WAIT_S, assert_whole, hosting, shape

LATER = ModelParameters(background=True)
LOST = ProviderError(ProviderErrorKind.STREAM_BROKEN, "the connection was lost")
GONE = ProviderError(ProviderErrorKind.BAD_REQUEST, "the run has expired: ask again")
DOUBT = SubmissionInDoubt(ProviderErrorKind.TIMEOUT, "no answer within 120 s")


def opened(folder, model, **options):
    config = HostSettings(on_ask="pause")
    return hosting(model=model, state_dir=folder, permits=True, config=config, **options)


async def test_a_reply_in_the_background_is_a_reply_and_its_ticket_is_on_record_before_it_is_waited_for(tmp_path):
    model, seen = LaterModel("it is done"), Recorder()
    on_record = []
    attach = model.attach

    def attaching(ticket, request):
        waiting: Any = rebuild(session.records()).waiting
        on_record.append(waiting.paused.run.ticket.id)
        return attach(ticket, request)

    model.attach = attaching
    async with opened(tmp_path, model, plugins=[seen]) as host, await host.session("s", parameters=LATER) as session:
        async with session.stream("go") as events:
            shown = [event.text async for event in events if isinstance(event, TextShown)]
        result = events.result

        assert (result.why, result.text, "".join(shown)) == (Why.COMPLETED, "it is done", "it is done")
        assert on_record == ["run_1"]
        assert not session.paused
        assert session.usage == Usage(input=10, output=5)


async def test_another_host_attaches_to_the_run_and_pays_nothing_twice(tmp_path):
    vendor = LaterVendor()

    @tool(effects=())
    async def look() -> str:
        """Look."""
        return "seen"

    first = LaterModel(call("look"), "never", vendor=vendor, on_attach=[None, LOST])
    async with opened(tmp_path, first, tools=[look]) as host, await host.session("s", parameters=LATER) as session:
        result = await session.say("go")
        assert result.why is Why.PAUSED
        assert "run_2" in result.detail
        assert session.paused
        assert session.pending == ()
        spent = session.usage

    second = LaterModel(vendor=vendor)
    async with opened(tmp_path, second, tools=[look]) as host, await host.session("s") as session:
        assert session.paused
        result = await session.resume()

        assert (result.why, result.text) == (Why.COMPLETED, "never")
        assert shape(session.history) == ["user go", "assistant -> look", "tool seen", "assistant never"]
        assert session.usage == result.usage == spent + Usage(input=10, output=5)
    assert len(vendor.runs) == 2
    assert vendor.attached == ["run_1", "run_2", "run_2"]
    assert vendor.cancelled == []


async def test_a_call_of_a_tool_that_changed_while_the_reply_was_made_is_one_of_an_unknown_tool(tmp_path):
    """Policy 9: the model has seen another definition than the one that would run."""
    vendor, ran = LaterVendor(), []
    first = LaterModel(call("look"), vendor=vendor, on_attach=[LOST])

    @tool(effects=())
    async def look() -> str:
        """Look."""
        return "seen"

    async with opened(tmp_path, first, tools=[look]) as host, await host.session("s", parameters=LATER) as session:
        assert (await session.say("go")).why is Why.PAUSED

    @tool(name="look", effects=())
    async def other() -> str:
        """Look, and send it to everybody."""
        ran.append("look")
        return "sent"

    async with (
        opened(tmp_path, LaterModel("done", vendor=vendor), tools=[other]) as host,
        await host.session("s") as session,
    ):
        await session.resume()
        (result,) = [message for message in session.history if message.role is Role.TOOL]

    assert (ran, result.is_error) == ([], True)


async def test_what_may_have_been_submitted_is_not_submitted_again_before_a_person_agrees(tmp_path):
    vendor = LaterVendor()
    model = LaterModel("fine", vendor=vendor, on_submit=[DOUBT])
    async with opened(tmp_path, model) as host, await host.session("s", parameters=LATER) as session:
        result = await session.say("go")
        assert result.why is Why.PAUSED
        assert "may run, and be billed, already" in result.detail
        result = await session.resume()
        assert result.why is Why.PAUSED
        assert len(vendor.runs) == 1

    async with opened(tmp_path, LaterModel("fine", vendor=vendor)) as host, await host.session("s") as session:
        (pending,) = session.pending
        result = await session.resume({pending.call_id: True})

        assert (result.why, result.text) == (Why.COMPLETED, "fine")
        assert len(vendor.runs) == 2


@pytest.mark.parametrize("way", ["refuse", "undo", "say"])
async def test_a_doubt_stays_on_every_way_out(tmp_path, way):
    vendor = LaterVendor()
    model = LaterModel("fine", "fine", vendor=vendor, on_submit=[DOUBT])
    async with opened(tmp_path, model) as host, await host.session("s", parameters=LATER) as session:
        await session.say("go")
        if way == "refuse":
            assert (await session.resume({session.pending[0].call_id: False})).why is Why.DENIED
        elif way == "say":
            assert (await session.say("something else")).why is Why.COMPLETED
        while await session.undo() is not None:
            pass

    async with (
        opened(tmp_path, LaterModel(vendor=vendor)) as host,
        await host.session("s", parameters=LATER) as session,
    ):
        before = len(vendor.runs)
        result = await session.say("go")

        assert result.why is Why.PAUSED
        assert len(vendor.runs) == before


async def test_a_request_that_the_vendor_refuses_leaves_no_doubt(tmp_path):
    refused = ProviderError(ProviderErrorKind.BAD_REQUEST, "no such model", status=400)
    model = LaterModel("fine", on_submit=[refused])
    async with opened(tmp_path, model) as host, await host.session("s", parameters=LATER) as session:
        with pytest.raises(ProviderError, match="no such model"):
            await session.say("go")
        assert not session.paused
        assert any(isinstance(entry, RunRefused) for entry in session.records())
        await session.undo()

        assert (await session.say("go")).text == "fine"


async def test_a_run_that_is_gone_ends_the_turn_with_its_error(tmp_path):
    model = LaterModel("fine", "again", on_attach=[GONE])
    async with opened(tmp_path, model) as host, await host.session("s", parameters=LATER) as session:
        with pytest.raises(ProviderError, match="ask again"):
            await session.say("go")

        assert not session.paused
        with pytest.raises(SessionError, match="no turn that waits"):
            await session.resume()
        assert (await session.say("once more")).text == "again"


@pytest.mark.parametrize("way", ["cancelled", "said", "undone", "denied"])
async def test_a_run_that_is_given_up_is_cancelled_at_the_vendor(tmp_path, way):
    class No:
        denies = False

        @hookimpl
        def decide_model_request(self, event):
            return Deny("no more") if self.denies else None

    vendor, no = LaterVendor(), No()
    hold = asyncio.Event() if way == "cancelled" else None
    model = LaterModel("fine", "fine", vendor=vendor, on_attach=[LOST], hold=hold)
    async with opened(tmp_path, model, plugins=[no]) as host, await host.session("s", parameters=LATER) as session:
        if way == "cancelled":
            turn = asyncio.create_task(session.say("go"))
            await asyncio.wait_for(model.asked.wait(), WAIT_S)
            turn.cancel()
            await asyncio.wait((turn,), timeout=WAIT_S)
            assert turn.cancelled()
        else:
            assert (await session.say("go")).why is Why.PAUSED
        if way == "said":
            await session.say("never mind")
        elif way == "undone":
            await session.undo()
        elif way == "denied":
            no.denies = True
            assert (await session.resume()).why is Why.DENIED

        assert vendor.cancelled == ["run_1"]
        assert not session.paused
        assert_whole(session.history)


async def test_a_run_at_another_server_is_not_cancelled_at_this_one(tmp_path, caplog):
    vendor = LaterVendor()
    model = LaterModel("fine", "fine", vendor=vendor, on_attach=[LOST])
    async with opened(tmp_path, model) as host, await host.session("s", parameters=LATER) as session:
        assert (await session.say("go")).why is Why.PAUSED

        model.target = "memory:other"
        await session.say("never mind")

    assert vendor.cancelled == []
    assert "run run_1 was not cancelled and may be billed: it is at memory:, not memory:other" in caplog.text


async def test_policies_decide_about_a_request_in_the_background_and_again_when_it_is_attached_to(tmp_path):
    class Looks:
        requests = ()
        responses = ()

        @hookimpl
        def decide_model_request(self, event):
            self.requests += ((event.request.parameters.background, event.digest),)
            return Ask("is that right?") if len(self.requests) == 1 else None

        @hookimpl
        def transform_model_response(self, event):
            self.responses += (event.response.message.text,)

        @hookimpl
        def reserve(self, event):
            return event.run

        @hookimpl
        def settle(self, event: SettleEvent):
            self.settled = (*getattr(self, "settled", ()), (event.reservation, event.outcome))

    looks, vendor = Looks(), LaterVendor()
    model = LaterModel("fine", vendor=vendor, on_attach=[LOST])
    asked = []
    async with (
        opened(tmp_path, model, plugins=[looks], approver=lambda event: asked.append(event) or True) as host,
        await host.session("s", parameters=LATER) as session,
    ):
        assert (await session.say("go")).why is Why.PAUSED
        assert (await session.resume()).text == "fine"

    assert [background for background, _ in looks.requests] == [True, True]
    first, second = (asked for _, asked in looks.requests)
    assert first == second
    assert looks.responses == ("fine",)
    assert looks.settled == (("s/t1.0", "failed"), ("s/t1.0", "done"))
    assert len(asked) == 1


async def test_a_provider_without_runs_refuses_a_request_in_the_background(tmp_path):
    async with opened(tmp_path, ScriptedModel("x")) as host, await host.session("s", parameters=LATER) as session:
        with pytest.raises(ProviderError, match=r"leave out parameters\.background"):
            await session.say("go")
        assert not any(isinstance(entry, Paused) for entry in session.records())


async def test_a_reply_that_is_read_twice_is_counted_once(tmp_path):
    """The process died behind what the call has cost, and before its reply: both were read again."""
    vendor = LaterVendor()
    model = LaterModel("fine", vendor=vendor)
    async with opened(tmp_path, model) as host, await host.session("s", parameters=LATER) as session:
        await session.say("go")
        entries = session.records()
    place = next(place for place, entry in enumerate(entries) if isinstance(entry, Spending))
    before = entries[: place + 1]

    assert rebuild((*before, *entries[place:])).usage == rebuild(entries).usage == Usage(input=10, output=5)
    assert rebuild(before).waiting is not None
