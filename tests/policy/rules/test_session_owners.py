"""A stored session belongs to the principal that began it (rule 36)."""

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
from saved import without_checksums
from talking import hosting, shape

GRANTED = HostSettings(grants=Grants(sessions=("bob",)))
SAID = ["user what is the code?", "assistant the code is 1234"]


async def begin(folder: Path, principal: str = "", **options: Any) -> Path:
    """Have *principal* begin the session ``trip`` in *folder*; return its file."""
    async with (
        hosting("the code is 1234", state_dir=folder) as host,
        await host.session("trip", principal=principal, **options) as session,
    ):
        await session.say("what is the code?")
    return folder / "sessions" / "trip.jsonl"


async def opens(folder: Path, *principals: str, config: HostSettings | None = None, **options: Any) -> None:
    """Fail unless each of *principals* opens the session and reads all of it."""
    for principal in principals:
        async with (
            hosting("more", state_dir=folder, config=config) as host,
            await host.session("trip", principal=principal, **options) as session,
        ):
            assert shape(session.history) == SAID


async def refused(folder: Path, *principals: str, **options: Any) -> list[SessionOwnerError]:
    """Fail unless each of *principals* is refused; return the errors."""
    found: list[SessionOwnerError] = []
    for principal in principals:
        with pytest.raises(SessionOwnerError) as error:
            await opens(folder, principal, **options)
        found.append(error.value)
    return found


async def test_the_session_of_alice_is_opened_by_her_alone(tmp_path: Path):
    file = await begin(tmp_path, "alice")
    before = file.read_bytes()

    *_, error = await refused(tmp_path, "", "Alice", "alice ", "bob")

    assert "session 'trip' belongs to another principal" in str(error)
    assert "alice'" not in str(error)
    assert "[grants] sessions" in str(error)
    assert (error.session_id, error.principal) == ("trip", "alice")
    assert isinstance(error, SessionError)
    assert file.read_bytes() == before
    await opens(tmp_path, "alice")


async def test_a_refused_opening_gives_the_session_up(tmp_path: Path):
    await begin(tmp_path, "alice")

    async with hosting("more", state_dir=tmp_path) as host:
        with pytest.raises(SessionOwnerError):
            await host.session("trip", principal="bob")
        async with await host.session("trip", principal="alice") as session:
            assert shape(session.history) == SAID
            with pytest.raises(SessionError):
                await host.session("trip", principal="bob")


async def test_the_operator_may_grant_a_principal_the_sessions_of_others_and_they_stay_theirs(tmp_path: Path):
    await begin(tmp_path, "alice")

    await opens(tmp_path, "bob", config=GRANTED)
    await refused(tmp_path, "bob")
    await refused(tmp_path, "carol", config=GRANTED)
    await opens(tmp_path, "alice")


async def test_a_session_without_an_owner_belongs_to_the_first_principal_that_opens_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    await begin(tmp_path)
    await opens(tmp_path, "")

    with caplog.at_level(logging.WARNING, "pluggent.sessions"):
        await opens(tmp_path, "bob", "bob")

    assert caplog.text.count("session 'trip' had no owner and belongs to 'bob' from now on") == 1
    await refused(tmp_path, "alice", "")


async def test_a_session_that_was_stored_before_owners_were_belongs_to_who_acted_in_it(tmp_path: Path):
    path = await begin(tmp_path, "alice")
    first, *rest = without_checksums(path.read_text()).splitlines(keepends=True)
    plain = json.loads(first)
    assert plain.pop("principal") == "alice"
    path.write_text("".join([json.dumps(plain, separators=(",", ":")) + "\n", *rest]))

    await refused(tmp_path, "bob")
    await opens(tmp_path, "alice")


async def test_the_file_of_a_session_without_an_owner_is_as_it_was(tmp_path: Path):
    path = await begin(tmp_path)

    assert set(json.loads(without_checksums(path.read_text()).splitlines()[0])) == {
        "t",
        "session_id",
        "created_s",
        "model",
        "type",
    }


@pytest.mark.parametrize("owner", ["alice", "", "claimed:alice"])
async def test_a_claimed_name_opens_no_stored_session(tmp_path: Path, owner: str):
    await begin(tmp_path, owner)

    await refused(tmp_path, "alice", "claimed:alice", "bob", "", config=GRANTED, claimed=True)


async def test_a_session_that_a_claimed_name_began_is_opened_by_no_other(tmp_path: Path):
    await begin(tmp_path, "alice", claimed=True)

    await refused(tmp_path, "alice", "", "claimed:alice")
    await opens(tmp_path, "bob", config=GRANTED)


def test_another_is_refused_without_a_loop(tmp_path: Path):
    options: dict[str, Any] = {"model": "scripted/m", "installed": False, "state_dir": tmp_path}
    with SyncHost.open(plugins=[ScriptedModel("a")], **options) as host:
        with host.session("trip", principal="alice") as session:
            session.say("hi")
        with pytest.raises(SessionOwnerError):
            host.session("trip", principal="bob")


async def test_what_happens_to_alice_is_not_told_to_bob_who_has_a_session_of_the_same_name_in_memory():
    ours = (EventsDropped, PluginStateChanged)
    async with hosting("secret") as host:
        alice, bob = await host.session("trip", principal="alice"), await host.session("trip", principal="bob")
        async with bob.events() as events:
            await alice.say("hi")
            await alice.aclose()
            await bob.aclose()
            seen = {event.scope.principal async for event in events if not isinstance(event, ours)}

    assert seen == {"bob"}


@pytest.mark.parametrize("principal", [7, b"alice"])
async def test_a_principal_is_a_text(principal: Any):
    async with Host.open(model="offline/demo", installed=False, plugins=[]) as host:
        with pytest.raises(TypeError, match="principal: expected str"):
            await host.session("trip", principal=principal)
