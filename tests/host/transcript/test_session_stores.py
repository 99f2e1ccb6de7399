"""Sessions in a store that is not a folder of files: named by the operator, asynchronous, with leases that can go."""

import asyncio
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from pluggent_hookspecs import Approval, ApprovalEvent, Ask, ModelRequest, ModelResponse, hookimpl, tool
from pluggent_hookspecs.errors import ConfigError, SessionError, SessionLeaseLost
from pluggent_hookspecs.events import ProvideEvent
from pluggent_hookspecs.sessions import SessionStore
from pluggent_host import Host, HostSettings, Selection, Session, Why
from pluggent_testing.fakes import ScriptedModel, call
from pluggent_testing.sessions import MemorySessions, answered
from pluggent_transcript.entries import Said
from saved import SlowSessions


class Office:
    """Hosts of one slow store, with a tool that sends; ``arrived`` is what the store had when it ran."""

    def __init__(self) -> None:
        self.store = SlowSessions()
        self.sent: list[str] = []
        self.arrived: list[list[str]] = []
        self.takes_over = ""
        self.config = HostSettings()
        self.ask: Ask | None = None
        self.asked: list[ApprovalEvent] = []
        self.answer: bool | Approval | None = None

    @hookimpl
    def decide_tool_call(self, event: object) -> Ask | None:
        return self.ask

    def approve(self, event: ApprovalEvent) -> bool | Approval | None:
        self.asked.append(event)
        return self.answer

    def host(self, *replies: Any, **options: Any) -> Any:
        @tool(effects=("messaging",), description="Send it.")
        async def send(to: str) -> str:
            self.arrived.append(self.store.kinds("s"))
            if to == self.takes_over:
                await answered((await self.store.take_over("s")).close())
            self.sent.append(to)
            return f"sent to {to}"

        given: dict[str, Any] = {"sessions": self.store, "approver": self.approve, "config": self.config, **options}
        return Host.open(
            model="scripted/m", plugins=[ScriptedModel(*replies), self], tools=[send], installed=False, **given
        )


@pytest.fixture
def office() -> Office:
    return Office()


async def test_a_session_in_a_slow_store_is_there_in_the_next_host(office: Office):
    office.answer = True
    async with office.host(call("send", to="ann"), "done") as host, await host.session("s") as session:
        await session.say("write to ann")
        history, records = session.history, session.records()

    async with office.host("again") as host, await host.session("s") as session:
        assert (session.history, session.records()) == (history, records)
        assert (await session.say("once more")).text == "again"


async def test_a_result_is_returned_when_everything_of_it_has_arrived(office: Office):
    """Lines that come up while others are written travel together."""
    async with office.host("done") as host, await host.session("s") as session:
        assert office.store.kinds("s") == ["SessionBegan"]
        await session.say("hello")
        kinds = office.store.kinds("s")

    assert (kinds[1], kinds[-1]) == ("TurnBegan", "TurnOver")
    assert sum(office.store.batches) == len(office.store.kinds("s"))
    assert max(office.store.batches) > 1


async def test_a_pause_is_returned_when_it_has_arrived_and_is_resumed_in_the_next_host(office: Office):
    office.config, office.ask = HostSettings(on_ask="pause"), Ask("it sends")
    async with office.host(call("send", to="ann")) as host, await host.session("s") as session:
        assert (await session.say("write to ann")).why is Why.PAUSED
        assert office.store.kinds("s")[-1] == "Paused"

    async with office.host("done") as host, await host.session("s") as session:
        result = await session.resume({session.pending[0].call_id: True})

    assert (result.why, office.sent) == (Why.COMPLETED, ["ann"])


@pytest.mark.parametrize("fsync", ["off", "effects"])
async def test_what_is_about_to_run_has_arrived_before_it_runs(office: Office, fsync: Any):
    office.answer, office.config = True, HostSettings(fsync=fsync)
    async with office.host(call("send", to="ann"), "done") as host, await host.session("s") as session:
        await session.say("write to ann")

    assert office.arrived[0][-2:] == ["Decided", "Dispatched"]


async def test_a_request_has_arrived_before_the_model_is_asked(office: Office):
    arrived: list[list[str]] = []

    class Model(ScriptedModel):
        async def complete(self, request: ModelRequest) -> ModelResponse:
            arrived.append(office.store.kinds("s"))
            return await super().complete(request)

    async with (
        Host.open(model="scripted/m", plugins=[Model("done")], sessions=office.store, installed=False) as host,
        await host.session("s") as session,
    ):
        await session.say("hello")

    assert arrived == [["SessionBegan", "TurnBegan", "Decided", "Said", "Decided"]]


async def test_an_approval_for_always_holds_in_every_session_of_a_slow_store(office: Office):
    office.ask, office.answer = Ask("it sends"), Approval(agreed=True, reach="always")
    async with office.host(call("send", to="ann"), "done") as host, await host.session("one") as session:
        await session.say("write to ann")
    async with office.host(call("send", to="bob"), "done") as host, await host.session("two") as session:
        await session.say("write to bob")

    assert (office.sent, len(office.asked)) == (["ann", "bob"], 1)


