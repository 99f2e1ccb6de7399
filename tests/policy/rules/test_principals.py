"""Who asks is part of what is approved: nothing that alice was granted is used by mallory (policy 36)."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs
import pytest
from edges_asking import Edges, Shared
from memory_uses import Store
from pluggent_cli.sessions.answer import answer_stored
from pluggent_cli.sessions.transcript_file import FileStanding as Approvals, FileTranscript
from pluggent_hookspecs import (
    Accepted,
    Approval,
    ApprovalEvent,
    Ask,
    DecisionMade,
    MemoryItem,
    Scope,
    ToolCallEvent,
    ToolContext,
    ToolSpec,
    hookimpl,
    tool,
)
from pluggent_host import Host, HostSettings, SyncHost, Why
from pluggent_host.approvals.pending import Paused, Resolved
from pluggent_host.approvals.standing import Standing
from pluggent_host.settings import Grants
from pluggent_testing.fakes import Recorder, ScriptedModel, call
from talking import hosting

OTHERS = ["mallory", ""]
"""Who else may come: another principal, or one that has no name."""
MAY_OPEN = Grants(sessions=("mallory", "bob"))
PAUSING = HostSettings(on_ask="pause", grants=MAY_OPEN)
every_other = pytest.mark.parametrize("other", OTHERS, ids=["mallory", "nobody"])


class Office:
    """Hosts of one folder with a tool that asks whenever it is called, and one that calls it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.sent: list[str] = []
        self.asked: list[ApprovalEvent] = []
        self.answer: bool | Approval | None = None

    @hookimpl
    def decide_tool_call(self, event: ToolCallEvent) -> Ask | None:
        return Ask("it sends") if event.tool.name == "send" else None

    def approve(self, event: ApprovalEvent) -> bool | Approval | None:
        self.asked.append(event)
        return self.answer

    def options(self, *replies: Any, **options: Any) -> dict[str, Any]:
        @tool(effects=())
        def send(to: str) -> str:
            self.sent.append(to)
            return "sent"

        @tool(effects=())
        async def relay(to: str, context: ToolContext) -> str:
            return str((await context.call_tool("send", {"to": to})).for_model)

        return {
            "model": "scripted/m", "tools": [send, relay], "plugins": [ScriptedModel(*replies), self],
            "installed": False, "state_dir": self.folder, "approver": self.approve, "config": PAUSING, **options,
        }  # fmt: skip

    def host(self, *replies: Any, **options: Any) -> Any:
        return Host.open(**self.options(*replies, **options))

    async def says(self, principal: str, name: str = "send", id: str = "") -> int:
        """Have the model send in a turn that *principal* begins; return how often somebody was asked."""
        before = len(self.asked)
        async with (
            self.host(call(name, to=principal or "nobody"), "done") as host,
            await host.session(id, principal=principal) as session,
        ):
            await session.say("go")
        return len(self.asked) - before


@pytest.fixture
def office(tmp_path: Path) -> Office:
    return Office(tmp_path)


# ---- the digest of every request --------------------------------------------------------------


class Everything:
    """A policy that notes the digest of each request that it is asked about, and a store of memory."""

    def __init__(self) -> None:
        self.digests: dict[str, str] = {}

    @hookimpl
    def decide_input(self, event: Any) -> None:
        self.digests["input"] = event.digest

    @hookimpl
    def decide_model_request(self, event: Any) -> None:
        self.digests["model_call"] = event.digest

    @hookimpl
    def decide_tool_call(self, event: Any) -> None:
        self.digests[f"tool_call {event.tool.name}"] = event.digest

    @hookimpl
    def decide_tool_result(self, event: Any) -> None:
        self.digests[f"tool_result {event.tool.name}"] = event.digest

    @hookimpl
    def decide_model_response(self, event: Any) -> None:
        self.digests["model_response"] = event.digest

    @hookimpl
    def decide_output(self, event: Any) -> None:
        self.digests["output"] = event.digest

    @hookimpl
    def decide_question(self, event: Any) -> None:
        self.digests["question"] = event.digest

    @hookimpl
    def decide_memory_read(self, event: Any) -> None:
        self.digests["memory_read"] = event.digest

    @hookimpl
    def decide_memory_write(self, event: Any) -> None:
        self.digests["memory_write"] = event.digest


