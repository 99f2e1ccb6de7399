"""Markdown that is still being written: what is complete stays as it is, and nothing gets lost."""

import pytest
from hypothesis import given, settings, strategies as st
from pluggent_host.cli.blocks import Code, CodeBegins, CodeEnds, Item, Piece, Prose, Rest

PHRASES = [
    "# head\n", "para\n", "\n", "- a\n", "- b\n", "  c\n", "    d\n", "1. x\n", "2) y\n", "```py\n", "```\n", "~~~~\n",
    "> q\n", "|a|b|\n", "|-|-|\n", "---\n", "===\n", "[a]: http://x\n", "<div>\n", "   ", "* z\n", "**b** ", "`c`",
    "+ p\n\n", "10. t\n", "\t", "last",
]  # fmt: skip


def in_pieces(source: str, sizes: list[int]) -> list[Piece]:
    """Return the pieces of *source* when it comes in parts of these sizes, and the rest at once."""
    rest, found, at = Rest(), list[Piece](), 0
    for size in sizes:
        rest = rest.add(source[at : at + size])
        at += size
        pieces, rest = rest.divide()
        found += pieces
    return [*found, *rest.add(source[at:]).end()]


def summed(pieces: list[Piece]) -> list[tuple[object, ...] | str]:
    """Return *pieces* with each fenced block as one, and without the empty lines behind a block."""
    found = list[tuple[object, ...] | str]()
    for piece in pieces:
        match piece:
            case CodeBegins(info):
                found.append((info,))
            case Code(lines):
                found[-1] = (*found[-1], *lines)
            case CodeEnds():
                pass
            case Prose(source):
                found.append(source.strip("\n"))
            case Item(source, number, first):
                found.append((source.rstrip("\n"), number, first))
    return found


def words(source: str) -> str:
    """Return what is no white space."""
    return "".join(source.split())


@settings(max_examples=400, deadline=None)
@given(st.lists(st.sampled_from(PHRASES), max_size=12).map("".join), st.lists(st.integers(1, 6), max_size=60))
def test_blocks_are_the_same_however_the_text_comes(source, sizes):
    assert summed(in_pieces(source, sizes)) == summed(in_pieces(source, []))


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from(PHRASES), max_size=12).map("".join))
def test_every_word_is_in_one_piece_but_the_marks_of_fences(source):
    pieces = in_pieces(source, [])
    said = "".join(
        "\n".join(piece.lines) if isinstance(piece, Code) else getattr(piece, "source", "") for piece in pieces
    )

    for mark in ("```py", "```", "~~~~"):
        source = source.replace(mark, "")
        said = said.replace(mark, "")
    assert words(said) == words(source)


def test_a_paragraph_is_complete_when_an_empty_line_has_come():
    assert Rest("One\ntwo\n").divide() == ((), Rest("One\ntwo\n"))
    assert Rest("One\ntwo\n\n").divide()[0] == (Prose("One\ntwo"),)


def test_a_heading_is_complete_at_the_end_of_its_line():
    assert Rest("# Title").divide()[0] == ()
    assert Rest("# Title\n").divide()[0] == (Prose("# Title"),)


def test_the_beginning_of_a_line_completes_nothing():
    # "#" begins a heading, "#tag" goes on with the paragraph.
    assert Rest("One\n#").divide()[0] == ()


def test_items_are_complete_one_after_the_other_and_keep_their_numbers():
    pieces, rest = Rest("1. a\n1. b\n1. c\n").divide()

    assert pieces == (Item("1. a", 1, first=True), Item("1. b", 2, first=False))
    assert rest.add("1. d\n").end() == (Item("1. c", 3, first=False), Item("1. d", 4, first=False))


def test_a_list_of_other_marks_is_another_list():
    assert summed(in_pieces("- a\n- b\n* c\n", [])) == [("- a", None, True), ("- b", None, False), ("* c", None, True)]


def test_lines_of_code_are_complete_line_by_line():
    pieces, rest = Rest("```py\na = 1\nb =").divide()

    assert pieces == (CodeBegins("py"), Code(("a = 1",)))
    assert rest.add(" 2\n```\nend").end() == (Code(("b = 2",)), CodeEnds(), Prose("end"))


@pytest.mark.parametrize("closing", ["``", "~~~", "``` py", "    ```"])
def test_a_fence_is_closed_by_its_like_alone(closing):
    assert summed(in_pieces(f"```\na\n{closing}\n```\n", [])) == [("", "a", closing)]


def test_code_that_is_never_closed_ends_with_the_text():
    assert in_pieces("```\na\nb", []) == [CodeBegins(""), Code(("a", "b")), CodeEnds()]


def test_an_indented_fence_takes_its_indentation_off_its_lines():
    assert summed(in_pieces("  ```\n  a\n    b\n c\n  ```\n", [2] * 20)) == [("", "a", "  b", "c")]


def test_where_links_lead_is_not_hidden():
    assert in_pieces("[a]: http://x\n\ntext\n", []) == [Prose("[a]: http://x"), Prose("text")]
