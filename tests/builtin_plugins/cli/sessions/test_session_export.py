"""A stored session retold, as a document and as Markdown, with nothing in it that hooks took out."""

import json
import re

import attrs
import pytest
from hypothesis import given, strategies as st
from pluggent_cli.sessions.export import as_document, as_markdown, code, fenced
from pluggent_cli.sessions.reader import StoredSession, StoredTurn
from pluggent_hookspecs import Message, SessionError, Usage
from pluggent_hookspecs.messages import Image
from pluggent_transcript.entries import Given, ModelChosen, Said, SessionBegan, TurnBegan, TurnOver, Undone
from saved import FileTranscript, read_session, save, tool_turn, turn

USAGE = {
    "input": None, "output": None, "cached": None, "reasoning": None, "audio": None, "cost_usd": None,
    "estimated": False, "cache_write": None, "input_audio": None, "hosted_usd": None,
}  # fmt: skip


def message(role, text, **more):
    """Return a message as the document has it."""
    content = [{"type": "Text", "text": text}] if text else []
    plain = {"role": role, "by": "", "text": text, "content": content, "tool_calls": [], "name": None,
             "tool_call_id": None, "is_error": False, "outcome": "", "whole": None}  # fmt: skip
    return {**plain, **more}


# ---- retelling --------------------------------------------------------------------------


def test_a_session_is_retold_turn_by_turn(tmp_path):
    save(tmp_path, "s", Given((Message.user("before"),)), *turn("a", "b"), *turn("c", "d", "t2"), system="be brief")

    session = read_session(tmp_path, "s")

    assert session.began == SessionBegan("s", 1.5, "scripted/m", "be brief")
    assert session.given == (Message.user("before"),)
    assert [(one.began.turn_id, one.why, one.usage) for one in session.turns] == [
        ("t1", "completed", Usage(3, 4)), ("t2", "completed", Usage(3, 4)),
    ]  # fmt: skip
    assert session.usage == Usage(6, 8)


def test_a_turn_that_was_taken_back_takes_those_after_it_along(tmp_path):
    turns = (*turn("a", ""), *turn("b", "", "t2"), *turn("c", "", "t3"), Undone("t2"), *turn("d", "", "t4"))
    save(tmp_path, "s", *turns, ModelChosen("other/n"))

    assert [one.undone for one in read_session(tmp_path, "s").turns] == [False, True, True, False]


def test_a_turn_that_is_not_over_is_retold_while_its_writer_works(tmp_path):
    writer = FileTranscript(tmp_path, "s")
    writer.append(SessionBegan("s", 1.0), TurnBegan("t1", 2.0), Said("t1", Message.user("a")))
    try:
        session = read_session(tmp_path, "s")
    finally:
        writer.close()

    assert session.turns == (StoredTurn(TurnBegan("t1", 2.0), (Said("t1", Message.user("a")),)),)


def test_a_damaged_session_is_retold_up_to_the_damage(tmp_path):
    with pytest.raises(SessionError, match=r"session 's' cannot be read: .*No such file"):
        read_session(tmp_path, "s")
    path = save(tmp_path, "s", *turn("a", "b"))
    with path.open("ab") as file:
        file.write(b"oops\n")

    session = read_session(tmp_path, "s")

    assert (len(session.turns), session.problem.startswith(f"{path}, line 7 is damaged (")) == (1, True)


# ---- the document -----------------------------------------------------------------------


def test_the_document_has_every_key_whatever_there_is(tmp_path):
    save(tmp_path, "trip", *tool_turn(), system="be brief")

    document = as_document(read_session(tmp_path, "trip"))

    call = {"id": "c1", "name": "weather", "arguments": '{"city": "Beijing", "unit": "fahrenheit"}'}
    assert json.loads(json.dumps(document)) == {
        "format": "pluggent-session", "version": 1, "id": "trip", "created": "1970-01-01T00:00:01.500+00:00",
        "model": "scripted/m", "system": "be brief", "metadata": {}, "usage": USAGE, "problem": "", "given": [],
        "turns": [{
            "id": "t1", "began": "1970-01-01T00:00:02.500+00:00", "origin": "cli", "why": "completed", "detail": "",
            "undone": False, "dry_run": False, "metadata": {}, "usage": USAGE,
            "messages": [
                message("user", "what is the weather?"),
                message("assistant", "", tool_calls=[call]),
                message("tool", "17 °C", name="weather", tool_call_id="c1"),
                message("assistant", "it is windy"),
            ],
            "decisions": [{
                "operation": "tool_call", "capability": "acme-weather:tool/weather", "call_id": "c1",
                "verdict": "allow", "by": "host", "reason": "declared pure",
                "arguments": '{"city":"Beijing","unit":"celsius"}',
                "votes": [{"plugin": "acme-policy", "verdict": "none", "reason": ""}],
                "changes": [{"by": "acme-policy", "what": ["unit"]}],
            }],
            "pauses": [],
        }],
    }  # fmt: skip