ITEM = MemoryItem("notes", "k", "text")


async def digests_of(**who: Any) -> dict[str, str]:
    """Return the digest of each kind of request in the same turn of the same session."""

    @tool(effects=())
    async def everything(context: ToolContext) -> str:
        await context.call_tool("look", {})
        await context.memory().save([ITEM])
        await context.memory().get("notes", "k")
        await context.elicit("Where?", {"type": "object", "properties": {"city": {"type": "string"}}})
        return "done"

    @tool(effects=())
    def look() -> str:
        return "seen"

    policy, model = Everything(), ScriptedModel(call("everything"), "done")
    async with (
        Host.open(
            model="scripted/m", plugins=[model, Store(ITEM), policy], tools=[everything, look], installed=False,
            answerer=lambda _: Accepted({"city": "Ulm"}),
        ) as host,
        await host.session("s", **who) as session,
    ):  # fmt: skip
        assert (await session.say("go")).why is Why.COMPLETED
    return policy.digests


KINDS = {
    "input", "model_call", "model_response", "tool_call everything", "tool_call look", "tool_result everything",
    "tool_result look", "memory_write", "memory_read", "question", "output",
}  # fmt: skip


async def test_the_digest_of_every_request_says_who_asks() -> None:
    nobody, alice, mallory = (await digests_of(), await digests_of(principal="alice"),
                              await digests_of(principal="mallory"))  # fmt: skip
    claimed = await digests_of(principal="alice", claimed=True)

    assert set(alice) == KINDS
    for kind in KINDS:
        assert len({each[kind] for each in (nobody, alice, mallory, claimed)}) == 4, kind
    assert await digests_of(principal="alice") == alice


async def test_a_principal_that_no_text_can_hold_is_no_reason_to_fail() -> None:
    assert set(await digests_of(principal="al\udcffice")) == KINDS


# ---- approvals that stand ---------------------------------------------------------------------

EVENT = ToolCallEvent(
    Scope("s", "t1", principal="alice"), "c", ToolSpec("send", "Send."), "acme:tool/send", b"{}", "d1", frozenset()
)
STANDS = Standing("acme:tool/send", "d1", (("guard", "it sends"),), ("v1",), {}, "", "alice", "t1", "key:ann", 1.0)


@pytest.mark.parametrize("reach", ["session", "always"])
def test_an_approval_that_stands_covers_what_its_principal_asks_for_alone(reach: Any) -> None:
    stands = attrs.evolve(STANDS, reach=reach)
    asks = [("guard", Ask("it sends"))]

    def covers(**who: Any) -> bool:
        return stands.covers(attrs.evolve(EVENT, scope=attrs.evolve(EVENT.scope, **who)), asks, ["v1"])

    assert covers()
    assert not any(covers(principal=name) for name in ("mallory", "", "alice ", "Alice", "alice*", "*"))
    assert not covers(claimed=True)
    assert stands.id != attrs.evolve(stands, principal="mallory").id


@every_other
@pytest.mark.parametrize("name", ["send", "relay"], ids=["a call", "a call below a tool"])
async def test_an_approval_for_always_that_alice_was_given_is_not_used_by_another(
    office: Office, name: str, other: str
) -> None:
    office.answer = Approval(agreed=True, reach="always")
    assert await office.says("alice", name) == 1
    office.answer = False

    assert await office.says("alice", name) == 0
    assert await office.says(other, name) == 1
    assert office.sent == ["alice", "alice"]


@pytest.mark.parametrize("name", ["send", "relay"], ids=["a call", "a call below a tool"])
async def test_an_approval_for_the_session_is_not_used_by_another_who_may_open_it(office: Office, name: str) -> None:
    office.answer = Approval(agreed=True, reach="session")
    assert await office.says("alice", name, "s") == 1
    office.answer = False

    assert await office.says("alice", name, "s") == 0
    assert await office.says("mallory", name, "s") == 1
    assert await office.says("bob", name, "s") == 1
    assert office.sent == ["alice", "alice"]


