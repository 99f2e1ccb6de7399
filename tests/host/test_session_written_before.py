"""What an earlier version wrote opens with this one: same files, same seals, same decisions."""

import os
import shutil
from pathlib import Path

import pytest
from pluggent_host import Why
from pluggent_testing.fakes import call
from saved import Office, all_waiting

WRITTEN = Path(__file__).parent / "written_before"


@pytest.fixture
def office(tmp_path: Path) -> Office:
    folder = tmp_path / "state"
    shutil.copytree(WRITTEN, folder)
    for path in (folder, *folder.rglob("*")):
        os.chmod(path, 0o700 if path.is_dir() else 0o600)  # noqa: PTH101 (git keeps no modes)
    return Office(folder)


async def test_a_session_that_an_earlier_version_paused_waits_and_is_resumed(office: Office):
    async with office.host("done") as host, await host.session("waits") as session:
        result = await session.resume({session.pending[0].call_id: True})

    assert (result.why, office.sent) == (Why.COMPLETED, ["ann"])


async def test_an_answer_that_an_earlier_version_sealed_counts(office: Office):
    async with office.host("done") as host, await host.session("answered") as session:
        result = await session.resume()

    assert (result.why, office.sent) == (Why.COMPLETED, ["bob"])


async def test_an_approval_for_always_of_an_earlier_version_holds(office: Office):
    async with office.host(call("send", to="cat"), "done") as host, await host.session("new") as session:
        result = await session.say("write to cat")

    assert (result.why, office.sent) == (Why.COMPLETED, ["cat"])


def test_what_an_earlier_version_left_waiting_is_listed(office: Office):
    waiting = {
        each.session: tuple(one.answer for one in each.calls) for each in all_waiting(office.folder / "sessions")
    }

    assert waiting == {"waits": ("",), "answered": ("approved",), "always": ("approved",)}
