"""What a model writes, on a terminal: readable at any width and on any ground, and never in command of it."""

import re

import pytest
from hypothesis import given, settings, strategies as st
from pluggent_cli.terminal.markdown import Markdown
from rich.cells import cell_len

STYLES = re.compile(r"\x1b\[([0-9;]*)m")
READABLE = {"", "0", "1", "2", "3", "4", "9", "31", "32", "35", "36"}
"""Bold, dim, italic and so on, and the four colours that are read well on white and on black."""
TEXT = """
# Title

Some **bold**, *slanted*, `code`, ~~gone~~ words and a [link](https://example.com/a), 漢字かな and 👍.

- one
  - nested
- two with a long line that has to be broken somewhere, because it is too long for most terminals

```python
def f(x):  # says something
    return "text", 1
```

| Name | Number | What it is |
|:-----|-------:|:----------:|
| 東京 | 1 | the capital of Japan, and a longer text |
| ok 👍 | 22 | `b` |

> quoted
"""


def painted(source: str, columns: int = 60, sizes: tuple[int, ...] = ()) -> str:
    """Return what is written for *source*, if it comes in parts of these sizes and the rest at once."""
    answer, written, at = Markdown(), "", 0
    answer.resize(columns + 1)
    for size in sizes:
        written += answer.add(source[at : at + size])
        at += size
    return written + answer.add(source[at:]) + answer.end()


def seen(source: str, columns: int = 60) -> str:
    """Return what a person reads."""
    return STYLES.sub("", painted(source, columns))


# ---- safety -----------------------------------------------------------------------------


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from([
    "\x1b[2J", "\x1b]8;;http://evil\x07", "\x9b2J", "\r", "\x08", "\u202e", "&#27;[2J", "&#x9b;2J", "&#x202e;",
    "%1b[2J", "<http://a.b/%1b%5b2J>", "[x](http://a.b/%1b[2J)", "![x](http://a.b/%9b)", "`", "```\n", "\n", "- ",
    "|a|\n|-|\n", "*", "text ", "\\", "\x00", "\ud800", "> ", "<b>",
])).map("".join))  # fmt: skip
def test_nothing_but_styles_steers_the_terminal(source):
    written = STYLES.sub("", painted(source))

    assert not [character for character in written if ord(character) < 32 and character != "\n"]
    assert not re.search("[\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]", written)


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("[the bank](https://evil.example)", "the bank (https://evil.example)"),
        ("[https://bank.example](https://evil.example)", "https://bank.example (https://evil.example)"),
        ("[https://same.example](https://same.example)", "https://same.example"),
        ("<https://same.example>", "https://same.example"),
        ("<a@b.example>", "a@b.example"),
        ("![a cat](https://e.example/c.png)", "[image: a cat] (https://e.example/c.png)"),
        ("[![a](http://p.example)](http://q.example)", "[image: a] (http://p.example) (http://q.example)"),
        ("[x](javascript:alert(1))", "[x](javascript:alert(1))"),
        ("[a]: http://e.example", "[a]: http://e.example"),
        ("[b\u0430nk](https://b\u0430nk.example)", "b\u0430nk (https://xn--bnk-6cd.example)"),
        ("<b onclick='x'>bold</b>", "<b onclick='x'>bold</b>"),
        ("<div>\nhidden?\n</div>", "<div>\nhidden?\n</div>"),
        ("<!-- a comment -->", "<!-- a comment -->"),
    ],
)
def test_a_link_and_a_picture_show_where_they_lead_and_html_is_shown_as_it_is(source, says):
    assert seen(source, 100) == f"{says}\n"


@pytest.mark.parametrize(
    "source", ["> " * 40 + "deep", ">" * 3000 + "deep", "- a\n" + "  " * 30 + "- deep", "[" * 3000 + "deep"]
)
def test_what_is_nested_too_deeply_is_shown_all_the_same(source):
    assert "deep" in seen(source)


# ---- looks ------------------------------------------------------------------------------


def test_only_colours_that_are_read_on_white_and_on_black_are_used_and_no_background():
    codes = {code for found in STYLES.findall(painted(TEXT)) for code in found.split(";")}

    assert codes <= READABLE
    assert {"1", "32", "35", "36"} <= codes