def test_an_approval_for_always_is_not_used_by_another_without_a_loop(office: Office) -> None:
    office.answer = Approval(agreed=True, reach="always")
    for principal in ("alice", "mallory"):
        with (
            SyncHost.open(**office.options(call("send", to=principal), "done")) as host,
            host.session(principal=principal) as session,
        ):
            session.say("go")
        office.answer = False

    assert (len(office.asked), office.sent) == (2, ["alice"])


async def test_what_is_approved_of_a_pause_for_always_stands_for_who_asked(office: Office) -> None:
    asking = office.options(call("send", to="ann"), "done", approver=None)
    async with Host.open(**asking) as host, await host.session("s", principal="alice") as session:
        (pending,) = (await session.say("go")).pending
        await session.resume({pending.call_id: Approval(agreed=True, reach="always")})

    (kept,) = Approvals(office.folder / "sessions").all()
    assert kept.principal == "alice"
    office.answer = False
    assert (await office.says("alice"), await office.says("mallory")) == (0, 1)
    assert office.sent == ["ann", "alice"]


# ---- pauses -------------------------------------------------------------------------------------


async def waiting(office: Office, principal: str) -> Any:
    """Let a turn that *principal* began wait for an approval; return what waits."""
    async with (
        office.host(call("send", to="ann"), approver=None) as host,
        await host.session("s", principal=principal) as session,
    ):
        (pending,) = (await session.say("go")).pending
        return pending


async def test_a_call_that_was_approved_for_alice_is_asked_about_anew_for_mallory(office: Office) -> None:
    pending = await waiting(office, "alice")
    answer_stored(office.folder / "sessions", "s", [pending.digest], Approval(agreed=True), "terminal:ann")

    async with (
        office.host("done", approver=None) as host,
        await host.session("s", principal="mallory") as session,
    ):
        again = await session.resume()

        assert (again.why, office.sent) == (Why.PAUSED, [])
        (asked,) = again.pending
        assert (asked.principal, asked.call_id) == ("mallory", pending.call_id)
        assert asked.digest != pending.digest
        assert (await session.resume({asked.call_id: True})).why is Why.COMPLETED
    assert office.sent == ["ann"]


async def test_a_call_that_was_approved_for_alice_runs_for_alice(office: Office) -> None:
    pending = await waiting(office, "alice")
    answer_stored(office.folder / "sessions", "s", [pending.digest], Approval(agreed=True), "terminal:ann")

    async with office.host("done", approver=None) as host, await host.session("s", principal="alice") as session:
        assert (await session.resume()).why is Why.COMPLETED
    assert office.sent == ["ann"]


async def test_a_call_that_a_person_has_refused_stays_refused_for_another(office: Office) -> None:
    pending = await waiting(office, "alice")
    answer_stored(office.folder / "sessions", "s", [pending.digest], Approval(agreed=False), "terminal:ann")

    async with office.host("done", approver=None) as host, await host.session("s", principal="mallory") as session:
        assert (await session.resume()).why is Why.COMPLETED
    assert office.sent == []


@pytest.mark.parametrize("edges", [Edges(said="who?"), Edges(rounds=(0,))], ids=["what is said", "a model request"])
async def test_what_is_no_call_and_was_approved_for_alice_is_asked_about_anew_for_mallory(
    tmp_path: Path, edges: Edges
) -> None:
    shared = Shared(tmp_path, edges)
    async with shared.host(config=PAUSING) as host, await host.session("s", principal="alice") as session:
        (pending,) = (await session.say("go")).pending
    answer_stored(tmp_path / "sessions", "s", [pending.digest], Approval(agreed=True), "terminal:ann")
    shared.edges = edges.anew()

    async with (
        shared.host("fine", config=PAUSING) as host,
        await host.session("s", principal="mallory") as session,
    ):
        again = await session.resume()

        assert (again.why, shared.asked()) == (Why.PAUSED, [])
        assert again.pending[0].principal == "mallory"
        assert (await session.resume({again.pending[0].call_id: True})).text == "fine"


