"""Who asks is part of what is approved: nothing that alice was granted is used by mallory (rule 36)."""

import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import pytest
from each_of import each_of
from edges_asking import Edges, Shared
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
    tool,
)
from pluggent_host import Host, HostSettings, Session, Why
from pluggent_host.settings import Grants
from pluggent_testing.fakes import Recorder, ScriptedModel, call
from pluggent_transcript.pending import Paused, Resolved
from pluggent_transcript.standing import Standing
from policy_rules import hooked
from policy_stage import Store
from saved import FileStanding as Approvals, FileTranscript, answer_stored, without_checksums
from talking import hosting

PAUSING = HostSettings(on_ask="pause", grants=Grants(sessions=("mallory", "bob")))
calls = pytest.mark.parametrize("name", ["send", "relay"], ids=["a call", "a call below a tool"])
WRITE = call("write", text="a")


class Office:
    """Hosts of one folder with a tool that asks whenever it is called, and one that calls it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.sent: list[str] = []
        self.asked: list[ApprovalEvent] = []
        self.answer: bool | Approval | None = None

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

        asks = hooked(decide_tool_call=lambda event: Ask("it sends") if event.tool.name == "send" else None)
        return {
            "model": "scripted/m", "tools": [send, relay], "plugins": [ScriptedModel(*replies), asks],
            "installed": False, "state_dir": self.folder, "approver": self.approve, "config": PAUSING, **options,
        }  # fmt: skip

    @asynccontextmanager
    async def open(
        self, *replies: Any, id: str = "", principal: str = "", claimed: bool = False, **options: Any
    ) -> AsyncGenerator[Session]:
        """Open a session of *principal* in a new host, in which the model gives *replies*."""
        async with (
            Host.open(**self.options(*replies, **options)) as host,
            await host.session(id, principal=principal, claimed=claimed) as session,
        ):
            yield session

    async def says(self, principal: str, name: str = "send", **options: Any) -> int:
        """Have the model send in a turn that *principal* begins; return how often a person was asked."""
        before = len(self.asked)
        async with self.open(call(name, to=principal or "no name"), "done", principal=principal, **options) as session:
            await session.say("go")
        return len(self.asked) - before

    async def waiting(self, principal: str, *, agreed: bool | None = None) -> Any:
        """Let a turn of *principal* wait, and answer it from outside if *agreed* says how; return what waits."""
        async with self.open(call("send", to="ann"), id="s", principal=principal, approver=None) as session:
            (pending,) = (await session.say("go")).pending
        if agreed is not None:
            answer(self.folder, pending.digest, agreed=agreed)
        return pending

    async def resumes(self, principal: str) -> tuple[Any, list[str]]:
        """Resume as *principal*, and agree to what is asked anew; return what was, and what was sent before that."""
        async with self.open("done", id="s", principal=principal, approver=None) as session:
            result, sent = await session.resume(), [*self.sent]
            if result.why is Why.PAUSED:
                (asked,) = result.pending
                assert (await session.resume({asked.call_id: True})).why is Why.COMPLETED
            return result, sent


def answer(folder: Path, digest: str, *, agreed: bool = True) -> None:
    answer_stored(folder / "sessions", "s", [digest], Approval(agreed=agreed), "terminal:ann")


@pytest.fixture
def office(tmp_path: Path) -> Office:
    return Office(tmp_path)


# ---- the digest of every request

KINDS = {
    "decide_input", "decide_model_request", "decide_model_response", "decide_tool_call everything",
    "decide_tool_call look", "decide_tool_result everything", "decide_tool_result look", "decide_memory_write",
    "decide_memory_read", "decide_question", "decide_output",
}  # fmt: skip


async def digests_of(**who: Any) -> dict[str, str]:
    """Return the digest of each kind of request in the same turn of the same session."""
    item, digests = MemoryItem("notes", "k", "text"), dict[str, str]()

    @tool(effects=())
    async def everything(context: ToolContext) -> str:
        await context.call_tool("look", {})
        await context.memory().save([item])
        await context.memory().get("notes", "k")
        await context.elicit("Where?", {"type": "object", "properties": {"city": {"type": "string"}}})
        return "done"

    @tool(effects=())
    def look() -> str:
        return "seen"

    def noting(hook: str) -> Any:
        def note(event: Any) -> None:
            digests[f"{hook} {event.tool.name}" if "tool" in hook else hook] = event.digest

        return note

    policy = hooked(**{hook: noting(hook) for hook in {kind.partition(" ")[0] for kind in KINDS}})
    async with (
        hosting(call("everything"), "done", plugins=[Store(item), policy], tools=[everything, look],
                answerer=lambda _: Accepted({"city": "Ulm"})) as host,
        await host.session("s", **who) as session,
    ):  # fmt: skip
        assert (await session.say("go")).why is Why.COMPLETED
    return digests


async def test_the_digest_of_every_request_says_who_asks():
    askers: list[dict[str, Any]] = [{}, {"principal": "alice"}, {"principal": "mallory"},
                                    {"principal": "alice", "claimed": True}, {"principal": "al\udcffice"}]  # fmt: skip
    digests = [await digests_of(**who) for who in askers]

    assert all(set(each) == KINDS for each in digests)
    for kind in KINDS:
        assert len({each[kind] for each in digests}) == len(askers), kind
    assert await digests_of(principal="alice") == digests[1]


# ---- approvals that stand

EVENT = ToolCallEvent(
    Scope("s", "t1", principal="alice"), "c", ToolSpec("send", "Send."), "acme:tool/send", b"{}", "d1", frozenset()
)
STANDS = Standing("acme:tool/send", "d1", (("guard", "it sends"),), ("v1",), {}, "", "alice", "t1", "key:ann", 1.0)


@each_of("reach", ["session", "always"])
def test_an_approval_that_stands_covers_what_its_principal_asks_for_alone(reach: Any):
    stands = attrs.evolve(STANDS, reach=reach)

    def covers(**who: Any) -> bool:
        event = attrs.evolve(EVENT, scope=attrs.evolve(EVENT.scope, **who))
        return stands.covers(event, [("guard", Ask("it sends"))], ["v1"])

    assert covers()
    assert not any(covers(principal=name) for name in ("mallory", "", "alice ", "Alice", "alice*", "*"))
    assert not covers(claimed=True)
    assert stands.id != attrs.evolve(stands, principal="mallory").id


@calls
@pytest.mark.parametrize(
    ("reach", "id", "others"), [("always", "", ("mallory", "")), ("session", "s", ("mallory", "bob"))]
)
async def test_an_approval_that_alice_was_given_is_not_used_by_another(
    office: Office, name: str, reach: Any, id: str, others: tuple[str, ...]
):
    office.answer = Approval(agreed=True, reach=reach)
    assert await office.says("alice", name, id=id) == 1
    office.answer = False

    assert await office.says("alice", name, id=id) == 0
    for other in others:
        assert await office.says(other, name, id=id) == 1
    assert office.sent == ["alice", "alice"]


async def test_what_is_approved_of_a_pause_for_always_stands_for_who_asked(office: Office):
    async with office.open(call("send", to="ann"), "done", principal="alice", approver=None) as session:
        (pending,) = (await session.say("go")).pending
        await session.resume({pending.call_id: Approval(agreed=True, reach="always")})

    (kept,) = Approvals(office.folder / "sessions").all()
    assert kept.principal == "alice"
    office.answer = False
    assert (await office.says("alice"), await office.says("mallory")) == (0, 1)
    assert office.sent == ["ann", "alice"]


# ---- pauses


async def test_a_call_that_was_approved_for_alice_is_asked_about_anew_for_mallory(office: Office):
    pending = await office.waiting("alice", agreed=True)

    again, sent = await office.resumes("mallory")

    (asked,) = again.pending
    assert (sent, office.sent) == ([], ["ann"])
    assert (asked.principal, asked.call_id) == ("mallory", pending.call_id)
    assert asked.digest != pending.digest


@pytest.mark.parametrize(("agreed", "who", "sent"), [(True, "alice", ["ann"]), (False, "mallory", [])])
async def test_what_was_approved_runs_for_alice_and_what_was_refused_stays_refused_for_another(
    office: Office, agreed: bool, who: str, sent: list[str]
):
    await office.waiting("alice", agreed=agreed)

    result, _ = await office.resumes(who)

    assert (result.why, office.sent) == (Why.COMPLETED, sent)


@pytest.mark.parametrize("edges", [Edges(said="who?"), Edges(rounds=(0,))], ids=["what is said", "a model request"])
async def test_what_is_no_call_and_was_approved_for_alice_is_asked_about_anew_for_mallory(tmp_path: Path, edges: Edges):
    shared = Shared(tmp_path, edges)
    async with shared.host(config=PAUSING) as host, await host.session("s", principal="alice") as session:
        (pending,) = (await session.say("go")).pending
    answer(tmp_path, pending.digest)
    shared.edges = edges.anew()

    async with shared.host("fine", config=PAUSING) as host, await host.session("s", principal="mallory") as session:
        again = await session.resume()

        assert (again.why, shared.asked()) == (Why.PAUSED, [])
        assert again.pending[0].principal == "mallory"
        assert (await session.resume({again.pending[0].call_id: True})).text == "fine"


async def said_and_called(shared: Shared, principal: str) -> tuple[str, str]:
    """Let *principal*'s message be approved, and a call after it wait; return the digests of both."""
    async with shared.host(WRITE, config=PAUSING) as host, await host.session("s", principal=principal) as session:
        (said,) = (await session.say("go")).pending
        (called,) = (await session.resume({said.call_id: True})).pending
    return said.digest, called.digest


