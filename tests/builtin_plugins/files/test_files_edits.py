"""Exact replacements: all or none, and what an answer says where one cannot be made."""

import codecs
from pathlib import Path
from typing import Any

import pytest
from file_hands import Hands
from hypothesis import given, strategies as st
from pluggent_files.changes.edits import edited
from pluggent_files.text import decode
from pluggent_hookspecs import ToolError


@pytest.fixture
def hands(tmp_path: Path) -> Hands:
    return Hands(tmp_path)


def test_all_replacements_are_made_in_order(hands):
    file = hands.workspace / "a.py"
    file.write_text("a = 1\nb = 2\nc = 3\n")
    edits = [{"old_text": "a = 1", "new_text": "x = 1"}, {"old_text": "x = 1\nb = 2", "new_text": "y = 9"}]

    said = hands("edit_file", path="a.py", edits=edits)

    assert file.read_text() == "y = 9\nc = 3\n"
    assert said == "changed a.py: +1 -2 lines\n1\ty = 9\n2\tc = 3"


def test_one_that_cannot_be_made_leaves_all_as_it_was(hands):
    file = hands.workspace / "a.py"
    file.write_text("a = 1\nb = 2\n")
    edits = [{"old_text": "a = 1", "new_text": "x"}, {"old_text": "nothing of it", "new_text": "y"}]

    with pytest.raises(ToolError, match=r"edit 2 of 2: a.py: old_text was not found"):
        hands("edit_file", path="a.py", edits=edits)
    assert file.read_text() == "a = 1\nb = 2\n"


def test_a_text_that_stands_there_twice_names_the_lines(hands):
    file = hands.workspace / "a.py"
    file.write_text("x\ny\nx\n")

    with pytest.raises(ToolError, match=r"2 times \(lines 1, 3\), so nothing was changed"):
        hands.edit("a.py", "x", "z")
    hands.edit("a.py", "x", "z", replace_all=True)
    assert file.read_text() == "z\ny\nz\n"


@pytest.mark.parametrize(
    ("old", "said"),
    [
        ("return  1", "differs in white space from line 3:\n3\t    return 1"),
        ("def f():\n  return  1", "differs in white space from lines 2 to 3:\n2\tdef f():\n3\t    return 1"),
        ("def f():\n    return 2 # one", "Most similar is what begins at line 2:\n2\tdef f():"),
        ("2\tdef f():\n3\t    return 1", "it has the line numbers of read_file in it"),
        ("@@@@@@@@@", "was not found in its 4 lines. Read the file again"),
        ("", "old_text is empty"),
    ],
)
def test_a_text_that_is_not_there_says_what_to_do(hands, old, said):
    (hands.workspace / "a.py").write_text("import os\ndef f():\n    return 1\n")

    with pytest.raises(ToolError) as caught:
        hands.edit("a.py", old, "new")
    assert said in str(caught.value)


def test_a_replacement_by_itself_is_an_error(hands):
    (hands.workspace / "a.py").write_text("a\n")

    with pytest.raises(ToolError, match="are the same"):
        hands.edit("a.py", "a", "a")


@pytest.mark.parametrize(
    ("content", "old", "new", "expected"),
    [
        (b"a\r\nb\r\nc\r\n", "a\nb", "x\ny", b"x\r\ny\r\nc\r\n"),
        (b"a\r\nb\r\nc\r\n", "a\r\nb", "x\r\ny", b"x\r\ny\r\nc\r\n"),
        (b"a\r\nb\nc\n", "a\nb", "x\ny", b"x\r\ny\nc\n"),
        (b"a\r\nb\r\nc\n", "c", "x\ny", b"a\r\nb\r\nx\r\ny\n"),
        (b"a\nb", "b", "x\ny", b"a\nx\ny"),
        ("\u4f60\u597d\n".encode("utf-8-sig"), "\u597d", "x", "\u4f60x\n".encode("utf-8-sig")),
        ("\u4f60\u597d\n".encode("utf-16"), "\u597d", "x", "\u4f60x\n".encode("utf-16")),
        (b"caf\xe9 au lait\n", "caf\u00e9", "th\u00e9", b"th\xe9 au lait\n"),
        ("\u4f60\u597d ".encode() + b"\xff b\n", "b", "\u597d", "\u4f60\u597d ".encode() + b"\xff \xe5\xa5\xbd\n"),
    ],
)
def test_line_ends_and_encodings_are_kept(hands, content, old, new, expected):
    (hands.workspace / "a.txt").write_bytes(content)

    hands.edit("a.txt", old, new)

    assert (hands.workspace / "a.txt").read_bytes() == expected


