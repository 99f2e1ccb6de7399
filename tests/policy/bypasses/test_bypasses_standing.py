"""Attempts to have an approval cover more than the person agreed to (rules 16, 39 and 41)."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs
import pytest
from each_of import each_of
from hypothesis import given, settings, strategies as st
from pluggent_hookspecs import Approval, Ask, Json, ToolCallEvent, ToolSpec, tool
from pluggent_hookspecs.decisions import REACHES
from pluggent_hookspecs.events import Scope
from pluggent_testing.fakes import call
from pluggent_transcript.patterns import fits, may_approve
from pluggent_transcript.pending import Resolved
from pluggent_transcript.standing import DOUBT, Standing
from policy_rules import agreeing, hooked
from policy_stage import said
from saved import FileStanding as Approvals, FileTranscript

# ---- patterns

READ_OTHERWISE = {
    "/srv/**": [
        "/srv/%2e%2e/etc/passwd", "/srv/.%2E/etc/passwd", "/srv/%252e%252e/etc/passwd", "/srv/x%5c..%5cy",
        "/srv/a%00b", "/srv/a%0ab", "/srv/\uff0e\uff0e/etc", "/srv/\u2025/etc", "/srv/\uff052e\uff052e/etc",
        "/srv/\u200b../etc", "/SRV/a", "\u2215srv/a",
    ],
    "https://acme.example/pub/**": [
        "https://acme.example/pub/..;/admin", "https://acme.example/pub/%2e%2e;x=1/admin",
        "https://acme.example/pub/..%3b/admin", "https://acme.example/pub/%c0%ae%c0%ae/admin",
        "https://acme.example/pub/%ff", "https://acme.example/pub/%u002e%u002e/admin",
    ],
    "/srv/*": ["/srv/a%2Fb", "/srv/a%25252Fb", "/srv/a\uff0fb", "/srv/a/"],
    "ann@*": ["ann@x\nbcc: eve@x"],
}  # fmt: skip
OF_ONE_TEXT: list[tuple[str, Json]] = [
    ('["/srv/*"]', ("/srv/a", "b")), ('["/srv/**"]', ("/srv/a", "/etc/passwd")), ('["/srv/**"]', ("/srv/..",)),
    ('{"to": "*"}', {"to": "ann", "zbcc": "eve"}), ('["a*"]', ("a\n",)), ("1*", 12), ("*", None), ("**", True),
]  # fmt: skip
WITHOUT_STARS = [("\u00e9", "e\u0301"), ("a", "A"), ("/srv", "/srv/"), ("a", "a "), ("a", "a\x00"), ("k", "\u212a")]


@each_of(
    ("pattern", "value"),
    [*((pattern, text) for pattern, texts in READ_OTHERWISE.items() for text in texts), *OF_ONE_TEXT, *WITHOUT_STARS],
)
def test_a_pattern_fits_nothing_that_is_read_otherwise_nor_more_than_one_text(pattern: str, value: Json):
    assert not fits({"p": pattern}, {"p": value})


@each_of(
    ("pattern", "text"), [("/srv/*", "/srv/100% sure"), ("/srv/**", "/srv/a%20b/..c"), ("a*", "a\u00e9"), ("*%*", "5%")]
)
def test_what_reads_the_same_to_everybody_fits(pattern: str, text: str):
    assert fits({"p": pattern}, {"p": text})


@pytest.mark.parametrize("folder", [True, False])
def test_no_link_or_home_is_taken_for_a_name_in_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: bool
):
    """A cloned repository can have links. Without a workspace tools read paths in the working directory."""
    (tmp_path / "a").mkdir()
    for link in ("README.md", "a/README.md"):
        (tmp_path / link).symlink_to("/etc/passwd")
    monkeypatch.chdir(tmp_path)
    attempts = [("*.md", "README.md"), ("**.md", "a/README.md"), ("a/*", "a/README.md"), ("*", "~"), ("*", "~root")]

    assert [
        name for pattern, name in attempts if fits({"path": pattern}, {"path": name}, str(tmp_path) if folder else "")
    ] == []


def test_a_link_that_stays_within_the_pattern_fits(tmp_path: Path):
    (tmp_path / "one.md").touch()
    (tmp_path / "two.md").symlink_to("one.md")

    assert fits({"path": "*.md"}, {"path": "two.md"}, str(tmp_path))
    assert fits({"text": "**"}, {"text": "any // text / at all."}, str(tmp_path))
    assert fits({"path": "~/a/*"}, {"path": "~/a/b"}, str(tmp_path))


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


@each_of(
    ("name", "who"),
    [("terminal:ann[ext]", "terminal:anne"), ("terminal:?", "terminal:a"), ("key:[!a]", "key:b"),
     ("key:ann", "KEY:ANN"), ("key:*", "xkey:ann"), ("key:ann", "key:ann "), ("key:ann", "key:ann\n")],
)  # fmt: skip
def test_only_a_star_stands_for_something_in_the_name_of_an_approver(name: str, who: str):
    assert not may_approve(((name,),), who)
    assert may_approve(((name,),), name)


# ---- what is covered

ASK = Ask("it sends")
EVENT = ToolCallEvent(
    Scope(session_id="s", turn_id="t1", workspace="/w"), "c", ToolSpec("send", "Send."), "acme:tool/send",
    b'{"to":"ann"}', "d1", frozenset(), 1, 0,
)  # fmt: skip
STANDS = Standing(
    "acme:tool/send", "d1", (("guard", "it sends"),), ("v1",), {"to": "a*"}, "/w", "", "t1", "key:ann", 1.0, "always"
)


@each_of(
    ("reach", "asks", "covered"),
    [
        ("always", [("guard", ASK)], True),
        ("session", [("guard", ASK)], True),
        ("session", [("guard", Ask("it sends", reach="session"))], True),
        ("always", [("guard", Ask("it sends", reach="session"))], False),
        ("always", [("guard", Ask("it sends", reach="once"))], False),
        ("always", [("guard", Ask("it sends", approvers=("key:bob",)))], False),
        ("always", [("guard", ASK), ("money", Ask("it pays"))], False),
        ("always", [("host", ASK)], False),
        ("always", [(DOUBT, ASK)], False),
    ],
)
def test_it_covers_the_like_of_what_was_approved_and_no_ask_that_wants_more(reach: Any, asks: Any, covered: bool):
    assert attrs.evolve(STANDS, reach=reach).covers(EVENT, asks, ["v1"] * len(asks)) is covered


def test_no_approval_stands_for_a_doubt():
    """Rule 35."""
    assert not attrs.evolve(STANDS, asks=((DOUBT, "it sends"),)).covers(EVENT, [(DOUBT, ASK)], ["v1"])


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


# ---- there and back


@settings(max_examples=25, deadline=None)
@given(STANDINGS, st.text(max_size=8), st.booleans(), st.floats(0, 1e12), st.sampled_from(REACHES))
def test_approvals_and_answers_come_back_as_they_were(
    tmp_path_factory: Any, standing: Standing, text: str, agreed: bool, at_s: float, reach: Any
):
    folder: Path = tmp_path_factory.mktemp("sessions")
    always = attrs.evolve(standing, by=text, at_s=at_s, reach="always")
    entries = (Resolved("t1", "d", agreed, text, at_s, at_s, reach, text), standing)
    kept, transcript = Approvals(folder), FileTranscript(folder, "s")
    kept.keep(always)
    transcript.append(*entries)

    assert (kept.all(), transcript.entries()) == ((always,), entries)
    transcript.close()


async def test_an_approval_for_the_session_does_not_hold_for_another_tool_of_the_same_words():
    asked: list[Any] = []

    def saying(name: str) -> Any:
        @tool(name=name, effects=())
        def send(to: str = "everybody") -> None:
            """Send."""

        return send

    calls = [call("send"), call("send", to="ann"), call("erase"), call("send", to="everybody")]
    answer = Approval(agreed=True, reach="session", where={"to": "everybody"})
    await said(
        *calls, plugins=[hooked(decide_tool_call=Ask("sure?"))], tools=[saying("send"), saying("erase")],
        approver=agreeing(asked, answer),
    )  # fmt: skip

    assert [event.capability for event in asked] == [f"app:tools:tool/{name}" for name in ("send", "send", "erase")]