async def test_that_alice_may_say_it_is_no_agreement_that_mallory_may(tmp_path: Path) -> None:
    shared = Shared(tmp_path, Edges(said="who?", tools=("write",), changes=False))
    wants = call("write", text="a")
    async with shared.host(wants, config=PAUSING) as host, await host.session("s", principal="alice") as session:
        (said,) = (await session.say("go")).pending
        (called,) = (await session.resume({said.call_id: True})).pending
    answer_stored(tmp_path / "sessions", "s", [called.digest], Approval(agreed=True), "terminal:ann")

    async with shared.host("ok", config=PAUSING) as host, await host.session("s", principal="mallory") as session:
        again = await session.resume()

    assert (again.why, shared.done) == (Why.PAUSED, [])
    assert {each.kind for each in again.pending} == {"input", "tool_call"}


# ---- pauses that an earlier version has written ---------------------------------------------------


def as_written_before(folder: Path, before: Mapping[str, str]) -> None:
    """Rewrite session ``s`` as a version wrote it whose digests did not say who asks: *before* maps ours to those."""
    path = folder / "sessions" / "s.jsonl"
    entries = FileTranscript(folder / "sessions", "s")
    stored = entries.entries()
    entries.close()
    path.unlink()
    writer = FileTranscript(folder / "sessions", "s")
    for entry in stored:
        match entry:
            case Paused(pending=pending, terms=terms):
                agreed = terms.agreed and attrs.evolve(terms.agreed, digest=before[terms.agreed.digest])
                waits = tuple(attrs.evolve(each, digest=before[each.digest]) for each in pending)
                writer.append(attrs.evolve(entry, pending=waits, terms=attrs.evolve(terms, agreed=agreed)))
            case Resolved(digest=digest):
                writer.append(attrs.evolve(entry, digest=before[digest]))
            case _:
                writer.append(entry)
    writer.close()
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    lines[0].pop("principal", None)
    path.write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines))


def without_records_of_who_acted(folder: Path) -> None:
    """Rewrite session ``s`` as if no decision had said who acted in it: then it is nobody's."""
    path = folder / "sessions" / "s.jsonl"
    path.write_text(path.read_text().replace('"principal":"alice","type":"Scope"', '"type":"Scope"'))


async def digest_before(folder: Path) -> str:
    """Return the digest of the same request of a session that nobody in particular asks in: it names no principal."""
    office = Office(folder)
    return str((await waiting(office, "")).digest)


@pytest.mark.parametrize("who", ["alice", "mallory"])
@pytest.mark.parametrize("approved", [False, True])
async def test_a_pause_whose_digest_does_not_say_who_asked_is_asked_about_anew(
    office: Office, tmp_path_factory: pytest.TempPathFactory, who: str, *, approved: bool
) -> None:
    pending = await waiting(office, "alice")
    if approved:
        answer_stored(office.folder / "sessions", "s", [pending.digest], Approval(agreed=True), "terminal:ann")
    as_written_before(office.folder, {pending.digest: await digest_before(tmp_path_factory.mktemp("before"))})

    async with office.host("done", approver=None) as host, await host.session("s", principal=who) as session:
        again = await session.resume()
        assert (again.why, office.sent) == (Why.PAUSED, [])
        (asked,) = again.pending
        assert asked.principal == who
        assert (await session.resume({asked.call_id: True})).why is Why.COMPLETED
    assert office.sent == ["ann"]


async def test_a_pause_whose_digest_does_not_say_who_asked_is_not_answered_by_who_has_no_name(
    office: Office, tmp_path_factory: pytest.TempPathFactory
) -> None:
    pending = await waiting(office, "alice")
    answer_stored(office.folder / "sessions", "s", [pending.digest], Approval(agreed=True), "terminal:ann")
    as_written_before(office.folder, {pending.digest: await digest_before(tmp_path_factory.mktemp("before"))})
    without_records_of_who_acted(office.folder)

    async with office.host("done", approver=None) as host, await host.session("s") as session:
        assert (await session.resume()).why is Why.PAUSED
    assert office.sent == []