def test_a_character_that_the_encoding_has_not_is_refused(hands):
    (hands.workspace / "a.txt").write_bytes(b"caf\xe9\n")

    with pytest.raises(ToolError, match=r"a.txt is latin-1, which has no '→'"):
        hands.edit("a.txt", "caf", "→")
    assert (hands.workspace / "a.txt").read_bytes() == b"caf\xe9\n"


def test_half_of_a_surrogate_pair_is_refused(hands):
    (hands.workspace / "a.txt").write_text("a\n")

    with pytest.raises(ToolError, match="surrogate"):
        hands.edit("a.txt", "a", "\ud800")


def test_a_binary_file_is_not_edited(hands):
    (hands.workspace / "a.bin").write_bytes(b"a\0b")

    with pytest.raises(ToolError, match="binary data, no text"):
        hands.edit("a.bin", "a", "b")


def test_a_missing_file_is_for_write_file(hands):
    with pytest.raises(ToolError, match="does not exist; write_file makes a new file"):
        hands.edit("a.txt", "a", "b")


@given(st.text(alphabet="ab\r\n", max_size=60), st.text(alphabet="ab\n", min_size=1, max_size=4))
def test_only_the_occurrences_change(text, old):
    lines = text.replace("\r\n", "\n")
    has_crlf = "\r\n" in text
    sought = old if has_crlf else old.replace("\r\n", "\n")
    try:
        done = edited(text, [{"old_text": sought, "new_text": "Z", "replace_all": True}], "x").text
    except ToolError:
        assert old not in text
        return

    assert "Z" in done
    if not has_crlf:
        assert done == lines.replace(old, "Z")


@given(
    st.binary(max_size=200)
    | st.text(max_size=50).map(str.encode)
    | st.text(max_size=50).map(lambda text: codecs.BOM_UTF16_LE + text.encode("utf-16-le", "surrogatepass"))
)
def test_what_is_decoded_gives_its_bytes_back(data):
    found = decode(data, "latin-1")

    assert found is None or found.encode(found.text) == data


def test_many_replacements_in_many_places_are_made():
    # In quadratic time this would take hours.
    edits: list[Any] = [
        {"old_text": "ab"[number % 2], "new_text": "ba"[number % 2], "replace_all": True} for number in range(6)
    ]

    assert edited("a\r\n" * 200_000, edits, "x").text == "a\r\n" * 200_000


def test_earlier_replacements_are_shown_where_they_are_in_the_end(hands):
    (hands.workspace / "a.txt").write_text("".join(f"line {number}\n" for number in range(1, 31)))
    edits = [
        {"old_text": "line 20\n", "new_text": "twenty\n"},
        {"old_text": "line 5\n", "new_text": "five\nand more\n"},
    ]

    said = hands("edit_file", path="a.txt", edits=edits)

    assert "\n5\tfive\n6\tand more\n" in said
    assert "\n21\ttwenty\n" in said


@pytest.mark.parametrize("old", ["a" * 5_000, "x" * 20_000 + "\n" + "y" * 20_000, "\n".join(["b"] * 3_000)])
@pytest.mark.parametrize("text", ["a" * 2_000_000, "a\r\n" * 400_000, "\n" * 1_000_000, "b \n" * 300_000])
def test_hostile_texts_are_answered(text, old):
    # In quadratic time this would take minutes.
    with pytest.raises(ToolError):
        edited(text, [{"old_text": old + "z", "new_text": "c"}], "x")
