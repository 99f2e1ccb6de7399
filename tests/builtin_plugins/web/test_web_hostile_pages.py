"""Pages made to hang, to break or to deceive whatever reads them."""

import asyncio
import os
import sys
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st
from pluggent_web.pages import reader
from pluggent_web.pages.html_process import read
from pluggent_web.pages.reader import UnreadableError, read_html
from web_site import answer, html, site, visitor

pytestmark = pytest.mark.usefixtures("patience")
PROSE = "<p>Water has to boil before the leaves are put in, and not a moment later than that. </p>"
URL = "https://site.example/dir/page"


async def never(*_: object) -> bytes:
    """Wait, as for a process that says nothing."""
    await asyncio.Event().wait()
    return b""


def markdown(body: str, wanted: Any = "all") -> str:
    return read(f"<!doctype html><html><body>{body}</body></html>", URL, wanted)["markdown"]


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ('<a href="javascript:alert(1)">x</a>', "x"),
        ('<a href=" JaVa\tScript:alert(1)">x</a>', "x"),
        ('<a href="data:text/html,hi">x</a>', "x"),
        ('<a href="vbscript:x">x</a>', "x"),
        ('<a href="file:///etc/passwd">x</a>', "x"),
        ('<a href="//other.example/a">x</a>', "[x](https://other.example/a)"),
        ('<a href="a?b=c&amp;d">x</a>', "[x](https://site.example/dir/a?b=c&d)"),
        ('<a href="/a b">x</a>', "[x](https://site.example/a%20b)"),
        ('<a href="https://e.example/a)b">x</a>', "[x](https://e.example/a%29b)"),
        ('<img src="data:image/png;base64,AAAA" alt="a chart">', "a chart"),
        ('<img src="data:image/svg+xml,<svg onload=alert(1)>">', ""),
        ('<img src="/chart.png" alt="a chart">', "![a chart](https://site.example/chart.png)"),
        ('<img src="https://t.example/pixel.gif" width=1 height=1>', ""),
    ],
)
def test_links_lead_to_the_web_or_nowhere(body: str, says: str):
    assert markdown(f"<p>{body}</p>") == says


def test_the_base_of_a_page_counts_where_it_is_of_the_web():
    page = "<html><head><base href='{}'></head><body><a href=x>y</a></body></html>"

    assert read(page.format("/other/"), URL, "all")["markdown"] == "[y](https://site.example/other/x)"
    assert read(page.format("javascript:"), URL, "all")["markdown"] == "[y](https://site.example/dir/x)"


@pytest.mark.parametrize(
    "hidden",
    [
        "<div hidden>{}</div>", '<div style="display:none">{}</div>',
        '<p style="color:red; DISPLAY : NONE !important">{}</p>',
        '<p style="visibility:hidden">{}</p>', "<template>{}</template>", "<script>{}</script>", "<style>{}</style>",
        "<!-- {} -->", "<title>{}</title>",
        '<input type=hidden value="{}">', '<meta name=description content="{}">', "<noscript hidden>{}</noscript>",
        '<span style="display:none"><b>{}</b></span>', "<dialog>{}</dialog>",
        '<a href="https://e.example" title="{}">x</a>', '<table><tr title="{}"><td>a<tr><td>b<td>c</table>',
        '<img alt="" title="{}">',
    ],
)  # fmt: skip
def test_what_a_page_does_not_show_is_not_read(hidden: str):
    assert "OBEY" not in markdown(PROSE + hidden.format("OBEY"))


@pytest.mark.parametrize(
    "page",
    [
        "<div>" * 100_000 + "deep",
        "<b><i><u>" * 30_000 + "deep",
        "<table><tr><td>" * 20_000 + "deep",
        "<ul><li>" * 50_000 + "deep",
        "<blockquote>" * 50_000 + "deep",
        "<a href=x>" * 50_000 + "deep",
        "<svg><g>" * 50_000 + "deep",
        "<font>" * 50_000 + "</p>" * 50_000,
        "<p>" * 1_000_000,
        "<" * 1_000_000,
        "&" * 1_000_000,
        "&#" + "9" * 1_000_000 + ";",
        "<!--" + "-" * 1_000_000,
        "<!doctype " + "a" * 1_000_000,
        "<a " + "b=c " * 200_000 + ">x</a>",
        "<a " + "".join(f"b{number}=c " for number in range(50_000)) + ">x</a>",
        "<p>" + "[" * 100_000 + "](" * 100_000,
        "<p>" + "*_`" * 200_000,
        "<h1>" + "word " * 500_000,
        "<pre>" + "`" * 500_000,
        "<table>" + "<tr>" + "<td>x" * 20_000,
        "<table><tr>" + "<td>x" * 1_000 + "<tr><td>y" * 50_000,
        "<table><tr><td>" * 150 + "x",
        "<table>" + "<tr><td colspan=1000 rowspan=65534>x" * 500,
        "<ol>" + "<li value=99999999999999999999>x" * 20_000,
        "<select>" + "<option>x" * 100_000,
        "<textarea>" + "x" * 1_000_000,
        "<style>" + "*{}" * 300_000,
        PROSE * 30_000,
    ],
    ids=lambda page: page[:12] + "…",
)
async def test_a_page_made_to_be_slow_ends_and_leaves_the_loop_running(page: str):
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            ticks += 1
            await asyncio.sleep(0.005)

    ticking = asyncio.create_task(tick())
    try:
        for wanted in ("main", "all"):
            await read_html(page, URL, wanted)  # type: ignore[arg-type]
    except UnreadableError:
        pass  # an error is an end, too
    finally:
        ticking.cancel()
        await asyncio.wait([ticking])

    assert ticks > 1


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ("<tr><th colspan=2>A<tr><td>1<td>2", "| A |  |\n| --- | --- |\n| 1 | 2 |"),
        ("<thead><tr><th>A<th>B<tbody><tr><td>1", "| A | B |\n| --- | --- |\n| 1 |  |"),
        ("<tr><td rowspan=9>A<tr><td>1<td>2<td>3", "| A |  |  |\n| --- | --- | --- |\n| 1 | 2 | 3 |"),
        ("<tr><td>out<td><table><tr><td>in<td>2</table>", "out\n\n| in | 2 |\n| --- | --- |"),
        ("<tr><td>a|b", "| a\\|b |\n| --- |"),
    ],
)
def test_a_table_is_one_of_markdown_however_many_cells_its_rows_have(table: str, says: str):
    assert markdown(f"<table>{table}</table>") == says


