"""A turn in the background, killed -9 at every message on the wire and every write: paid once, or said to be in doubt.

The server lives in the process of the test and counts what it was asked to make; each killed process has an account.
"""

import os
import subprocess
import sys
from pathlib import Path

import dying_later
import pytest
import saved
from dying_later import LATER, opened, play_batch
from pluggent_cli.batches.kept import KeptBatches
from pluggent_hookspecs import Message, ModelResponse, Usage
from pluggent_host.turns.next_step import Why
from pluggent_testing.fakes import call
from pluggent_testing.later.batch_servers import OpenAIBatchServer
from pluggent_testing.later.responses_server import USAGE, ResponsesServer
from talking import shape


def reply_to(body):
    """Call the tool first, and say that all is done when its result is there."""
    if any(item.get("type") == "function_call_output" for item in body["input"]):
        return ModelResponse(Message.assistant("all is done"), usage=USAGE, model="m")
    return ModelResponse(Message.assistant((), (call("look", "c1"),)), usage=USAGE, model="m")


def killed(folder, server, kind):
    """Return the folders of processes that were killed, each a step later; the last one lived."""
    origin = server.url("x").removesuffix("/x/v1")
    program = [sys.executable, dying_later.__file__, str(folder), origin, kind]
    support = {**os.environ, "PYTHONPATH": str(Path(saved.__file__).parent)}
    done = subprocess.run(program, capture_output=True, text=True, timeout=120, check=True, env=support)  # noqa: S603
    return [folder / number for number in done.stdout.split()]


@pytest.fixture(scope="module")
def remains(tmp_path_factory):
    with ResponsesServer(reply_to) as server:
        yield server, killed(tmp_path_factory.mktemp("killed"), server, "run")


async def test_a_killed_run_goes_on_and_is_paid_for_once_or_is_in_doubt(remains):
    server, places = remains
    doubts = waits = 0
    assert len(places) > 20
    for place in places:
        account = server.accounts[place.name]
        before = len(account.bodies)

        async with opened(place, server.url(place.name)) as host, await host.session("s", parameters=LATER) as session:
            if not session.paused and shape(session.history)[-1:] == ["assistant all is done"]:
                assert len(account.bodies) == 2, place
                continue
            asked = session.pending
            waits += session.paused
            result = await session.resume() if session.paused else None
            if asked:
                assert result is not None
                doubts += 1
                assert "may run, and be billed, already" in asked[0].why, place
                assert result.why is Why.PAUSED, place
                assert len(account.bodies) == before, place
                continue
            if result is None:  # it died before anything was about to be sent, or between two rounds
                assert before < 2, place
                continue

            assert (result.why, result.text) == (Why.COMPLETED, "all is done"), place
            assert len(account.bodies) == 2, place
            assert session.usage == Usage(input=20, output=10), place
            assert shape(session.history) == ["user go", "assistant -> look", "tool seen", "assistant all is done"]
    # In doubt is one step before the request and one behind it, until the ticket is on record; in both rounds.
    assert 0 < doubts <= 16
    assert waits - doubts > 10


async def test_what_was_not_sent_again_unasked_is_sent_once_a_person_agrees(remains):
    server, places = remains
    for place in places:
        account = server.accounts[place.name]
        async with opened(place, server.url(place.name)) as host, await host.session("s", parameters=LATER) as session:
            if not session.pending:
                continue
            before = len(account.bodies)
            result = await session.resume({session.pending[0].call_id: True})
            assert (result.why, result.text) == (Why.COMPLETED, "all is done"), place
            assert len(account.bodies) <= before + 2


class Server(OpenAIBatchServer):
    """Its batches end at once."""

    def _begun(self, account, batch):
        account.ends = True
        return super()._begun(account, batch)


async def test_a_killed_batch_is_found_again_and_paid_for_once(tmp_path):
    with Server() as server:
        places = killed(tmp_path, server, "batch")
        assert len(places) > 15
        states = set()
        for place in places:
            account = server.accounts[place.name]
            known = KeptBatches(place).of("digest")
            states.add((known is not None, known is not None and known.batch.ticket is not None, len(account.batches)))

            await play_batch(place, server.url(place.name))

            assert len(account.batches) == 1, place
            kept = KeptBatches(place).all()
            assert [each.batch.ticket and each.batch.ticket.id for each in kept] == ["batch_1"], place
    # Killed before and behind each: the record, the vendor's batch, the ticket. Sent and not known is one of them.
    assert states == {(False, False, 0), (True, False, 0), (True, False, 1), (True, True, 1)}
