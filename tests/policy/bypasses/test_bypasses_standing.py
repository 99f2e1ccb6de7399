"""Attempts to have an approval cover more than the person agreed to."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import given, settings, strategies as st
from pluggent_cli.sessions.transcript_file import FileStanding as Approvals, FileTranscript
from pluggent_hookspecs import Approval, Ask, ToolCallEvent, ToolSpec, hookimpl, tool
from pluggent_hookspecs._frozen import Json
from pluggent_hookspecs.decisions import REACHES
from pluggent_hookspecs.events import Scope
from pluggent_host import Host
from pluggent_host.approvals.pending import Resolved
from pluggent_host.approvals.standing import Standing, fits, may_approve
from pluggent_host.common.ids import DOUBT
from pluggent_testing.fakes import ScriptedModel, call

# ---- patterns ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("/srv/**", "/srv/%2e%2e/etc/passwd"),
        ("/srv/**", "/srv/.%2E/etc/passwd"),
        ("/srv/**", "/srv/%252e%252e/etc/passwd"),
        ("/srv/**", "/srv/x%5c..%5cy"),
        ("/srv/**", "/srv/a%00b"),
        ("/srv/**", "/srv/a%0ab"),
        ("/srv/*", "/srv/a%2Fb"),
        ("/srv/*", "/srv/a%25252Fb"),
        ("/srv/*", "/srv/a\uff0fb"),
        ("/srv/**", "/srv/\uff0e\uff0e/etc"),
        ("/srv/**", "/srv/\u2025/etc"),
        ("/srv/**", "/srv/\uff052e\uff052e/etc"),
        ("/srv/**", "/srv/\u200b../etc"),
        ("/srv/**", "/SRV/a"),
        ("/srv/*", "/srv/a/"),
        ("/srv/**", "\u2215srv/a"),
        ("ann@*", "ann@x\nbcc: eve@x"),
    ],
)
def test_a_text_that_somebody_reads_otherwise_does_not_fit_a_pattern_with_stars(pattern: str, text: str):
    assert not fits({"p": pattern}, {"p": text})


@pytest.mark.parametrize(
    ("pattern", "value"),
    [
        ('["/srv/*"]', ("/srv/a", "b")),
        ('["/srv/**"]', ("/srv/a", "/etc/passwd")),
        ('["/srv/**"]', ("/srv/..",)),
        ('{"to": "*"}', {"to": "ann", "zbcc": "eve"}),
        ('["a*"]', ("a\n",)),
        ("1*", 12),
        ("*", None),
        ("**", True),
    ],
)
def test_a_star_stands_for_a_part_of_one_text_and_never_for_more_entries(pattern: str, value: Json):
    assert not fits({"p": pattern}, {"p": value})


@pytest.mark.parametrize(
    ("pattern", "text"), [("/srv/*", "/srv/100% sure"), ("/srv/**", "/srv/a%20b/..c"), ("a*", "a\u00e9"), ("*%*", "5%")]
)
def test_what_reads_the_same_to_everybody_fits(pattern: str, text: str):
    assert fits({"p": pattern}, {"p": text})


@pytest.mark.parametrize(
    ("pattern", "text"),
    [("\u00e9", "e\u0301"), ("a", "A"), ("/srv", "/srv/"), ("a", "a "), ("a", "a\x00"), ("k", "\u212a")],
)
def test_without_stars_nothing_but_the_very_text_fits(pattern: str, text: str):
    assert not fits({"p": pattern}, {"p": text})


TEXTS = st.text(st.sampled_from("ab/.%2eEfF\\\u2025\uff0f\uff0e \n"), max_size=12)


@given(TEXTS, TEXTS, TEXTS)
def test_whatever_fits_a_folder_is_below_it_by_its_own_letters(before: str, folder: str, rest: str):
    folder = folder.replace("*", "")
    if fits({"p": f"/{folder}/**"}, {"p": before + rest}):
        assert (before + rest).startswith(f"/{folder}/")
        assert ".." not in (before + rest).replace("\\", "/").split("/")


@given(TEXTS, TEXTS)
def test_one_star_spans_no_separator_however_it_is_written(start: str, rest: str):
    if fits({"p": f"{start}*"}, {"p": start + rest}):
        assert not {"/", "\uff0f"} & set(rest)
        assert "%2f" not in (start + rest).lower()[len(start) :]


@given(st.dictionaries(st.sampled_from("abc"), TEXTS), st.dictionaries(st.sampled_from("abc"), TEXTS))
def test_every_name_of_a_pattern_has_to_be_there(where: dict[str, str], arguments: dict[str, str]):
    if fits(where, arguments):
        assert where.keys() <= arguments.keys()


# ---- who -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "who"),
    [
        ("terminal:ann[ext]", "terminal:anne"),
        ("terminal:?", "terminal:a"),
        ("key:[!a]", "key:b"),
        ("key:ann", "KEY:ANN"),
        ("key:*", "xkey:ann"),
        ("key:ann", "key:ann "),
        ("key:ann", "key:ann\n"),
    ],
)
def test_only_a_star_stands_for_something_in_the_name_of_an_approver(name: str, who: str):
    assert not may_approve(((name,),), who)
    assert may_approve(((name,),), name)


# ---- what is covered -----------------------------------------------------------------------

ASK = Ask("it sends")
EVENT = ToolCallEvent(
    Scope(session_id="s", turn_id="t1", workspace="/w"), "c", ToolSpec("send", "Send."), "acme:tool/send",
    b'{"to":"ann"}', "d1", frozenset(), 1, 0,
)  # fmt: skip
STANDS = Standing(
    "acme:tool/send", "d1", (("guard", "it sends"),), ("v1",), {"to": "a*"}, "/w", "", "t1", "key:ann", 1.0, "always"
)


def test_it_covers_the_like_of_what_was_approved():
    assert STANDS.covers(EVENT, [("guard", ASK)], ["v1"])


@pytest.mark.parametrize(
    "asks",
    [
        [("guard", Ask("it sends", reach="once"))],
        [("guard", Ask("it sends", reach="session"))],
        [("guard", Ask("it sends", approvers=("key:bob",)))],
        [("guard", ASK), ("money", Ask("it pays"))],
        [("host", ASK)],
        [(DOUBT, ASK)],
    ],
    ids=["once", "session", "others", "one more", "another plugin", "doubt"],
)
def test_an_ask_that_wants_more_is_not_covered(asks: Any):
    assert not STANDS.covers(EVENT, asks, ["v1"] * len(asks))


@pytest.mark.parametrize(
    ("reach", "wanted", "covered"),
    [
        ("session", "session", True),
        ("session", "always", True),
        ("always", "session", False),
        ("always", "always", True),
    ],
)
def test_an_approval_for_everywhere_does_not_answer_an_ask_that_wants_one_for_its_session(
    reach: Any, wanted: Any, *, covered: bool
):
    asks = [("guard", Ask("it sends", reach=wanted))]

    assert attrs.evolve(STANDS, reach=reach).covers(EVENT, asks, ["v1"]) is covered


NAMES = st.sampled_from(["a", "b"])
STANDINGS: Any = st.builds(
    lambda capability, definition, asks, where, workspace, reach: Standing(
        capability, definition, tuple((plugin, words) for plugin, words, _ in asks),
        tuple(identity for *_, identity in asks), where, workspace, "", "", "key:a", 1.0, reach,
    ),
    NAMES, NAMES, st.lists(st.tuples(NAMES, NAMES, NAMES), max_size=3),
    st.dictionaries(NAMES, st.sampled_from(["a", "a*"])), NAMES, st.sampled_from(["session", "always"]),
)  # fmt: skip


@given(
    STANDINGS, NAMES, NAMES, NAMES, st.dictionaries(NAMES, st.sampled_from(["a", "ab", "b"])),
    st.lists(st.tuples(NAMES, NAMES, NAMES, st.sampled_from(REACHES), st.sampled_from([(), ("key:a",), ("key:b",)])),
             min_size=1, max_size=3),
)  # fmt: skip
def test_what_is_covered_was_approved_in_every_part(
    standing: Standing, capability: str, definition: str, workspace: str, arguments: Mapping[str, str], asked: Any
):
    event = attrs.evolve(
        EVENT, capability=capability, definition=definition, arguments_json=json.dumps(arguments).encode(),
        scope=attrs.evolve(EVENT.scope, workspace=workspace),
    )  # fmt: skip
    asks = [(plugin, Ask(words, reach=reach, approvers=who)) for plugin, words, _, reach, who in asked]

    if standing.covers(event, asks, [identity for _, _, identity, *_ in asked]):
        assert (standing.capability, standing.definition, standing.workspace) == (capability, definition, workspace)
        known = {(*ask, identity) for ask, identity in zip(standing.asks, standing.identities, strict=True)}
        assert {(plugin, words, identity) for plugin, words, identity, *_ in asked} <= known
        assert fits(standing.where, arguments)
        assert all(REACHES.index(ask.reach) >= REACHES.index(standing.reach) for _, ask in asks)
        assert all(ask.approvers in ((), ("key:a",)) for _, ask in asks)


# ---- there and back ------------------------------------------------------------------------


@settings(max_examples=25)
@given(STANDINGS, st.text(max_size=8), st.floats(0, 1e12))
def test_a_kept_approval_comes_back_as_it_was(tmp_path_factory: Any, standing: Standing, by: str, at_s: float):
    kept = Approvals(tmp_path_factory.mktemp("kept"))
    given = attrs.evolve(standing, by=by, at_s=at_s, reach="always")
    kept.keep(given)

    assert kept.all() == (given,)


@settings(max_examples=25)
@given(STANDINGS, st.text(max_size=8), st.booleans(), st.floats(0, 1e12), st.sampled_from(REACHES))
def test_answers_come_back_from_a_session_as_they_were(
    tmp_path_factory: Any, standing: Standing, text: str, agreed: bool, at_s: float, reach: Any
):
    folder: Path = tmp_path_factory.mktemp("sessions")
    entries = (Resolved("t1", "d", agreed, text, at_s, at_s, reach, text), standing)
    transcript = FileTranscript(folder, "s")
    transcript.append(*entries)

    assert transcript.entries() == entries
    transcript.close()


async def test_an_approval_for_the_session_does_not_hold_for_another_tool_of_the_same_words(tmp_path: Path):
    asked: list[str] = []

    class Asks:
        @hookimpl
        def decide_tool_call(self, event: ToolCallEvent) -> Ask:
            return Ask("sure?")

    @tool(effects=())
    def send(to: str = "everybody") -> str:
        """Send."""
        return "sent"

    @tool(effects=())
    def erase(to: str = "everybody") -> str:
        """Send."""
        return "erased"

    def approve(event: Any) -> Approval:
        asked.append(event.capability)
        return Approval(agreed=True, reach="session", where={"to": "everybody"})

    model = ScriptedModel(call("send"), call("send", to="ann"), call("erase"), call("send", to="everybody"), "done")
    async with (
        Host.open(
            model="scripted/m", plugins=[model, Asks()], tools=[send, erase], installed=False, approver=approve,
        ) as host,
        await host.session("s") as session,
    ):  # fmt: skip
        await session.say("go")

    assert asked == ["app:tools:tool/send", "app:tools:tool/send", "app:tools:tool/erase"]
