"""What a model writes, on a terminal: block by block as it comes, readable at any width, and without control of it."""

import re
from collections import Counter

from each_of import each_of
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
SHOWN = """\
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


def printed(*texts: str, columns: int = 60) -> list[str]:
    """Return what is written after each of *texts*, and at the end."""
    answer = Markdown()
    answer.resize(columns + 1)
    return [*map(answer.add, texts), answer.end()]


def painted(source: str, columns: int = 60, sizes: list[int] | tuple[int, ...] = ()) -> str:
    """Return all that is written for *source*, if it comes in parts of these sizes and the rest at once."""
    parts, at = list[str](), 0
    for size in sizes:
        parts.append(source[at : at + size])
        at += size
    return "".join(printed(*parts, source[at:], columns=columns))


def seen(source: str, columns: int = 60, sizes: list[int] | tuple[int, ...] = ()) -> str:
    """Return what a person reads."""
    return STYLES.sub("", painted(source, columns, sizes))


def unfinished(source: str, rows: int) -> list[str]:
    """Return what is shown of what is not printed yet."""
    answer = Markdown()
    answer.resize(41)
    answer.add(source)
    return [STYLES.sub("", line) for line, _ in answer.unfinished(rows)]


# ---- safety -----------------------------------------------------------------------------


@settings(max_examples=150, deadline=None)
@given(st.lists(st.sampled_from([
    "\x1b[2J", "\x1b]8;;http://evil\x07", "\x9b2J", "\r", "\x08", "\u202e", "&#27;[2J", "&#x9b;2J", "&#x202e;",
    "%1b[2J", "<http://a.b/%1b%5b2J>", "[x](http://a.b/%1b[2J)", "![x](http://a.b/%9b)", "`", "```\n", "\n", "- ",
    "|a|\n|-|\n", "*", "text ", "\\", "\x00", "\ud800", "> ", "<b>",
])).map("".join))  # fmt: skip
def test_nothing_but_styles_steers_the_terminal(source):
    written = seen(source)

    assert not [character for character in written if ord(character) < 32 and character != "\n"]
    assert not re.search("[\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]", written)


@each_of(
    ("source", "says"),
    [
        ("[the bank](https://evil.example)", "the bank (https://evil.example)"),
        ("[https://bank.example](https://evil.example)", "https://bank.example (https://evil.example)"),
        ("[https://same.example](https://same.example)", "https://same.example"),
        ("<https://same.example>", "https://same.example"),
        ("<a@b.example>", "a@b.example"),
        ("![a cat](https://e.example/c.png)", "[image: a cat] (https://e.example/c.png)"),
        ("[![a](http://p.example)](http://q.example)", "[image: a] (http://p.example) (http://q.example)"),
        ("[b\u0430nk](https://b\u0430nk.example)", "b\u0430nk (https://xn--bnk-6cd.example)"),
        *((same, same) for same in (
            "[x](javascript:alert(1))", "[a]: http://e.example", "<b onclick='x'>bold</b>", "<div>\nhidden?\n</div>",
            "<!-- a comment -->", "roses are red\nviolets are blue",
        )),
    ],
)  # fmt: skip
def test_a_link_and_a_picture_show_where_they_lead_and_html_is_shown_as_it_is(source, says):
    assert seen(source, 100) == f"{says}\n"


@each_of("source", ["> " * 40 + "deep", ">" * 3000 + "deep", "- a\n" + "  " * 30 + "- deep", "[" * 3000 + "deep"])
def test_what_is_nested_too_deeply_is_shown_all_the_same(source):
    assert "deep" in seen(source)


# ---- looks ------------------------------------------------------------------------------


def test_a_text_with_everything_in_it_in_colours_that_are_read_on_white_and_on_black():
    codes = {code for found in STYLES.findall(painted(TEXT)) for code in found.split(";")}

    assert seen(TEXT, 39) == SHOWN
    assert {"1", "32", "35", "36"} <= codes <= READABLE


@each_of("columns", [20, 39, 60, 199])
def test_no_line_is_too_wide_but_lines_of_code(columns):
    lines = seen(TEXT, columns).splitlines()

    code = {"def f(x):  # says something", '    return "text", 1'}
    assert [line for line in lines if cell_len(line) > columns and line not in code] == []
    assert code <= set(lines)
    assert max(map(len, seen("word " * 200, 300).splitlines())) <= 120, "text is not stretched"


def test_the_columns_of_a_table_stand_below_each_other_whatever_is_in_them():
    head, _, *rows = seen("|a|b|\n|-|-|\n|漢字|x|\n|👍|x|\n|plain|x|\n|é|x|").splitlines()

    assert {cell_len(row[: row.index("x")]) for row in rows} == {cell_len(head[: head.index("b")])}


def test_a_table_that_is_too_wide_becomes_a_paragraph_a_row():
    cells, heads = ("|".join(f"{word}{n}" for n in range(6)) for word in ("cell number ", "h"))

    shown = seen(f"|{heads}|\n|{'-|' * 6}\n|{cells}|\n", 30)

    assert shown.splitlines()[:2] == ["h0: cell number 0", "h1: cell number 1"]


def test_code_is_never_changed():
    code = "\tif x:\n\n\n  y = '\\\\'  \n" + "z" * 300

    for language in ("python", "no-such-language"):
        assert seen(f"```{language}\n{code}\n```") == f"```{language}\n{code}\n```\n"
    written = painted('```python\n"""first\nsecond\nthird"""\n```\n', sizes=(5,) * 20)
    assert [line for line in written.splitlines() if "second" in line] == ["\x1b[32msecond\x1b[0m"]


# ---- block by block ---------------------------------------------------------------------


PHRASES = [
    "# head\n", "para\n", "\n", "- a\n", "- b\n", "  c\n", "    d\n", "1. x\n", "2) y\n", "```py\n", "```\n", "~~~~\n",
    "> q\n", "|a|b|\n", "|-|-|\n", "---\n", "===\n", "[a]: http://x\n", "<div>\n", "   ", "* z\n", "**b** ", "`c`",
    "+ p\n\n", "10. t\n", "\t", "last",
]  # fmt: skip
NESTED = ["    - n\n", "      > o\n", "          ```\n", "      long-words-" * 5]
WORDS = [
    "word ", "a-long-word ", "**bold** ", "*", "_", "`code x` ", "[l](http://u.v) ", "[1] ", "&amp; ", "a&b ",
    "<b> ", "\n", "x\\", "! ", "漢字 ", "| ", "**", "~~", "\n\n", "- i\n", "text, more text ",
    "  ", "(", "]", "```\n", "> ", "1. ",
]  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(st.lists(st.sampled_from(PHRASES), max_size=12).map("".join), st.lists(st.integers(1, 6), max_size=60))
def test_blocks_are_the_same_however_the_text_comes(source, sizes):
    assert seen(source, sizes=sizes) == seen(source)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.sampled_from([*PHRASES, *NESTED]), max_size=15).map("".join), st.sampled_from([20, 27, 60]))
def test_every_word_is_printed_however_narrow_the_terminal_is(source, columns):
    assert Counter(re.findall(r"[a-z]", source)) - Counter(seen(source, columns)) == Counter()


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.sampled_from(WORDS), min_size=5, max_size=60).map("".join),
    st.lists(st.integers(1, 9), max_size=80),
    st.sampled_from([20, 30, 60]),
)
def test_what_is_printed_early_is_what_is_printed_in_the_end(source, sizes, columns):
    assert seen(source, columns, sizes).split() == seen(source, columns).split()


@each_of(
    ("texts", "blocks"),
    [
        (["One\ntwo\n", "\n"], ["", "One\ntwo\n", ""]),  # a paragraph ends with an empty line
        (["# Title", "\n"], ["", "Title\n", ""]),  # a heading with its line
        (["One\n#", "tag"], ["", "", "One\n#tag\n"]),  # the beginning of a line completes nothing
        (["3. a\n", "3. b\n\n", "end\n"], ["", "", " 3 a\n 4 b\n", "\nend\n"]),  # a list with the next block
        (["- a\n- b\n* c\n"], [" • a\n • b\n", "\n • c\n"]),  # other marks are another list
        (["```py\na = 1\nb =", " 2\n```\n", "end"], ["", "", "", "```py\na = 1\nb = 2\n```\n\nend\n"]),
        (["```\na\n```\n", "\n"], ["", "```\na\n```\n", ""]),
        *(([f"```\na\n{mark}\n```\n"], ["", f"```\na\n{mark}\n```\n"]) for mark in ("``", "~~~", "``` py", "    ```")),
        (["```\na\nb"], ["", "```\na\nb\n```\n"]),  # code that is never closed
        (["[a]: http://x\n\ntext\n"], ["[a]: http://x\n", "\ntext\n"]),
        (["one\r", "\n", "\r", "\ntwo\r\n"], ["", "", "", "one\n", "\ntwo\n"]),  # line breaks of other systems
        (["a\r", "b"], ["", "", "a\\rb\n"]),
        ([""], ["", ""]),
        (["\n", " ", "\n"], ["", "", "", ""]),
    ],
)
def test_a_block_is_printed_when_it_is_complete(texts, blocks):
    assert [STYLES.sub("", text) for text in printed(*texts)] == blocks


def test_an_indented_fence_takes_its_indentation_off_its_lines():
    assert seen("  ```\n  a\n    b\n c\n  ```\n", sizes=[2] * 20) == "```\na\n  b\nc\n```\n"


def test_an_unfinished_block_is_shown_until_it_is_printed():
    answer = Markdown()
    answer.resize(41)

    assert answer.add("done\n\na *mark " + "word " * 30) == "done\n"
    assert len(answer.unfinished(10)) == 5
    assert answer.add("that closes*\n\n").startswith("\na \x1b[3mmark word")
    assert answer.unfinished(10) == []


def test_no_more_is_shown_of_what_is_unfinished_than_fits():
    rows = unfinished("|a|b|\n|-|-|\n" + "".join(f"|{n}|x|\n" for n in range(100)), 5)

    assert [row.split()[0] for row in rows] == ["95", "96", "97", "98", "99"]
    assert len(unfinished("*" + "word " * 2_000, 5)) == 5
