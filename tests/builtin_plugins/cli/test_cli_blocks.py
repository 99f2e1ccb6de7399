"""Markdown that is still being written: a block is printed when it is complete, and no word gets lost."""

import re
from collections import Counter

import pytest
from hypothesis import given, settings, strategies as st
from pluggent_cli.terminal.markdown import Markdown

STYLES = re.compile(r"\x1b\[[0-9;]*m")
PHRASES = [
    "# head\n", "para\n", "\n", "- a\n", "- b\n", "  c\n", "    d\n", "1. x\n", "2) y\n", "```py\n", "```\n", "~~~~\n",
    "> q\n", "|a|b|\n", "|-|-|\n", "---\n", "===\n", "[a]: http://x\n", "<div>\n", "   ", "* z\n", "**b** ", "`c`",
    "+ p\n\n", "10. t\n", "\t", "last",
]  # fmt: skip
NESTED = ["    - n\n", "      > o\n", "          ```\n", "      long-words-" * 5]


def printed(*texts: str, columns: int = 60) -> list[str]:
    """Return what is printed after each of *texts*, and at the end."""
    answer = Markdown()
    answer.resize(columns + 1)
    return [STYLES.sub("", answer.add(text)) for text in texts] + [STYLES.sub("", answer.end())]


def in_pieces(source: str, sizes: list[int]) -> str:
    """Return all that is printed when *source* comes in parts of these sizes, and the rest at once."""
    parts, at = list[str](), 0
    for size in sizes:
        parts.append(source[at : at + size])
        at += size
    return "".join(printed(*parts, source[at:]))


@settings(max_examples=400, deadline=None)
@given(st.lists(st.sampled_from(PHRASES), max_size=12).map("".join), st.lists(st.integers(1, 6), max_size=60))
def test_blocks_are_the_same_however_the_text_comes(source, sizes):
    assert in_pieces(source, sizes) == in_pieces(source, [])


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.sampled_from([*PHRASES, *NESTED]), max_size=15),
    st.sampled_from([20, 27, 60]),
)
def test_every_word_is_printed_however_narrow_the_terminal_is(phrases, columns):
    source = "".join(phrases)

    shown = "".join(printed(source, columns=columns))

    assert Counter(re.findall(r"[a-z]", source)) - Counter(shown) == Counter()


def test_a_paragraph_is_complete_when_an_empty_line_has_come():
    assert printed("One\ntwo\n", "\n") == ["", "One\ntwo\n", ""]


def test_a_heading_is_complete_at_the_end_of_its_line():
    assert printed("# Title", "\n") == ["", "Title\n", ""]


def test_the_beginning_of_a_line_completes_nothing():
    # "#" begins a heading, "#tag" continues the paragraph.
    assert printed("One\n#", "tag") == ["", "", "One\n#tag\n"]


def test_a_list_is_complete_when_another_block_has_begun_and_keeps_its_numbers():
    assert printed("3. a\n", "3. b\n\n", "end\n") == ["", "", " 3 a\n 4 b\n", "\nend\n"]


def test_a_list_of_other_marks_is_another_list():
    assert printed("- a\n- b\n* c\n") == [" • a\n • b\n", "\n • c\n"]


def test_code_is_complete_when_a_line_follows_its_fence():
    assert printed("```py\na = 1\nb =", " 2\n```\n", "end") == ["", "", "", "```py\na = 1\nb = 2\n```\n\nend\n"]
    assert printed("```\na\n```\n", "\n") == ["", "```\na\n```\n", ""]


@pytest.mark.parametrize("closing", ["``", "~~~", "``` py", "    ```"])
def test_a_fence_is_closed_by_its_like_alone(closing):
    assert printed(f"```\na\n{closing}\n```\n") == ["", f"```\na\n{closing}\n```\n"]


def test_code_that_is_never_closed_ends_with_the_text():
    assert printed("```\na\nb") == ["", "```\na\nb\n```\n"]


def test_an_indented_fence_takes_its_indentation_off_its_lines():
    assert in_pieces("  ```\n  a\n    b\n c\n  ```\n", [2] * 20) == "```\na\n  b\nc\n```\n"


def test_where_links_lead_is_not_hidden():
    assert printed("[a]: http://x\n\ntext\n") == ["[a]: http://x\n", "\ntext\n"]


def test_an_unfinished_block_is_shown_until_it_is_printed():
    answer = Markdown()
    answer.resize(41)

    assert answer.add("done\n\na *mark " + "word " * 30) == "done\n"
    assert len(answer.unfinished(10)) == 5
    assert answer.add("that closes*\n\n").startswith("\na \x1b[3mmark word")
    assert answer.unfinished(10) == []
