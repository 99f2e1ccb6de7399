"""Words are found wherever they were said, whatever else lies in the folder."""

from each_of import each_of
from hypothesis import given, strategies as st
from pluggent_cli.sessions.search import AROUND, Found, Unreadable
from pluggent_hookspecs import Message
from pluggent_transcript.entries import Given, Said, SessionBegan, Settled, TurnBegan
from saved import CALL, save, search, tool_turn, turn


def found(folder, text):
    """Return (session, turn, who, what was found) for each place."""
    return [(one.session, one.turn, one.who, one.match) for one in search(folder, text) if isinstance(one, Found)]


def test_every_place_says_session_turn_and_who(tmp_path):
    save(tmp_path, "old", *turn("Where is Beijing?", "far away"), modified_s=1.0)
    save(tmp_path, "new", *tool_turn("windy in Beijing"), modified_s=2.0)

    assert found(tmp_path, "beijing") == [
        ("new", "t1", "assistant", "Beijing"),
        ("new", "t1", "tool weather", "Beijing"),
        ("old", "t1", "user", "Beijing"),
    ]


def test_what_stands_around_is_given(tmp_path):
    save(tmp_path, "s", *turn(f"{'x' * 100} needle\n{'y' * 100}", ""))

    before, after = f"{'x' * (AROUND - 1)} ", f"\n{'y' * (AROUND - 1)}"
    assert list(search(tmp_path, "NEEDLE")) == [Found("s", "t1", "user", before, "needle", after)]


@each_of(
    ("said", "sought", "count"),
    [
        ("two\n   words", "two words", 1), ("Die STRASSE", "straße", 1), ("die Straße dort", "STRASSE", 1),
        ("ΣΊΣΥΦΟΣ", "σίσυφος", 1), ("在北京的天气", "北京", 1), ('say "yes"\\no', '"yes"\\no', 1),
        ("a.b*c", "a.b*c", 1), ("tab\there", "tab here", 1), ("abc", "a.c", 0), ("abc", ".*", 0),
        ("hello", "content", 0), ("hello", "turn_id", 0), ("hello", " ", 0),
    ],
)  # fmt: skip
def test_case_and_white_space_do_not_matter_and_signs_and_names_of_fields_match_nothing_else(
    tmp_path_factory, said, sought, count
):
    folder = tmp_path_factory.mktemp("sessions")
    save(folder, "s", *turn(said, ""))

    assert len(found(folder, sought)) == count


def test_the_whole_result_is_searched_and_given_messages_and_words_of_the_host(tmp_path):
    save(
        tmp_path, "s", Given((Message.user("needle one"),)), TurnBegan("t1", 1.0),
        Settled("t1", "c1", Message.tool(CALL, "cut"), "", "the needle that was cut off"),
        Said("t1", Message.user("needle three"), "host"),
    )  # fmt: skip

    assert [place[1:3] for place in found(tmp_path, "needle")] == [("", "user"), ("t1", "tool weather"), ("t1", "host")]


def test_a_damaged_session_is_searched_up_to_the_damage_and_hides_no_other(tmp_path):
    with save(tmp_path, "bad", *turn("needle", ""), modified_s=2.0).open("ab") as file:
        file.write(b'{"t":"Said",oops}\n')
    (tmp_path / "folder.jsonl").mkdir()
    save(tmp_path, "good", *turn("needle", ""), modified_s=1.0)

    assert [place[0] for place in found(tmp_path, "needle")] == ["bad", "good"]
    assert {one for one in search(tmp_path, "needle") if isinstance(one, Unreadable)} == {
        Unreadable("bad", "is damaged"),
        Unreadable("folder", f"cannot be read: {tmp_path}/folder.jsonl: it is not a regular file"),
    }


@given(st.text(min_size=1), st.data())
def test_every_part_of_what_was_said_is_found_where_it_stands(tmp_path_factory, said, data):
    start = data.draw(st.integers(0, len(said) - 1))
    part = said[start : data.draw(st.integers(start + 1, len(said)))]
    folder = tmp_path_factory.mktemp("sessions")
    save(folder, "s", SessionBegan("s", 1.0), Said("t1", Message.user(said)))

    places = [one for one in search(folder, part) if isinstance(one, Found)]

    assert len(places) == bool(part.split())
    assert all(one.before + one.match + one.after in said for one in places)