@pytest.mark.parametrize("columns", [20, 39, 60, 199])
def test_no_line_is_too_wide_but_lines_of_code(columns):
    lines = seen(TEXT, columns).splitlines()

    code = {"def f(x):  # says something", '    return "text", 1'}
    assert [line for line in lines if cell_len(line) > columns and line not in code] == []
    assert code <= set(lines)


def test_text_is_not_stretched_over_a_very_wide_terminal():
    assert max(map(len, seen("word " * 200, 300).splitlines())) <= 120


def test_a_text_with_everything_in_it():
    assert (
        seen(TEXT, 39)
        == """\
Title

Some bold, slanted, code, gone words
and a link (https://example.com/a),
漢字かな and 👍.

 • one
    • nested
 • two with a long line that has to be
   broken somewhere, because it is too
   long for most terminals

```python
def f(x):  # says something
    return "text", 1
```

Name    Number         What it is
───────────────────────────────────────
東京         1   the capital of Japan,
                   and a longer text
ok 👍       22             b

▌ quoted
"""
    )


def test_the_columns_of_a_table_stand_below_each_other_whatever_is_in_them():
    head, _, *rows = seen("|a|b|\n|-|-|\n|漢字|x|\n|👍|x|\n|plain|x|\n|é|x|").splitlines()

    assert {cell_len(row[: row.index("x")]) for row in rows} == {cell_len(head[: head.index("b")])}


def test_a_table_that_is_too_wide_becomes_a_paragraph_a_row():
    cells = "|".join(f"cell number {n}" for n in range(6))
    heads = "|".join(f"h{n}" for n in range(6))

    shown = seen(f"|{heads}|\n|{'-|' * 6}\n|{cells}|\n", 30)

    assert shown.splitlines()[:2] == ["h0: cell number 0", "h1: cell number 1"]


def test_lines_that_the_model_has_broken_stay_broken():
    assert seen("roses are red\nviolets are blue\n") == "roses are red\nviolets are blue\n"


def test_code_is_never_changed():
    code = "\tif x:\n\n\n  y = '\\\\'  \n" + "z" * 300

    assert seen(f"```python\n{code}\n```") == f"```python\n{code}\n```\n"
    assert seen(f"```no-such-language\n{code}\n```") == f"```no-such-language\n{code}\n```\n"


def test_a_string_of_many_lines_is_a_string_on_all_of_them():
    written = painted('```python\n"""first\nsecond\nthird"""\n```\n', sizes=(5,) * 20)

    assert [line for line in written.splitlines() if "second" in line] == ["\x1b[32msecond\x1b[0m"]


# ---- while it comes ---------------------------------------------------------------------


PHRASES = [
    "word ", "a-long-word ", "**bold** ", "*", "_", "`code x` ", "[l](http://u.v) ", "[1] ", "&amp; ", "a&b ",
    "<b> ", "\n", "x\\", "! ", "漢字 ", "| ", "**", "~~", "\n\n", "- i\n", "text, more text ",
    "  ", "(", "]", "```\n", "> ", "1. ",
]  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.sampled_from(PHRASES), min_size=5, max_size=60).map("".join),
    st.lists(st.integers(1, 9), max_size=80),
    st.sampled_from([20, 30, 60]),
)
def test_what_is_printed_early_is_what_is_printed_in_the_end(source, sizes, columns):
    early = STYLES.sub("", painted(source, columns, tuple(sizes)))

    assert early.split() == seen(source, columns).split()


def test_no_more_is_shown_of_what_is_unfinished_than_there_is_room_for():
    answer = Markdown()
    answer.resize(41)
    answer.add("|a|b|\n|-|-|\n" + "".join(f"|{n}|x|\n" for n in range(100)))

    shown = answer.unfinished(5)

    assert [STYLES.sub("", line).split()[0] for line, _ in shown] == ["95", "96", "97", "98", "99"]


def test_something_unfinished_that_is_very_long_is_shown_as_it_was_written():
    answer = Markdown()
    answer.resize(41)

    assert answer.add("*" + "word " * 2_000) == ""
    assert len(answer.unfinished(5)) == 5


def test_line_breaks_of_other_systems_are_line_breaks_wherever_they_are_cut():
    assert painted("one\r\n\r\ntwo\r\n", sizes=(4, 1, 1, 1)) == "one\n\ntwo\n"
    assert painted("a\rb", sizes=(2,)) == "a\\rb\n"


def test_an_answer_of_nothing_is_nothing():
    assert painted("") == ""
    assert painted("\n \n", sizes=(1, 1)) == ""
