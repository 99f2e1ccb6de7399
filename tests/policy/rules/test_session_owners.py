"""A stored session belongs to the principal that began it (policy 36)."""

import json
import logging
from pathlib import Path
from typing import Any

import pytest
from pluggent_hookspecs import SessionOwnerError
from pluggent_hookspecs.errors import SessionError
from pluggent_hookspecs.observations import EventsDropped, PluginStateChanged
from pluggent_host import Host, HostSettings, SyncHost
from pluggent_host.settings import Grants
from pluggent_testing.fakes import ScriptedModel
from talking import hosting, shape

GRANTED = HostSettings(grants=Grants(sessions=("bob",)))


async def begin(folder: Path, principal: str = "", **options: Any) -> None:
    """Have *principal* begin the session ``trip`` in *folder*."""
    async with (
        hosting("the code is 1234", state_dir=folder) as host,
        await host.session("trip", principal=principal, **options) as session,
    ):
        await session.say("what is the code?")


async def history(folder: Path, principal: str = "", config: HostSettings | None = None, **options: Any) -> list[str]:
    """Return what the session ``trip`` holds for *principal*."""
    async with (
        hosting("more", state_dir=folder, config=config) as host,
        await host.session("trip", principal=principal, **options) as session,
    ):
        return shape(session.history)


SAID = ["user what is the code?", "assistant the code is 1234"]


@pytest.mark.parametrize("other", ["bob", "", "Alice", "alice "])
async def test_the_session_of_alice_is_not_opened_by_another(tmp_path: Path, other: str) -> None:
    await begin(tmp_path, "alice")

    with pytest.raises(SessionOwnerError, match=r"session 'trip' belongs to another principal") as refused:
        await history(tmp_path, other)

    assert "alice'" not in str(refused.value)
    assert "[grants] sessions" in str(refused.value)
    assert (refused.value.session_id, refused.value.principal) == ("trip", "alice")
    assert isinstance(refused.value, SessionError)
    assert await history(tmp_path, "alice") == SAID


async def test_a_refused_opening_writes_nothing_and_gives_the_session_up(tmp_path: Path) -> None:
    await begin(tmp_path, "alice")
    before = (tmp_path / "sessions" / "trip.jsonl").read_bytes()

    async with hosting("more", state_dir=tmp_path) as host:
        with pytest.raises(SessionOwnerError):
            await host.session("trip", principal="bob")
        assert (tmp_path / "sessions" / "trip.jsonl").read_bytes() == before
        async with await host.session("trip", principal="alice") as session:
            assert shape(session.history) == SAID


async def test_the_operator_may_grant_a_principal_the_sessions_of_others_and_they_stay_theirs(tmp_path: Path) -> None:
    await begin(tmp_path, "alice")

    assert await history(tmp_path, "bob", GRANTED) == SAID
    with pytest.raises(SessionOwnerError):
        await history(tmp_path, "bob")
    with pytest.raises(SessionOwnerError):
        await history(tmp_path, "carol", GRANTED)
    assert await history(tmp_path, "alice") == SAID


async def test_a_session_of_nobody_belongs_to_the_first_principal_that_opens_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    await begin(tmp_path)
    assert await history(tmp_path) == SAID

    with caplog.at_level(logging.WARNING, "pluggent.sessions"):
        assert await history(tmp_path, "bob") == SAID

    assert "session 'trip' belonged to nobody and belongs to 'bob' from now on" in caplog.text
    assert await history(tmp_path, "bob") == SAID
    for other in ("alice", ""):
        with pytest.raises(SessionOwnerError):
            await history(tmp_path, other)


async def test_a_session_that_was_stored_before_owners_were_belongs_to_who_acted_in_it(tmp_path: Path) -> None:
    await begin(tmp_path, "alice")
    path = tmp_path / "sessions" / "trip.jsonl"
    first, *rest = path.read_text().splitlines(keepends=True)
    plain = json.loads(first)
    assert plain.pop("principal") == "alice"
    path.write_text("".join([json.dumps(plain, separators=(",", ":")) + "\n", *rest]))

    with pytest.raises(SessionOwnerError):
        await history(tmp_path, "bob")
    assert await history(tmp_path, "alice") == SAID


async def test_the_file_of_a_session_of_nobody_is_as_it_was(tmp_path: Path) -> None:
    await begin(tmp_path)

    first = json.loads((tmp_path / "sessions" / "trip.jsonl").read_text().splitlines()[0])
    assert set(first) == {"t", "session_id", "created_s", "model", "type"}


@pytest.mark.parametrize("owner", ["alice", "", "claimed:alice"])
@pytest.mark.parametrize("name", ["alice", "claimed:alice", "bob", ""])
async def test_a_claimed_name_opens_no_stored_session(tmp_path: Path, owner: str, name: str) -> None:
    await begin(tmp_path, owner)

    with pytest.raises(SessionOwnerError):
        await history(tmp_path, name, GRANTED, claimed=True)


async def test_a_session_that_a_claimed_name_began_is_nobody_elses(tmp_path: Path) -> None:
    await begin(tmp_path, "alice", claimed=True)

    for other in ("alice", "", "claimed:alice"):
        with pytest.raises(SessionOwnerError):
            await history(tmp_path, other)
    assert await history(tmp_path, "bob", GRANTED) == SAID


async def test_another_is_refused_while_the_session_of_alice_is_open(tmp_path: Path) -> None:
    async with hosting("a", state_dir=tmp_path) as host, await host.session("trip", principal="alice"):
        with pytest.raises(SessionError):
            await host.session("trip", principal="bob")


def test_another_is_refused_without_a_loop(tmp_path: Path) -> None:
    options: dict[str, Any] = {"model": "scripted/m", "installed": False, "state_dir": tmp_path}
    with SyncHost.open(plugins=[ScriptedModel("a")], **options) as host:
        with host.session("trip", principal="alice") as session:
            session.say("hi")
        with pytest.raises(SessionOwnerError):
            host.session("trip", principal="bob")


async def test_what_happens_to_alice_is_not_told_to_bob_who_has_a_session_of_the_same_name_in_memory() -> None:
    async with hosting("secret") as host:
        alice, bob = await host.session("trip", principal="alice"), await host.session("trip", principal="bob")
        async with bob.events() as events:
            await alice.say("hi")
            await alice.aclose()
            await bob.aclose()
            seen = [
                event.scope.principal
                async for event in events
                if not isinstance(event, EventsDropped | PluginStateChanged)
            ]

    assert set(seen) == {"bob"}


@pytest.mark.parametrize("principal", [7, b"alice"])
async def test_a_principal_is_a_text(principal: Any) -> None:
    async with Host.open(model="offline/demo", installed=False, plugins=[]) as host:
        with pytest.raises(TypeError, match="principal: expected str"):
            await host.session("trip", principal=principal)