def test_entities_do_not_grow():
    bomb = '<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;"><!ENTITY c "&b;&b;&b;&b;">]>'
    outside = '<?xml version="1.0"?><!DOCTYPE x [<!ENTITY e SYSTEM "file:///etc/passwd">]><html><p>&e;</p></html>'

    assert len(read(f"{bomb}<p>&c;&c;</p>", URL, "all")["markdown"]) < 300
    assert "root:" not in read(outside, URL, "all")["markdown"]


@given(
    st.text()
    | st.from_regex(r"(<(/?(div|p|a href=x|table|td|li|pre|svg|math|template)|!--|\?)>?|[a-z&;#\]\[*`|]){0,60}")
)
@settings(max_examples=200)
def test_every_page_is_read(page: str):
    for wanted in ("main", "all"):
        said = read(page, URL, wanted)
        assert isinstance(said["markdown"], str)


@pytest.mark.parametrize("body", ["nul\0byte", "<p>\0\0</p>", "a\x0bb", "\ue000\uffff", "\x1a<p>"])
async def test_bytes_that_are_no_text_do_no_harm(body: str):
    async with site({"/x": html(f"{PROSE}{body}")}) as there, visitor() as visiting:
        text = await visiting.read(f"{there.url}/x", content="all")

    assert text.replace("\n", "").isprintable()


async def test_utf_7_stays_what_it_is():
    page = answer(b"<p>+ADw-script+AD4-</p>", content_type="text/html; charset=utf-7")
    async with site({"/x": page}) as there, visitor() as visiting:
        assert "+ADw-script+AD4-" in await visiting.read(f"{there.url}/x")


async def test_ten_megabytes_are_read_up_to_the_limit():
    page = f"<html><body><article>{PROSE * 120_000}".encode()
    async with site({"/x": answer(page, content_type="text/html")}) as there, visitor() as visiting:
        text = await visiting.read(f"{there.url}/x")

    assert "Only the first 5,242,880 bytes were read." in text
    assert "Water has to boil" in text


async def test_a_reader_that_hangs_is_ended(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(reader, "READ_S", 0.3)
    monkeypatch.setattr(reader, "_MODULE", "this")
    monkeypatch.setattr(reader, "_exchange", never)

    with pytest.raises(UnreadableError, match="could not be read within"):
        await read_html(PROSE, URL, "main")


async def test_a_reader_that_dies_is_an_error(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(reader, "_MODULE", "no_such_module")
    async with site({"/x": html(PROSE)}) as there, visitor() as visiting:
        words = await visiting.refused(f"{there.url}/x")

    assert "its HTML could not be read (the reader ended with status 1). With content=source" in words


async def test_a_reader_that_cannot_be_started_is_an_error(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "executable", "/nowhere/python")

    with pytest.raises(UnreadableError, match="could not be started"):
        await read_html(PROSE, URL, "main")


async def test_a_reader_gets_nothing_of_the_environment(monkeypatch: pytest.MonkeyPatch):
    started: list[dict[str, str]] = []
    create = asyncio.create_subprocess_exec

    async def watched(*command: Any, **options: Any) -> Any:
        started.append(options["env"])
        return await create(*command, **options)

    monkeypatch.setenv("ACME_API_KEY", "hidden")
    monkeypatch.setattr(asyncio, "create_subprocess_exec", watched)
    await read_html(PROSE, URL, "main")

    assert set(started[0]) <= {"PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SYSTEMROOT"}
    assert os.environ["ACME_API_KEY"] == "hidden"


async def test_a_cancelled_reader_is_ended_before_the_call_returns(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(reader, "_exchange", never)
    started = asyncio.Event()
    processes: list[asyncio.subprocess.Process] = []
    create = asyncio.create_subprocess_exec

    async def watched(*command: Any, **options: Any) -> asyncio.subprocess.Process:
        processes.append(await create(*command, **options))
        started.set()
        return processes[0]

    monkeypatch.setattr(asyncio, "create_subprocess_exec", watched)
    reading = asyncio.create_task(read_html(PROSE, URL, "main"))
    await started.wait()
    reading.cancel()
    await asyncio.wait([reading])

    assert reading.cancelled()
    assert processes[0].returncode is not None