async def test_nothing_with_an_effect_runs_after_the_lease_is_lost_in_mid_turn(office: Office):
    office.answer, office.takes_over = True, "ann"
    replies = (call("send", "1", to="ann"), call("send", "2", to="bob")), call("send", "3", to="cat"), "done"
    async with office.host(*replies) as host, await host.session("s") as session:
        with pytest.raises(SessionLeaseLost, match="another writer has taken it over"):
            await session.say("write to all")
        with pytest.raises(SessionLeaseLost):
            await session.say("once more")

    assert office.sent == ["ann"]


async def test_a_call_in_flight_when_the_lease_was_lost_is_doubtful_for_the_new_owner(office: Office):
    """Policy 35."""
    office.answer, office.takes_over = True, "ann"
    async with office.host(call("send", to="ann"), "done") as host, await host.session("s") as session:
        with pytest.raises(SessionLeaseLost):
            await session.say("write to ann")
    before = len(office.asked)
    office.answer = False

    async with office.host(call("send", to="ann"), "done") as host, await host.session("s") as session:
        assert "Whether it took effect is unknown" in session.history[-1].text
        await session.say("do it")

    assert office.sent == ["ann"]
    assert "may already have taken effect" in str(office.asked[before].asks)


async def test_the_model_is_not_asked_after_the_lease_is_lost(office: Office):
    async with office.host("one", "two") as host, await host.session("s") as session:
        await session.say("hello")
        await answered((await office.store.take_over("s")).close())
        with pytest.raises(SessionLeaseLost):
            await session.say("again")

    assert office.store.kinds("s").count("TurnBegan") == 1


async def test_a_session_whose_file_is_removed_runs_nothing_with_an_effect_any_more(office: Office, tmp_path: Path):
    office.answer = True
    async with (
        office.host(call("send", to="ann"), "done", sessions="", state_dir=tmp_path) as host,
        await host.session("s") as session,
    ):
        (tmp_path / "sessions" / "s.jsonl").unlink()
        with pytest.raises(SessionLeaseLost):
            await session.say("write to ann")

    assert office.sent == []


async def test_a_turn_that_is_cancelled_while_a_line_is_written_leaves_the_session_whole(office: Office):
    async with office.host("one", "two") as host, await host.session("s") as session:
        turn = asyncio.ensure_future(session.say("hello"))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        turn.cancel()
        with pytest.raises(asyncio.CancelledError):
            await turn
        assert (await session.say("again")).why is Why.COMPLETED
        records = session.records()

    async with office.host() as host, await host.session("s") as session:
        assert session.records() == records


class Providing:
    def __init__(self, store: SessionStore) -> None:
        self.store = store

    @hookimpl
    def provide_sessions(self, event: ProvideEvent) -> Iterable[SessionStore]:
        return [self.store]


async def said_in(session: Session) -> list[str]:
    await session.say("hello")
    return [entry.message.text for entry in session.records() if isinstance(entry, Said)]


async def test_a_store_is_used_where_it_is_named_and_never_because_it_is_there():
    store = MemorySessions()
    plugins = [ScriptedModel("hi"), Providing(store)]
    async with Host.open(model="scripted/m", plugins=plugins, installed=False) as host:
        await said_in(await host.session("unnamed"))
    for options in ({"sessions": "memory"}, {"config": HostSettings(sessions="memory")}):
        plugins = [ScriptedModel("hi"), Providing(store)]
        async with (
            Host.open(model="scripted/m", plugins=plugins, installed=False, **options) as host,  # type: ignore[arg-type]
            await host.session(f"named-{next(iter(options))}") as session,
        ):
            assert await said_in(session) == ["hello", "hi"]

    with pytest.raises(SessionError, match="no session 'unnamed'"):
        store.read("unnamed")
    assert [line.kind for line in store.read("named-sessions")] == [line.kind for line in store.read("named-config")]


async def test_a_store_that_is_named_and_not_there_refuses_to_open():
    with pytest.raises(ConfigError, match="nowhere"):
        async with Host.open(sessions="nowhere"):
            pass


ALLOWED = ("pluggent-guard", "pluggent-office-hours", "pluggent-offline")


@pytest.mark.parametrize("selection", [Selection(mode="safe"), Selection(mode="allow", allow=ALLOWED)])
async def test_a_state_folder_is_used_whatever_may_run(tmp_path: Path, selection: Selection):
    async with (
        Host.open(config=HostSettings(selection=selection), state_dir=tmp_path) as host,
        await host.session("s") as session,
    ):
        await session.say("hello")

    assert (tmp_path / "sessions" / "s.jsonl").exists()


async def test_a_state_folder_whose_plugin_is_absent_or_blocked_refuses_to_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    config = HostSettings(selection=Selection(block=("pluggent-state-files",)))
    with pytest.raises(ConfigError, match="pluggent-state-files:session/file is blocked"):
        async with Host.open(config=config, state_dir=tmp_path):
            pass

    monkeypatch.setattr(sys, "path", [])
    with pytest.raises(ConfigError, match="pip install pluggent-state-files"):
        async with Host.open(state_dir=tmp_path, installed=False):
            pass
