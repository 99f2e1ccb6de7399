"""What an approval is good for: once, for the session, always; for whom, for which arguments, and sealed."""

import json
from pathlib import Path
from typing import Any

import attrs
import pytest
from fake_plugins import plugin
from hypothesis import given, strategies as st
from pluggent_hookspecs import Approval, ApprovalEvent, Ask, Respond, hookimpl, tool
from pluggent_hookspecs.errors import ConfigError, SessionError
from pluggent_host import Host, HostSettings, Why
from pluggent_host.settings import Grants
from pluggent_testing.fakes import ScriptedModel, call
from pluggent_transcript.entries import Decided
from pluggent_transcript.patterns import fits, may_approve
from saved import FileStanding as Approvals, answer_stored


class Office:
    """Hosts of one folder, with a tool that sends; a policy asks about it as told."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.sessions = folder / "sessions"
        self.sent: list[str] = []
        self.ask = Ask("it sends")
        self.asked: list[ApprovalEvent] = []
        self.answer: bool | Approval | None = None

    @hookimpl
    def decide_tool_call(self, event: Any) -> Ask:
        return self.ask

    def approve(self, event: ApprovalEvent) -> bool | Approval | None:
        self.asked.append(event)
        return self.answer

    def tools(self, description: str = "Send it.") -> list[Any]:
        @tool(effects=(), description=description)
        def send(to: str) -> str:
            self.sent.append(to)
            return "sent"

        return [send]

    def host(self, *replies: Any, **options: Any) -> Any:
        given: dict[str, Any] = {"tools": self.tools(), "state_dir": self.folder, "approver": self.approve, **options}
        return Host.open(model="scripted/m", plugins=[ScriptedModel(*replies), self], installed=False, **given)


@pytest.fixture
def office(tmp_path: Path) -> Office:
    return Office(tmp_path)


@pytest.mark.parametrize("folder", ["work", ""])
async def test_the_record_of_an_approval_says_how_far_it_reaches(office: Office, tmp_path: Path, folder: str):
    (tmp_path / "work").mkdir()
    options: dict[str, Any] = {"workspace": tmp_path / folder} if folder else {}
    office.answer = Approval(agreed=True, reach="always")
    await says(office, "bob", **options)
    async with office.host(call("send", to="bob"), "done", **options) as host, await host.session("t") as session:
        await session.say("go")
        reasons = [each.decision.reason for each in session.records() if isinstance(each, Decided)]

    assert f"approved before, for every session{' in this folder' if folder else ''}" in reasons


async def says(office: Office, *to: str, session: str = "s", **options: Any) -> int:
    """Have the model send to each of *to* in a turn of its own; return how often a person was asked."""
    before = len(office.asked)
    replies = [reply for one in to for reply in (call("send", to=one), "done")]
    async with office.host(*replies, **options) as host, await host.session(session) as opened:
        for _ in to:
            await opened.say("go")
    return len(office.asked) - before


@pytest.mark.parametrize(
    ("answer", "asked"),
    [
        (True, (1, 1, 1, 1)),
        (Approval(agreed=True, reach="session"), (1, 0, 0, 1)),
        (Approval(agreed=True, reach="always"), (1, 0, 0, 0)),
    ],
    ids=["once", "session", "always"],
)
async def test_an_approval_is_good_as_far_as_it_reaches_in_other_processes_too(office: Office, answer: Any, asked: Any):
    office.answer = answer

    first, second = await says(office, "ann"), await says(office, "bob")
    assert (first, second, await says(office, "cat"), await says(office, "dan", session="other")) == asked
    assert office.sent == ["ann", "bob", "cat", "dan"]
    kept = Approvals(office.sessions)
    assert [(one.capability, one.asks) for one in kept.all()] == (
        [("app:tools:tool/send", (("app:office", "it sends"),))] if asked[-1] == 0 else []
    )
    for one in kept.all():  # always is until it is forgotten
        assert kept.forget(one.id)
        assert await says(office, "eve", session="third") == 1


@pytest.mark.parametrize("reach", ["session", "always"])
async def test_another_ask_or_another_definition_or_folder_is_asked_about(office: Office, reach: Any):
    office.answer = Approval(agreed=True, reach=reach)
    await says(office, "ann")
    office.answer = True

    office.ask = Ask("it sends at night")
    assert await says(office, "ann") == 1
    office.ask = Ask("it sends")
    assert await says(office, "ann") == 0
    assert await says(office, "ann", tools=office.tools("Send it anywhere.")) == 1
    assert await says(office, "ann", workspace=office.folder) == 1


@pytest.mark.parametrize("reach", ["session", "always"])
async def test_a_pattern_limits_what_is_covered_to_arguments_that_fit(office: Office, reach: Any):
    office.answer = Approval(agreed=True, reach=reach, where={"to": "*@acme.example"})

    assert await says(office, "ann@acme.example", "bob@acme.example") == 1
    office.answer = False
    assert await says(office, "eve@evil.example") == 1
    assert office.sent == ["ann@acme.example", "bob@acme.example"]


async def test_the_narrowest_reach_of_all_asks_counts(office: Office):
    strict = plugin(decide_tool_call=Ask("money", reach="once"))
    office.answer = Approval(agreed=True, reach="always")

    assert await says(office, "ann", "bob", policies=[strict]) == 2
    assert {event.reach for event in office.asked} == {"once"}
    assert Approvals(office.sessions).all() == ()
    office.ask = Ask("it sends", reach="session")
    assert await says(office, "ann", "bob") == 1
    assert await says(office, "ann", session="other") == 1


async def test_an_ask_may_be_limited_to_some_approvers_and_all_asks_have_to_be_satisfied(office: Office):
    office.ask = Ask("pay?", approvers=("finance:*", "boss"))
    office.answer = True
    assert await says(office, "ann") == 1
    assert office.sent == []
    assert office.asked[0].approvers == (("finance:*", "boss"),)

    office.answer = Approval(agreed=True, by="finance:ann")
    assert await says(office, "bob") == 1
    assert office.sent == ["bob"]

    boss = plugin(decide_tool_call=Ask("sure?", approvers=("boss",)))
    assert await says(office, "cat", policies=[boss]) == 1
    assert office.sent == ["bob"]
    office.answer = Approval(agreed=True, by="boss")
    assert await says(office, "dan", policies=[boss]) == 1
    assert office.sent == ["bob", "dan"]


async def test_who_may_not_approve_may_still_refuse(office: Office):
    office.ask = Ask("pay?", approvers=("boss",))
    office.answer = Approval(agreed=False, reason="too dear")
    async with office.host(call("send", to="ann"), "ok") as host, await host.session("s") as session:
        await session.say("go")

        assert session.history[2].text == "Denied: a person refused this: too dear"


async def test_an_approver_of_the_application_says_who_the_person_is(office: Office):
    asked: list[Any] = []
    desk = plugin("Desk", resolve_approval=lambda e: asked.append(e) or Approval(agreed=True, by="boss"))
    office.ask = Ask("pay?", approvers=("boss",))

    config = HostSettings(grants=Grants(approvers=("app:desk",)))
    assert await says(office, "ann", approver=None, policies=[desk], config=config) == 0
    assert (len(asked), office.sent) == (1, ["ann"])


async def test_an_approval_with_a_response_runs_nothing_and_stands_for_nothing(office: Office):
    cache = plugin(decide_tool_call=Respond("from the cache"))
    office.answer = Approval(agreed=True, reach="always")
    assert await says(office, "ann", "ann", policies=[cache]) == 2
    assert office.sent == []


PAUSING = HostSettings(on_ask="pause")


async def paused(office: Office, to: str = "ann", session: str = "s") -> Any:
    asking = office.host(call("send", to=to), config=PAUSING, approver=None)
    async with asking as host, await host.session(session) as opened:
        (pending,) = (await opened.say("go")).pending
        return pending


async def resumed(office: Office, session: str = "s", answers: Any = None) -> Any:
    async with office.host("done", config=PAUSING, approver=None) as host, await host.session(session) as opened:
        return (await opened.resume(answers)).why


async def test_a_stored_answer_may_reach_beyond_its_call_and_is_held_to_who_may_give_it(office: Office):
    office.ask = Ask("pay?", approvers=("key:*",), reach="session")
    pending = await paused(office)
    folder, yes = office.sessions, Approval(agreed=True, reach="always")

    with pytest.raises(SessionError, match=r"the call \S+ can be approved only by key:\*, not by terminal:ann"):
        answer_stored(folder, "s", [pending.digest], yes, "terminal:ann")
    answer_stored(folder, "s", [pending.digest], yes, "key:bob")

    assert await resumed(office) is Why.COMPLETED
    assert await says(office, "bob", config=PAUSING, approver=None) == 0
    assert office.sent == ["ann", "bob"]
    assert Approvals(folder).all() == ()


async def test_answers_of_the_application_are_held_to_the_same(office: Office):
    office.ask = Ask("pay?", approvers=("boss",))
    pending = await paused(office)

    with pytest.raises(SessionError, match="only by boss, not by application"):
        await resumed(office, answers={pending.call_id: True})
    assert await resumed(office, answers={pending.call_id: Approval(agreed=True, by="boss")}) is Why.COMPLETED
    assert office.sent == ["ann"]


def lines(office: Office, session: str = "s") -> list[Any]:
    return [json.loads(line) for line in (office.sessions / f"{session}.jsonl").read_text().splitlines()]


async def test_an_approval_that_was_written_into_the_transcript_by_hand_does_not_count(office: Office, caplog: Any):
    pending = await paused(office)
    at_s = lines(office)[-1]["at_s"]
    forged = {
        "t": "Resolved", "turn_id": "t1", "digest": pending.digest, "agreed": True, "by": "boss", "at_s": at_s,
        "asked_at_s": at_s, "reach": "once", "reason": "", "seal": "0" * 64,
    }  # fmt: skip
    with (office.sessions / "s.jsonl").open("a") as file:
        file.write(json.dumps(forged) + "\n")

    assert await resumed(office) is Why.PAUSED
    assert office.sent == []
    assert "s.jsonl, line 10: pluggent did not write this approval here; it is left out" in caplog.text


async def test_a_kept_approval_that_was_changed_does_not_count_and_is_named(office: Office):
    office.answer = Approval(agreed=True, reach="always", where={"to": "ann"})
    await says(office, "ann")
    path = office.sessions / "approvals.json"
    path.write_text(path.read_text().replace('"to": "ann"', '"to": "**"'))

    office.answer = False
    assert await says(office, "eve", session="other") == 1
    (problem,) = Approvals(office.sessions).problems()
    assert "is damaged or was not written by pluggent; it does not count" in problem
    path.write_text("{")
    assert "is damaged: no approval in it counts" in Approvals(office.sessions).problems()[0]
    assert await says(office, "eve", session="third") == 1


async def test_kept_approvals_that_others_may_write_are_refused(office: Office):
    office.answer = Approval(agreed=True, reach="always")
    await says(office, "ann")
    (office.sessions / "approvals.json").chmod(0o666)

    with pytest.raises(ConfigError, match="is open to others"):
        await says(office, "bob", session="other")
    assert office.sent == ["ann"]


async def test_without_a_folder_always_lasts_as_long_as_the_session(office: Office):
    office.answer = Approval(agreed=True, reach="always")

    assert await says(office, "ann", "bob", state_dir=None) == 1
    assert await says(office, "cat", state_dir=None) == 1


@pytest.mark.parametrize(
    ("pattern", "text", "fit"),
    [
        ("/srv/*", "/srv/a", True), ("/srv/*", "/srv/a/b", False), ("/srv/**", "/srv/a/b", True),
        ("/srv/**", "/srv/../etc/passwd", False), ("/srv/**", "/srv/a/..", False), ("**", "..\\x", False),
        ("**", "a\nb", False), ("/srv/a", "/srv/a", True), ("a.c", "abc", False), ("", "", True), ("*", "", True),
        ("**", "x" * 4097, False), ("é*", "é1", True),
    ],
)  # fmt: skip
def test_patterns(pattern: str, text: str, fit: bool):
    assert fits({"p": pattern}, {"p": text}) is fit


SUBDOMAINS = "https://*.acme.example/**"


@pytest.mark.parametrize(
    ("pattern", "text", "fit"),
    [
        (SUBDOMAINS, "https://www.acme.example/", True), (SUBDOMAINS, "https://a.b.acme.example/x?y=z", True),
        (SUBDOMAINS, "HTTPS://WWW.Acme.Example:443/x", True), (SUBDOMAINS, "https://www.acme.example", True),
        (SUBDOMAINS, "https://evil.example#.acme.example/", False),
        (SUBDOMAINS, "https://evil.example?.acme.example/", False),
        (SUBDOMAINS, "https://evil.example/.acme.example/", False),
        (SUBDOMAINS, "https://evil.example\\.acme.example/", False),
        (SUBDOMAINS, "https://u:p@evil.example/.acme.example/", False),
        (SUBDOMAINS, "https://u@www.acme.example/", False),
        (SUBDOMAINS, "https://evil.example:443.acme.example/", False), (SUBDOMAINS, "https://.acme.example/", False),
        (SUBDOMAINS, "http://www.acme.example/", False), (SUBDOMAINS, "https://www.acme.example:8443/", False),
        (SUBDOMAINS, "https://www.acme.example/../x", False), (SUBDOMAINS, "https://www.acme.example/%2e%2e/x", False),
        (SUBDOMAINS, "https://evil.example%2f.acme.example/", False),
        (SUBDOMAINS, "https://evil\u3002acme.example/", False),
        (SUBDOMAINS, " https://www.acme.example/", False), (SUBDOMAINS, "https://www.acme.example/\n", False),
        (SUBDOMAINS, "https:www.acme.example/", False), (SUBDOMAINS, "https:///www.acme.example/", False),
        ("https://acme.example:*/v1/*", "https://acme.example:9/v1/x", True),
        ("https://acme.example/v1/*", "https://acme.example/v1/x/y", False),
        ("https://acme.example/*", "https://acme.example./x", True),
        ("http*://acme.example/*", "http://acme.example/x", False),
        ("https://*/x", "https://acme.example/x", True), ("https://[::1]/*", "https://[::1]/x", True),
    ],
)  # fmt: skip
def test_patterns_over_urls_fit_the_parsed_url(pattern: str, text: str, fit: bool):
    """Policy 39."""
    assert fits({"p": pattern}, {"p": text}) is fit


def test_patterns_over_paths_fit_what_the_path_leads_to(tmp_path: Path):
    """Policy 39."""
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "out").symlink_to("/etc")
    (tmp_path / "docs" / "in").symlink_to(tmp_path / "docs")
    for prefix, folder in ((f"{tmp_path}/", ""), ("", str(tmp_path))):
        where = {"path": f"{prefix}docs/**"}
        assert fits(where, {"path": f"{prefix}docs/a.txt"}, folder)
        assert fits(where, {"path": f"{prefix}docs/in/a.txt"}, folder)
        assert not fits(where, {"path": f"{prefix}docs/out/passwd"}, folder)
    assert fits({"repository": "acme/*"}, {"repository": "acme/tool"}, str(tmp_path))


def test_what_is_no_text_is_compared_as_json():
    assert fits({"n": "12", "b": "true", "l": '["a", 1]'}, {"n": 12, "b": True, "l": ("a", 1)})
    assert not fits({"n": "12"}, {"n": 1.5})
    assert not fits({"n": "*"}, {})


@given(st.text(), st.text())
def test_a_pattern_without_stars_fits_itself_alone(one: str, other: str):
    plain = one.replace("*", "")
    assert fits({"p": plain}, {"p": plain})
    assert fits({"p": plain}, {"p": other}) == (plain == other)


def test_who_may_approve():
    assert may_approve((), "anybody")
    assert not may_approve((("a",), ("b",)), "a")


def test_what_no_ask_and_no_approval_can_say_is_refused():
    with pytest.raises(ValueError, match="'p' has more than 2 stars"):
        Approval(agreed=True, where={"p": "*a*b*"})
    with pytest.raises(TypeError, match=r"approvers=\('boss',\)"):
        Ask("x", approvers="boss")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="reach"):
        attrs.evolve(Ask("x"), reach="forever")  # type: ignore[arg-type]


async def test_undoing_an_exchange_takes_back_what_was_approved_for_the_session_in_it(office: Office):
    office.answer = Approval(agreed=True, reach="session")
    async with office.host(call("send", to="ann"), "done", call("send", to="bob"), "done") as host:
        session = await host.session("s")
        await session.say("go")
        await session.undo()
        await session.say("go")

    assert [event.asks for event in office.asked] == [(("app:office", "it sends"),)] * 2
    assert await says(office, "cat") == 0