def test_a_session_without_a_beginning_and_with_impossible_times_is_exported():
    session = StoredSession("s", turns=(StoredTurn(TurnBegan("t1", 1e300)),))

    assert as_document(session)["created"] is None
    assert as_document(session)["turns"][0]["began"] is None
    assert "At an unknown time" in as_markdown(session)


# ---- Markdown ---------------------------------------------------------------------------


def blocks(markdown):
    """Return the texts in fences, as CommonMark delimits them, and the lines outside."""
    inside, outside, fence = [], [], ""
    for line in markdown.split("\n"):
        mark = re.match(r" {0,3}(`{3,})", line)
        if fence and mark and len(mark[1]) >= len(fence) and not line.strip(" `"):
            fence = ""
        elif fence:
            inside[-1].append(line)
        elif mark:
            fence = mark[1]
            inside.append([])
        else:
            outside.append(line)
    assert not fence, "a fence was left open"
    return ["\n".join(lines) for lines in inside], outside


def test_markdown_says_who_said_what_and_nothing_that_a_hook_took_out(tmp_path):
    save(tmp_path, "trip", *tool_turn())

    markdown = as_markdown(read_session(tmp_path, "trip"))

    texts, outside = blocks(markdown)
    assert "s3cret" not in markdown
    assert texts == [
        "what is the weather?",
        '{"city": "Beijing", "unit": "fahrenheit"}',
        '{"city":"Beijing","unit":"celsius"}',
        "17 °C",
        "it is windy",
    ]
    assert [line for line in outside if line.startswith(("#", "**"))] == [
        "# Session `trip`",
        "## Turn `t1`",
        "**User**",
        "**Call** of `weather`",
        "**Decision** on `acme-weather:tool/weather`: `allow` by `host`: `declared pure`; `acme-policy` changed `unit`",
        "**Result** of `weather`",
        "**Assistant**",
    ]


def test_what_is_no_text_is_named(tmp_path):
    picture = Message.user(Image(data="aGk="))
    save(tmp_path, "s", TurnBegan("t1", 1.0), Said("t1", picture), TurnOver("t1", "completed"))

    assert blocks(as_markdown(read_session(tmp_path, "s")))[0] == ["[image]"]


TRICKS = st.text(st.sampled_from("`~# \n\r\t-*_[]<>|\\\x1b\u2028a"), max_size=60)


@given(TRICKS, TRICKS, TRICKS)
def test_no_text_gets_out_of_its_block(said, name, reason):
    entries = [attrs.evolve(one, turn_id="t1") if hasattr(one, "turn_id") else one for one in tool_turn(said)]
    ended = TurnOver("t1", name, reason)
    session = StoredSession(
        "s", turns=(StoredTurn(TurnBegan("t1", 1.0, name), tuple(entries), ended.why, ended.detail),)
    )

    texts, outside = blocks(as_markdown(session))

    shown = said.replace("\x1b", "\\x1b").replace("\r", "\\r")
    assert shown in texts if said else len(texts) == 4
    assert {line[:3] for line in outside if line.startswith("#")} == {"# S", "## "}
    assert not [line for line in outside if line.startswith(("-", "*", ">", "|", "<", "~")) and line[:2] != "**"]


@given(TRICKS)
def test_a_fence_is_longer_than_any_in_it(text):
    first, *_, last = fenced(text).split("\n")

    assert first == f"{last}text"
    assert last not in fenced(text)[len(first) : -len(last)]


@given(TRICKS)
def test_code_within_a_line_ends_where_it_should(text):
    shown = code(text)
    ticks = re.match("`+", shown)

    assert "\n" not in shown
    assert ticks
    assert re.findall(f"(?<!`){ticks[0]}(?!`)", shown) == [ticks[0]] * 2