@pytest.mark.parametrize("earlier", [False, True], ids=["this version", "an earlier version"])
async def test_that_alice_may_say_it_is_no_agreement_that_another_may(
    earlier: bool, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
):
    edges = Edges(said="who?", tools=("write",), changes=False)
    shared = Shared(tmp_path, edges)
    ours = await said_and_called(shared, "alice")
    answer(tmp_path, ours[1])
    if earlier:
        theirs = await said_and_called(Shared(tmp_path_factory.mktemp("before"), edges), "")
        as_written_before(tmp_path, dict(zip(ours, theirs, strict=True)))
        without_records_of_who_acted(tmp_path)

    other = "" if earlier else "mallory"
    async with shared.host("ok", config=PAUSING) as host, await host.session("s", principal=other) as session:
        again = await session.resume()

    assert (again.why, shared.done) == (Why.PAUSED, [])
    assert {each.kind for each in again.pending} >= ({"input"} if earlier else {"input", "tool_call"})


# ---- pauses that an earlier version has written


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
    lines = [json.loads(line) for line in without_checksums(path.read_text()).splitlines()]
    lines[0].pop("principal", None)
    path.write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines))


def without_records_of_who_acted(folder: Path) -> None:
    """Rewrite session ``s`` as if no decision had said who acted in it: then it has no owner."""
    path = folder / "sessions" / "s.jsonl"
    path.write_text(without_checksums(path.read_text()).replace('"principal":"alice","type":"Scope"', '"type":"Scope"'))