async def test_that_alice_may_say_it_is_no_agreement_for_who_has_no_name_in_a_pause_of_an_earlier_version(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    async def paused(shared: Shared, principal: str) -> tuple[str, str]:
        wants = call("write", text="a")
        async with shared.host(wants, config=PAUSING) as host, await host.session("s", principal=principal) as session:
            (said,) = (await session.say("go")).pending
            (called,) = (await session.resume({said.call_id: True})).pending
        return said.digest, called.digest

    edges = Edges(said="who?", tools=("write",), changes=False)
    shared = Shared(tmp_path, edges)
    ours = await paused(shared, "alice")
    theirs = await paused(Shared(tmp_path_factory.mktemp("before"), edges), "")
    answer_stored(tmp_path / "sessions", "s", [ours[1]], Approval(agreed=True), "terminal:ann")
    as_written_before(tmp_path, dict(zip(ours, theirs, strict=True)))
    without_records_of_who_acted(tmp_path)

    async with shared.host("ok", config=PAUSING) as host, await host.session("s") as session:
        again = await session.resume()

    assert (again.why, shared.done) == (Why.PAUSED, [])
    assert "input" in {each.kind for each in again.pending}


async def test_a_pause_of_nobody_in_particular_goes_on_as_it_did(office: Office) -> None:
    """What the command has kept so far: its digests named no principal, and there was none."""
    pending = await waiting(office, "")
    answer_stored(office.folder / "sessions", "s", [pending.digest], Approval(agreed=True), "terminal:ann")
    as_written_before(office.folder, {pending.digest: pending.digest})

    async with office.host("done", approver=None) as host, await host.session("s") as session:
        assert (await session.resume()).why is Why.COMPLETED
    assert office.sent == ["ann"]


# ---- a name that nobody has proved -----------------------------------------------------------------


async def test_a_claimed_name_is_given_no_approval_beyond_the_request(office: Office) -> None:
    office.answer = Approval(agreed=True, reach="always")
    async with (
        office.host(call("send", to="a"), "ok", call("send", to="b"), "ok") as host,
        await host.session(principal="alice", claimed=True) as session,
    ):
        await session.say("go")
        await session.say("again")

    assert {event.reach for event in office.asked} == {"once"}
    assert (len(office.asked), office.sent) == (2, ["a", "b"])
    assert Approvals(office.folder / "sessions").all() == ()


@pytest.mark.parametrize("name", ["alice", "claimed:alice", ""])
async def test_a_claimed_name_uses_no_approval_that_stands(office: Office, name: str) -> None:
    office.answer = Approval(agreed=True, reach="always")
    for principal in ("alice", "claimed:alice", ""):
        await office.says(principal)
    office.answer, before = False, len(office.asked)

    async with (
        office.host(call("send", to="mallory"), "ok") as host,
        await host.session(principal=name, claimed=True) as session,
    ):
        await session.say("go")

    assert len(office.asked) == before + 1
    assert "mallory" not in office.sent


async def test_a_claimed_name_that_pauses_is_approved_for_once(office: Office) -> None:
    async with (
        office.host(call("send", to="a"), "ok", call("send", to="b"), approver=None) as host,
        await host.session(principal="alice", claimed=True) as session,
    ):
        (pending,) = (await session.say("go")).pending
        assert pending.reach == "once"
        await session.resume({pending.call_id: Approval(agreed=True, reach="always")})
        assert (await session.say("again")).why is Why.PAUSED
    assert office.sent == ["a"]


async def test_policies_and_records_see_that_a_name_is_claimed() -> None:
    recorder = Recorder()
    async with hosting("hi", plugins=[recorder]) as host:
        async with await host.session(principal="alice", claimed=True) as session:
            await session.say("go")
        async with await host.session(principal="claimed:alice") as session:
            await session.say("go")

    seen = {(made.scope.principal, made.scope.claimed) for made in recorder.of(DecisionMade)}
    assert seen == {("claimed:alice", True)}
