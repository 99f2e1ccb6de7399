"""Makes styled lines of Markdown: sixteen colours, no background, no word of the model's hidden.

What a model writes is untrusted. Everything is escaped once more after parsing, because entities
and percent signs in it become characters there. A link shows where it leads, a picture where it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Literal

import attrs
from markdown_it import MarkdownIt
from markdown_it.token import Token
from rich import box
from rich.cells import cell_len
from rich.color import ColorSystem
from rich.console import Console as RichConsole
from rich.segment import Segment
from rich.style import Style
from rich.syntax import ANSISyntaxTheme, Syntax
from rich.table import Table
from rich.text import Text

from pluggent_host.cli.output import harmless

DIM = Style(dim=True)
_BOLD = Style(bold=True)
_CODE = Style(color="cyan")
_HEADINGS = {"h1": Style(bold=True, underline=True), "h2": _BOLD}
_LOWER_HEADING = Style(bold=True, italic=True)
_INLINE = {"strong_open": _BOLD, "em_open": Style(italic=True), "s_open": Style(strike=True)}
_LINK = Style(underline=True)
_BULLET, _QUOTE = "• ", "│ "
_NARROWEST, _NARROWEST_COLUMN = 10, 8
LONGEST_BLOCK = 20_000
"""What is longer is shown plainly: parsers take long over what was made to take long."""
_LONGEST_LINE = 2_000
"""The same for a line of code."""
_MAY_BEGIN = re.compile(
    r"\*(?=\S|$) | (?<![^\W_])_(?=\S|$) | ~~ | ` | \[(?![^\]]*\][^(]) | <(?=[A-Za-z/!?]|$) | &[#\w]*$ | [\\!]$ | \|",
    re.VERBOSE,
)
"""What the parser has taken for text by now and may take for more when more has come."""
_DEEPEST = 18
"""The parser drops what is nested deeper than 20; that is shown plainly too."""


def paragraph(source: str) -> tuple[Text, int] | None:
    """Return the words of *source* and how many characters of them are no markup for certain; None if it is more."""
    nodes = _nodes(_PARSER.parse(source))
    if len(nodes) != 1 or nodes[0].kind != "paragraph_open":
        return None
    text = Text()
    sure = _append_words(text, nodes[0].inside[0].token.children or ())
    return text, sure


def markdown(source: str, columns: int, number: int | None) -> list[Text]:
    """Return the lines of *source*; *number* is that of its first item, where it is known better."""
    tokens = _PARSER.parse(source) if len(source) <= LONGEST_BLOCK else []
    nodes = _nodes(tokens)
    if not nodes or max(token.level for token in tokens) >= _DEEPEST:
        return wrapped(Text(harmless(source.strip("\n"))), columns)
    return _blocks(nodes, columns, number)


# ---- blocks -----------------------------------------------------------------------------


@attrs.frozen
class _Node:
    """A token with what is inside it."""

    token: Token
    inside: list[_Node] = attrs.field(factory=list["_Node"])

    @property
    def kind(self) -> str:
        return self.token.type


def _nodes(tokens: Sequence[Token]) -> list[_Node]:
    top: list[_Node] = []
    open_nodes = [top]
    for token in tokens:
        if token.nesting < 0:
            open_nodes.pop()
            continue
        node = _Node(token)
        open_nodes[-1].append(node)
        if token.nesting > 0:
            open_nodes.append(node.inside)
    return top


def _blocks(nodes: Sequence[_Node], columns: int, number: int | None = None) -> list[Text]:
    """Return the lines of *nodes*; *number* is that of the first item, where it is known better."""
    lines: list[Text] = []
    for node in nodes:
        tight = node.token.hidden or node.kind in ("bullet_list_open", "ordered_list_open")
        if lines and not (tight and node is not nodes[0]):
            lines.append(Text())
        lines += _block(node, max(columns, _NARROWEST), number)
    return lines


def _block(node: _Node, columns: int, number: int | None) -> list[Text]:
    token = node.token
    match node.kind:
        case "heading_open":
            return wrapped(_inline(node, _HEADINGS.get(token.tag, _LOWER_HEADING)), columns)
        case "paragraph_open":
            return wrapped(_inline(node), columns)
        case "fence":
            info = token.info.strip()
            fences = Text(f"```{harmless(info)}", DIM), Text("```", DIM)
            return [fences[0], *code(_content(token).split("\n"), info), fences[1]]
        case "code_block":
            return code(_content(token).split("\n"), "")
        case "bullet_list_open":
            return [line for item in node.inside for line in _prefixed(_BULLET, _blocks(item.inside, columns - 2))]
        case "ordered_list_open":
            first = int(token.attrs.get("start", 1)) if number is None else number
            return [line for at, item in enumerate(node.inside, first) for line in _numbered(at, item, columns)]
        case "blockquote_open":
            quoted = _blocks(node.inside, columns - len(_QUOTE))
            return [Text.assemble((_QUOTE, DIM), line) for line in quoted]
        case "table_open":
            return _table(node, columns)
        case "hr":
            return [Text("─" * columns, DIM)]
        case _:
            return wrapped(Text(_content(token)), columns)


def _content(token: Token) -> str:
    return harmless(token.content).rstrip("\n")


def _numbered(number: int, item: _Node, columns: int) -> list[Text]:
    mark = f"{number}. "
    return _prefixed(mark, _blocks(item.inside, columns - len(mark)))


def _prefixed(mark: str, lines: list[Text]) -> list[Text]:
    indent = " " * len(mark)
    return [Text.assemble(indent if at else mark, line) for at, line in enumerate(lines or [Text()])]


def wrapped(text: Text, columns: int) -> list[Text]:
    """Return *text* in lines of *columns* at most."""
    lines = list(text.wrap(_RICH, columns, overflow="fold"))
    for line in lines:
        line.rstrip()
    return lines


def code(lines: Sequence[str], info: str) -> list[Text]:
    """Return *lines* highlighted and not broken, so that they can be copied."""
    plain = [Text(harmless(line)) for line in lines]
    if not info or any(len(line) > _LONGEST_LINE for line in lines) or sum(map(len, lines)) > LONGEST_BLOCK:
        return plain
    source = "\n".join(line.plain for line in plain)
    language = info.split(maxsplit=1)[0].strip("{}.").lower()
    syntax = Syntax(source, language, theme=_THEME, tab_size=0)
    painted = list(syntax.highlight(source).split("\n", allow_blank=True))[: len(plain)]
    return painted if [line.plain for line in painted] == [line.plain for line in plain] else plain


# ---- tables -----------------------------------------------------------------------------


def _table(node: _Node, columns: int) -> list[Text]:
    rows = [[_inline(cell) for cell in row.inside] for part in node.inside for row in part.inside]
    aligns = [
        str(cell.token.attrs.get("style", "")).removeprefix("text-align:") for cell in node.inside[0].inside[0].inside
    ]
    head, body = rows[0], rows[1:]
    widths = [max(cell_len(row[at].plain) for row in rows) for at in range(len(head))]
    least = sum(min(width, _NARROWEST_COLUMN) for width in widths) + 2 * (len(widths) - 1)
    if least > columns:
        return _stacked(head, body, columns)
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style=_BOLD, border_style=DIM)
    for text, align, width in zip(head, aligns, widths, strict=True):
        justify: Literal["left", "center", "right"] = "center" if align == "center" else "left"
        if align == "right":
            justify = "right"
        table.add_column(text, justify=justify, overflow="fold", min_width=min(width, _NARROWEST_COLUMN))
    for row in body:
        table.add_row(*row)
    drawn = _RICH.render_lines(table, _RICH.options.update(width=columns), pad=False)
    return [_from_segments(line) for line in drawn]


def _stacked(head: Sequence[Text], body: Sequence[Sequence[Text]], columns: int) -> list[Text]:
    """Return a table that is too wide as one paragraph a row."""
    lines: list[Text] = []
    for row in body or [head]:
        lines += [Text()] if lines else []
        for name, cell in zip(head, row, strict=True):
            lines += wrapped(Text.assemble((f"{name.plain}: ", _BOLD), cell), columns)
    return lines


def _from_segments(segments: Iterable[Segment]) -> Text:
    line = Text.assemble(*((segment.text, segment.style or "") for segment in segments))
    line.rstrip()
    return line


# ---- words ------------------------------------------------------------------------------


def _inline(node: _Node, style: Style | None = None) -> Text:
    text = Text()
    for inner in node.inside:
        _append_words(text, inner.token.children or ())
    if style is not None:
        text.stylize_before(style)
    return text


def _append_words(text: Text, tokens: Iterable[Token]) -> int:
    """Append what *tokens* say; return how many characters come before the first that may yet begin some markup."""
    sure: int | None = None
    styles = [Style()]
    links: list[tuple[str, int]] = []
    for token in tokens:
        match token.type:
            case "strong_open" | "em_open" | "s_open":
                styles.append(styles[-1] + _INLINE[token.type])
            case "strong_close" | "em_close" | "s_close":
                styles.pop()
            case "link_open":
                links.append((harmless(str(token.attrs.get("href", ""))), len(text)))
                styles.append(styles[-1] + _LINK)
            case "link_close":
                styles.pop()
                _append_target(text, *links.pop())
            case "image":
                text.append(f"[image: {harmless(token.content)}]", styles[-1])
                _append_target(text, harmless(str(token.attrs.get("src", ""))), len(text))
            case "softbreak" | "hardbreak":
                text.append("\n")
            case "code_inline":
                text.append(harmless(token.content), styles[-1] + _CODE)
            case _:
                words = harmless(token.content)
                if sure is None and (found := _MAY_BEGIN.search(words)) is not None:
                    sure = len(text) + found.start()
                text.append(words, styles[-1])
    return len(text) if sure is None else sure


def _append_target(text: Text, target: str, start: int) -> None:
    """Say where a link leads, unless its words do."""
    if text.plain[start:] not in (target, target.removeprefix("mailto:")):
        text.append(f" ({target})", DIM)


# ---- the library ------------------------------------------------------------------------


def ansi(line: Text) -> str:
    """Return *line* with escape sequences for its styles."""
    pieces = line.render(_RICH)
    return "".join(
        piece.style.render(piece.text, color_system=ColorSystem.STANDARD) if piece.style else piece.text
        for piece in pieces
    )


_RICH = RichConsole(width=80, force_terminal=True, color_system="standard", markup=False, highlight=False, emoji=False)
_PARSER = MarkdownIt("commonmark").enable(["table", "strikethrough"])
_THEME = ANSISyntaxTheme(
    {
        ("Comment",): Style(dim=True),
        ("Keyword",): Style(color="magenta"),
        ("Operator", "Word"): Style(color="magenta"),
        ("Literal", "String"): Style(color="green"),
        ("Literal", "Number"): Style(color="cyan"),
        ("Name", "Builtin"): Style(color="cyan"),
        ("Name", "Function"): _BOLD,
        ("Name", "Class"): _BOLD,
        ("Name", "Tag"): Style(color="magenta"),
        ("Name", "Decorator"): Style(color="cyan"),
        ("Generic", "Deleted"): Style(color="red"),
        ("Generic", "Inserted"): Style(color="green"),
        ("Generic", "Heading"): _BOLD,
        ("Generic", "Subheading"): Style(color="cyan"),
        ("Generic", "Prompt"): _BOLD,
    }
)
"""Colours that can be read on a light and on a dark ground; most of the code keeps the colour of the text."""
