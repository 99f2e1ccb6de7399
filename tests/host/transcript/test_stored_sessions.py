"""Sessions that a host keeps, listed, read and deleted without being opened."""

from pathlib import Path
from typing import Any

import pytest
from pluggent_hookspecs.errors import SessionError
from pluggent_host import Host, HostSettings
from pluggent_testing.fakes import ScriptedModel, call
from pluggent_testing.sessions import MemorySessions
from saved import Office, SlowSessions


def host(store: Any, *replies: Any) -> Any:
    model = ScriptedModel(*replies)
    return Host.open(model="scripted/m", plugins=[model], installed=False, sessions=store)


@pytest.mark.parametrize("store", [MemorySessions, SlowSessions])
async def test_sessions_of_any_store_are_listed_read_and_deleted(store: Any):
    async with host(store(), "Paris", "Rome") as opened:
        for id in ("trip-1", "trip-2", "other"):
            async with await opened.session(id, principal="ann", metadata={"app": "x"}) as session:
                if id == "trip-1":
                    await session.say("where to?")
        page = await opened.sessions.list(prefix="trip-", limit=1)
        rest = await opened.sessions.list(prefix="trip-", limit=1, cursor=page.cursor)
        read = await opened.sessions.read("trip-1")
        await opened.sessions.delete("trip-1")

        assert {page.sessions[0].id, rest.sessions[0].id} == {"trip-1", "trip-2"}
        assert [message.text for message in read.messages] == ["where to?", "Paris"]
        assert (read.turns, read.model, read.principal, read.metadata) == (1, "scripted/m", "ann", {"app": "x"})
        assert (read.pending, type(read.entries[0]).__name__) == ((), "SessionBegan")
        assert "trip-1" not in {each.id for each in (await opened.sessions.list()).sessions}
        with pytest.raises(SessionError):
            await opened.sessions.read("trip-1")


async def test_a_session_that_is_open_can_be_read_and_not_deleted(tmp_path: Path):
    office = Office(tmp_path)
    async with office.host(call("send", to="ann")) as opened, await opened.session("s") as session:
        await session.say("write to ann")

        assert [each.arguments_json for each in (await opened.sessions.read("s")).pending] == [b'{"to":"ann"}']
        with pytest.raises(SessionError, match="open in this process"):
            await opened.sessions.delete("s")
        assert (await opened.sessions.list()).sessions[0].waits


async def test_a_host_without_a_store_says_how_to_get_one():
    async with Host.open(installed=False, plugins=[ScriptedModel()], config=HostSettings()) as opened:
        assert (await opened.sessions.list()).sessions == ()
        with pytest.raises(SessionError, match=r"open it with state_dir= or sessions="):
            await opened.sessions.read("s")
