"""Reads HTML from standard input and writes it as Markdown, in JSON: the program that ``reader`` starts for each page.

Only its own process has the parser in it, and that process has limits on time and memory.
"""

from __future__ import annotations

import json
import re
import sys
from contextlib import suppress
from typing import Any
from urllib.parse import quote, urljoin, urlsplit

import turbohtml
from turbohtml import Markdown

from pluggent_web.pages.main_content import main_content

_CPU_S = 25
_MEMORY_BYTES = 2 << 30
_MOST_CHARS = 4_000_000
_NOT_SHOWN = (
    "script, style, template, [hidden], dialog:not([open]), input, head, noframes, object, embed, iframe, canvas"
)
_HIDING = re.compile(r"display\s*:\s*none|visibility\s*:\s*(?:hidden|collapse)", re.IGNORECASE)
_IGNORED = re.compile(r"[\x00-\x20\x7f-\x9f]+")
"""What browsers leave out of a URL's beginning, and of its scheme."""
_WEB = frozenset({"http", "https"})
_MOST_CELLS = 20_000
"""Of a table that is evened out."""
_KEPT = frozenset({"href", "src", "alt", "start"})
"""Attributes that become text or order."""
_STYLE = Markdown(links=Markdown.Links(autolink=False))


def read(html: str, url: str, wanted: str) -> dict[str, Any]:
    """Return title and Markdown of *html*, fetched from *url*: of its ``main`` content, or of ``all`` of it."""
    page = turbohtml.parse(html.replace("\0", ""))
    heading = page.find("title")
    title = heading.text if heading is not None else ""
    base = _base_of(page, url)
    page.remove(_NOT_SHOWN)
    for element in page.select("[style]"):
        if _HIDING.search(str(element.attrs.get("style", ""))):
            element.decompose()
    _lead_to_the_web(page, base)
    body = page.find("body") or page
    main = main_content(page, body) if wanted == "main" else None
    chosen = body if main is None else main
    _even_tables(chosen)
    _without_attributes(chosen)
    return {"title": title, "markdown": chosen.to_markdown(_STYLE)[:_MOST_CHARS], "whole": main is None}


def _base_of(page: Any, url: str) -> str:
    base = page.select_one("base[href]")
    return (_target(str(base.attrs["href"]), url) if base is not None else "") or url


def _lead_to_the_web(page: Any, base: str) -> None:
    """Make links and images lead to whole URLs of the web; take their targets away where they do not."""
    for link in page.select("a[href]"):
        target = _target(str(link.attrs["href"]), base)
        if target:
            link.attrs["href"] = target
        else:
            link.unwrap()
    for image in page.select("img"):
        alt = " ".join(str(image.attrs.get("alt") or "").split())
        source = _target(str(image.attrs.get("src") or ""), base)
        if alt and source:
            image.attrs["src"], image.attrs["alt"] = source, alt
        elif alt:
            image.replace_with(turbohtml.Text(alt))
        else:
            image.decompose()


def _target(reference: str, base: str) -> str:
    """Return *reference* as a whole URL that Markdown can hold, "" if it does not lead to the web."""
    cleaned = _IGNORED.sub(lambda found: "%20" * found[0].count(" "), reference.strip("".join(map(chr, range(0x21)))))
    try:
        joined = urljoin(base, cleaned)
        is_web = urlsplit(joined).scheme in _WEB
    except ValueError:
        return ""
    return quote(joined, safe="/?:@!$&'*+,;=~-._%#[]") if is_web else ""


def _even_tables(chosen: Any) -> None:
    """Give the rows of each table equally many cells: Markdown has no others. A table around tables is layout."""
    for table in chosen.select("table"):
        groups = [each for each in table.children if _tag(each) in ("thead", "tbody", "tfoot")]
        rows = [each for group in (table, *groups) for each in group.children if _tag(each) == "tr"]
        cells = [[each for each in row.children if _tag(each) in ("td", "th")] for row in rows]
        if table.select_one("table") is not None:
            for element in (*(each for of_row in cells for each in of_row), *rows, *groups, table):
                element.tag = "div"
            continue
        most = max(map(len, cells), default=0)
        if most * len(rows) > _MOST_CELLS:
            continue
        for row, of_row in zip(rows, cells, strict=True):
            row.extend([turbohtml.Element("td") for _ in range(most - len(of_row))])


def _without_attributes(chosen: Any) -> None:
    """Remove what a page does not show, such as titles, also where a part of it is written as HTML."""
    for element in (chosen, *chosen.select("*")):
        kept = _KEPT if _tag(element) not in ("code", "pre") else {*_KEPT, "class"}
        for name in [name for name in element.attrs if name not in kept]:
            del element.attrs[name]


def _tag(node: Any) -> str:
    return str(getattr(node, "tag", ""))


def limit() -> None:
    """Limit this process, where the system can."""
    with suppress(ImportError):
        # Inside: there is no such module on Windows.
        import resource

        for name, most in (("CPU", _CPU_S), ("AS", _MEMORY_BYTES), ("CORE", 0), ("FSIZE", 0)):
            with suppress(ValueError, OSError):
                resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), (most, most))


def run(wanted: str, url: str) -> None:
    """Read standard input and write the answer."""
    limit()
    html = sys.stdin.buffer.read().decode("utf-8", "replace")
    try:
        said = read(html, url, wanted)
    except (ValueError, RecursionError, MemoryError) as error:
        said = {"error": f"its HTML could not be read ({type(error).__name__})"}
    sys.stdout.write(json.dumps(said))


if __name__ == "__main__":
    run(*sys.argv[1:])
