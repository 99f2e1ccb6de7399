"""Draws the Markdown of an answer with rich: a block when it is complete, the end of the last one as a preview.

The words of a model are untrusted. Control characters are escaped before parsing and once more after
it, because entities and percent signs become characters there. HTML is text; links and images show
their target. A block that is long or deeply nested is drawn as plain text, never left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import ClassVar

from markdown_it import MarkdownIt
from markdown_it.token import Token
from rich import box, markdown as rich_markdown
from rich.cells import cell_len
from rich.color import ColorSystem
from rich.console import Console as RichConsole, ConsoleOptions, RenderResult
from rich.style import Style
from rich.syntax import ANSISyntaxTheme, Syntax
from rich.table import Table
from rich.text import Text
from rich.theme import Theme

from pluggent_cli.terminal.console import Line, cells, escape_controls

_LEAST_COLUMNS, _MOST_COLUMNS = 20, 120
_PREVIEWED = 4_000
"""A longer unfinished block is previewed as plain text, because that happens several times a second."""
_LONGEST_BLOCK, _LONGEST_LINE = 20_000, 2_000
"""Characters of a block, and of a line of code, that are parsed and highlighted."""
_DEEPEST = 18
"""The parser drops what is nested deeper than 20."""
_INDENT = 4
"""Columns that one level of a list or a quotation takes at most."""
_LEAST_CELL = 8
_DIM, _BOLD = Style(dim=True), Style(bold=True)


class Markdown:
    """Takes text in pieces of any size; returns every line once, with its line break."""

    def __init__(self) -> None:
        self._columns = 80
        self._source = ""
        """The blocks that are not complete yet, escaped."""
        self._half = ""
        self._begun = False

    def resize(self, columns: int) -> None:
        """Draw for a terminal that is *columns* wide from here on."""
        self._columns = max(columns - 1, _LEAST_COLUMNS)

    def add(self, text: str) -> str:
        """Take *text*; return the lines of the blocks that are complete now."""
        text = self._half + text
        self._half = "\r" if text.endswith("\r") else ""  # half of a line break, perhaps
        self._source += escape_controls(text.removesuffix("\r").replace("\r\n", "\n"))
        blocks, self._source = _split(self._source)
        return "".join(f"{_ansi(line)}\n" for line in self._lines(blocks))

    def end(self) -> str:
        """Return the lines of everything that is left."""
        blocks, rest = _split(self._source + escape_controls(self._half) + "\n")
        self._source = self._half = ""
        return "".join(f"{_ansi(line)}\n" for line in self._lines([*blocks, rest]))

    def unfinished(self, rows: int) -> Sequence[Line]:
        """Return the last *rows* lines, at most, of the block that is not complete."""
        if len(self._source) > _PREVIEWED:
            columns = self._columns
            return [(line, cells(line)) for line in _chopped(self._source[-rows * columns :], columns)][-rows:]
        begun = self._begun
        blocks, rest = _split(self._source + "\n")
        lines = list(self._lines([*blocks, rest]))[-rows:]
        self._begun = begun
        for line in lines:
            line.expand_tabs(4)
        return [(_ansi(line), cell_len(line.plain)) for line in lines]

    def _lines(self, blocks: Iterable[str]) -> Iterator[Text]:
        """Yield the lines of *blocks*, with an empty line between two."""
        for block in blocks:
            if block.strip():
                if self._begun:
                    yield Text()
                self._begun = True
                yield from _draw(block, self._columns)


def _chopped(text: str, columns: int) -> list[str]:
    return [line[at : at + columns] for line in text.split("\n") for at in range(0, max(len(line), 1), columns)]


# ---- blocks -----------------------------------------------------------------------------


def _split(source: str) -> tuple[list[str], str]:
    """Return the blocks that nothing which follows can change, and the rest of *source*."""
    end = source.rfind("\n") + 1  # the beginning of a line may become anything
    lines = [f"{line}\n" for line in source[:end].split("\n")[:-1]]
    tokens = [token for token in _BLOCKS.parse(source[:end]) if not token.level and token.nesting >= 0 and token.map]
    starts = [token.map[0] for token in tokens if token.map]
    if not tokens or _is_complete(tokens[-1], len(lines)):
        starts.append(len(lines))
    blocks = ["".join(lines[start:stop]) for start, stop in pairwise(starts)]
    return blocks, "".join(lines[starts[-1] :]) + source[end:]


def _is_complete(last: Token, count: int) -> bool:
    """Tell whether *last*, the last block of *count* lines, stays as it is."""
    if last.type in ("heading_open", "hr"):
        return True
    goes_on = last.type in ("bullet_list_open", "ordered_list_open", "code_block")
    return not goes_on and last.map is not None and last.map[1] < count


def _draw(source: str, columns: int) -> list[Text]:
    """Return the lines of one block."""
    tokens = _PARSER.parse(source) if len(source) <= _LONGEST_BLOCK else []
    level = max((token.level for token in tokens), default=_DEEPEST)
    narrow = min(columns, _MOST_COLUMNS)
    if level >= _DEEPEST or (level > 1 and narrow - level * _INDENT < _LEAST_CELL):
        return _wrap(Text(escape_controls(source.strip("\n"))), narrow)
    if tokens[0].type in ("fence", "code_block"):
        return _code(tokens[0].content, tokens[0].info, fenced=tokens[0].type == "fence")
    drawn = _RICH.render_lines(_Document(tokens), _RICH.options.update(width=narrow), pad=False)
    lines = [Text.assemble(*((part.text, part.style or "") for part in line)) for line in drawn]
    for line in lines:
        line.rstrip()
    said = [at for at, line in enumerate(lines) if line.plain]
    return lines[said[0] : said[-1] + 1] if said else []


def _wrap(text: Text, columns: int) -> list[Text]:
    lines = list(text.wrap(_RICH, columns, overflow="fold"))
    for line in lines:
        line.rstrip()
    return lines


def _code(content: str, info: str, *, fenced: bool) -> list[Text]:
    """Return the lines of code as they are, highlighted; they are not broken, so that they can be copied."""
    info = escape_controls(info.strip())
    lines = _highlighted(escape_controls(content).removesuffix("\n"), info)
    return [Text(f"```{info}", _DIM), *lines, Text("```", _DIM)] if fenced else lines


def _highlighted(source: str, info: str) -> list[Text]:
    plain = [Text(line) for line in source.split("\n")]
    if not info or max(map(len, plain)) > _LONGEST_LINE:
        return plain
    language = info.split(maxsplit=1)[0].strip("{}.").lower()
    text = Syntax(source, language, theme=_CODE_THEME, tab_size=0).highlight(source)
    lines = list(text.split("\n", allow_blank=True))[: len(plain)]
    return lines if [line.plain for line in lines] == [line.plain for line in plain] else plain


# ---- what rich draws otherwise ----------------------------------------------------------


class _Heading(rich_markdown.Heading):
    """On the left, at every level."""

    def __rich_console__(self, console: RichConsole, options: ConsoleOptions) -> RenderResult:
        yield self.text


class _Code(rich_markdown.CodeBlock):
    """Code in a list or a quotation: no background, no line cut off."""

    @classmethod
    def create(cls, markdown: rich_markdown.Markdown, token: Token) -> _Code:  # noqa: ARG003 (as rich calls it)
        return cls(token.info, "")

    def __rich_console__(self, console: RichConsole, options: ConsoleOptions) -> RenderResult:
        for line in _code(self.text.plain, self.lexer_name, fenced=True):
            line.overflow = "fold"
            yield line


class _Table(rich_markdown.TableElement):
    """No cell cut off; a paragraph for each row where the columns are too narrow."""

    def __rich_console__(self, console: RichConsole, options: ConsoleOptions) -> RenderResult:
        assert self.header is not None
        assert self.header.row is not None
        heads = [cell.content for cell in self.header.row.cells]
        rows = [[cell.content for cell in row.cells] for row in (self.body.rows if self.body is not None else ())]
        columns = zip(heads, *rows, strict=True)
        least = [min(_LEAST_CELL, max(cell_len(cell.plain) for cell in column)) for column in columns]
        if sum(least) + 2 * (len(heads) - 1) > options.max_width:
            yield from _stacked(heads, rows)
            return
        table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style=_BOLD, border_style=_DIM)
        for head, width in zip(heads, least, strict=True):
            table.add_column(head, justify=head.justify or "left", overflow="fold", min_width=width)
        for row in rows:
            table.add_row(*row)
        yield table


def _stacked(heads: Sequence[Text], rows: Sequence[Sequence[Text]]) -> Iterator[Text]:
    for number, row in enumerate(rows or [heads]):
        if number:
            yield Text()
        for head, cell in zip(heads, row, strict=True):
            yield Text.assemble((f"{head.plain}: ", _BOLD), cell, overflow="fold")


class _Document(rich_markdown.Markdown):
    elements: ClassVar = {
        **rich_markdown.Markdown.elements,
        "heading_open": _Heading,
        "fence": _Code,
        "code_block": _Code,
        "table_open": _Table,
    }
    inlines = rich_markdown.Markdown.inlines | {"a", "small"}

    def __init__(self, tokens: Iterable[Token]) -> None:
        super().__init__("")
        self.parsed = [_escaped(token) for token in tokens]


def _escaped(token: Token) -> Token:
    token.content = escape_controls(token.content)
    if token.children is not None:
        token.children = list(_words(token.children))
    return token


def _words(tokens: Iterable[Token]) -> Iterator[Token]:
    """Yield the words of a block, escaped, with line breaks kept and with the target behind each link and image."""
    links: list[tuple[str, list[str]]] = []
    for token in tokens:
        content = escape_controls(token.content)
        said = [content]
        match token.type:
            case "link_open":
                links.append((escape_controls(str(token.attrs.get("href", ""))), []))
                yield Token("words_open", "a", 1)
                continue
            case "link_close":
                target, label = links.pop()
                yield Token("words_close", "a", -1)
                said = []
                if "".join(label) not in (target, target.removeprefix("mailto:")):
                    said = [f" ({target})"]
                    yield from _target(target)
            case "image":
                target = escape_controls(str(token.attrs.get("src", "")))
                said = [f"[image: {content}]", f" ({target})"]
                yield Token("text", "", 0, content=said[0])
                yield from _target(target)
            case "softbreak" | "hardbreak":
                said = ["\n"]
                yield Token("hardbreak", "br", 0)
            case "code_inline":
                yield Token("words", "code", 0, content=content)
            case _ if token.nesting:
                yield token
            case _:
                yield Token("text", "", 0, content=content)
        for _, label in links:
            label.extend(said)


def _target(target: str) -> Iterator[Token]:
    yield Token("words_open", "small", 1)
    yield Token("text", "", 0, content=f" ({target})")
    yield Token("words_close", "small", -1)


def _ansi(line: Text) -> str:
    """Return *line* with the escape sequences of its styles."""
    return "".join(
        piece.style.render(piece.text, color_system=ColorSystem.STANDARD) if piece.style else piece.text
        for piece in line.render(_RICH)
    )


# ---- the libraries ----------------------------------------------------------------------

# Without link definitions, which rich would not show.
_PARSER = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"]).disable("reference")
_BLOCKS = MarkdownIt("commonmark", {"html": False}).enable("table").disable(["inline", "reference"])
# Colours that can be read on a light and on a dark ground; most words keep the colour of the text.
_THEME = Theme(
    {
        "markdown.h1": Style(bold=True, underline=True),
        "markdown.h2": _BOLD,
        **{f"markdown.h{level}": Style(bold=True, italic=True) for level in range(3, 7)},
        "markdown.a": Style(underline=True),
        "markdown.small": _DIM,
        "markdown.code": Style(color="cyan"),
        "markdown.block_quote": Style(),
        "markdown.hr": _DIM,
        "markdown.item.bullet": Style(),
        "markdown.item.number": Style(),
    }
)
_RICH = RichConsole(
    width=80, force_terminal=True, color_system="standard", markup=False, highlight=False, emoji=False, theme=_THEME
)
_CODE_THEME = ANSISyntaxTheme(
    {
        ("Comment",): _DIM,
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
        ("Generic", "Prompt"): _BOLD,
    }
)