@pytest.mark.parametrize(("who", "agreed"), [("alice", None), ("alice", True), ("mallory", None), ("mallory", True),
                                             ("", True)])  # fmt: skip
async def test_a_pause_whose_digest_does_not_say_who_asked_is_asked_about_anew(
    office: Office, tmp_path_factory: pytest.TempPathFactory, who: str, agreed: bool | None
):
    pending = await office.waiting("alice", agreed=agreed)
    unnamed = await Office(tmp_path_factory.mktemp("before")).waiting("")
    as_written_before(office.folder, {pending.digest: unnamed.digest})
    if not who:
        without_records_of_who_acted(office.folder)

    again, sent = await office.resumes(who)

    assert (again.why, sent, office.sent) == (Why.PAUSED, [], ["ann"])
    assert again.pending[0].principal == who


async def test_a_pause_without_a_principal_is_resumed_as_before(office: Office):
    """What the command has kept so far: its digests named no principal, and there was none."""
    pending = await office.waiting("", agreed=True)
    as_written_before(office.folder, {pending.digest: pending.digest})

    result, _ = await office.resumes("")

    assert (result.why, office.sent) == (Why.COMPLETED, ["ann"])


# ---- a name that is only claimed


async def test_a_claimed_name_is_given_no_approval_beyond_the_request(office: Office):
    office.answer = Approval(agreed=True, reach="always")
    calls = [call("send", to="a"), "ok", call("send", to="b"), "ok"]
    async with office.open(*calls, principal="alice", claimed=True) as session:
        await session.say("go")
        await session.say("again")

    assert [event.reach for event in office.asked] == ["once", "once"]
    assert office.sent == ["a", "b"]
    assert Approvals(office.folder / "sessions").all() == ()


@pytest.mark.parametrize("name", ["alice", "claimed:alice", ""])
async def test_a_claimed_name_uses_no_approval_that_stands(office: Office, name: str):
    office.answer = Approval(agreed=True, reach="always")
    for principal in ("alice", "claimed:alice", ""):
        await office.says(principal)
    office.answer, office.sent = False, []

    assert await office.says(name, claimed=True) == 1
    assert office.sent == []


async def test_a_claimed_name_that_pauses_is_approved_for_once(office: Office):
    calls = [call("send", to="a"), "ok", call("send", to="b")]
    async with office.open(*calls, principal="alice", claimed=True, approver=None) as session:
        (pending,) = (await session.say("go")).pending
        assert pending.reach == "once"
        await session.resume({pending.call_id: Approval(agreed=True, reach="always")})
        assert (await session.say("again")).why is Why.PAUSED
    assert office.sent == ["a"]


async def test_policies_and_records_see_that_a_name_is_claimed():
    recorder = Recorder()
    async with hosting("hi", plugins=[recorder]) as host:
        for name, claimed in (("alice", True), ("claimed:alice", False)):
            async with await host.session(principal=name, claimed=claimed) as session:
                await session.say("go")

    assert {(made.scope.principal, made.scope.claimed) for made in recorder.of(DecisionMade)} == {
        ("claimed:alice", True)
    }
