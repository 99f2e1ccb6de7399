import gzip
import json
from typing import Any

import pytest
from pluggent_function_tools.function_tool import function_tool
from pluggent_hookspecs import Deny, Effect, Image, Text, ToolCallEvent, ToolStarted, hookimpl
from pluggent_testing.fakes import Recorder
from pluggent_web.plugin import Web
from web_site import answer, html, redirect, site, visitor

pytestmark = pytest.mark.usefixtures("patience")
PNG = b"\x89PNG\r\n\x1a\n" + bytes(200)
ARTICLE = "<article><h1>Tea</h1>" + "<p>Water has to boil before the leaves are put in. </p>" * 20 + "</article>"


def test_the_tool_reads_the_network_and_nothing_else():
    (offered,) = Web().provide_tools(None)  # type: ignore[arg-type]
    spec: Any = function_tool(offered).spec

    assert (spec.name, spec.effects, spec.idempotent) == ("fetch_url", frozenset({Effect.NETWORK_READ}), True)
    assert set(spec.parameters["properties"]) == {"url", "offset", "content"}
    assert spec.parameters["required"] == ("url",)


async def test_a_page_comes_as_markdown_between_two_marks():
    body = f'<nav><a href="/menu">Menu</a></nav>{ARTICLE.replace("leaves", "<a href=/leaf>leaves</a>")}'
    async with site({"/tea": html(body)}) as there, visitor() as visiting:
        text = await visiting.read(f"{there.url}/tea")

    head, _, framed = text.partition("\n\n")
    assert head.splitlines()[0] == f"{there.url}/tea"
    assert head.splitlines()[1].startswith("Status 200, text/html, ")
    assert framed.startswith("[web page ")
    assert f"[leaves]({there.url}/leaf)" in framed
    assert "Menu" not in framed
    assert framed.splitlines()[-1].startswith("[end of web page ")


async def test_the_whole_page_and_its_source_can_be_had():
    body = f'<nav><a href="/menu">Menu</a></nav>{ARTICLE}'
    async with site({"/tea": html(body)}) as there, visitor() as visiting:
        whole = await visiting.read(f"{there.url}/tea", content="all")
        source = await visiting.read(f"{there.url}/tea", content="source")

    assert f"[Menu]({there.url}/menu)" in whole
    assert "Water has to boil" in whole
    assert body in source


@pytest.mark.parametrize(
    ("body", "type"),
    [
        ('{"a": [1, 2]}', "application/json"), ("# Tea\n\n*hot*", "text/markdown"), ("a,b\n1,2", "text/csv"),
        ("<rss><item/></rss>", "application/rss+xml"), ("plain <b>words</b>", "text/plain"),
    ],
)  # fmt: skip
async def test_other_text_comes_as_it_is(body: str, type: str):
    async with site({"/x": answer(body, content_type=type)}) as there, visitor() as visiting:
        text = await visiting.read(f"{there.url}/x")

    assert f"]\n{body}\n[end of" in text


async def test_an_image_comes_as_a_part():
    async with site({"/x": answer(PNG, content_type="image/png")}) as there, visitor() as visiting:
        output = await visiting.fetch(f"{there.url}/x")

    assert isinstance(output.for_model, tuple)
    words, picture = output.for_model
    assert isinstance(words, Text)
    assert isinstance(picture, Image)
    assert words.text.startswith(f"{there.url}/x\nStatus 200, image/png, 208 bytes")
    assert picture.media_type == "image/png"


@pytest.mark.parametrize(
    ("body", "type", "says"),
    [
        (b"%PDF-1.7\n" + bytes(50), "application/pdf", "application/pdf, 59 bytes\nThis is a PDF"),
        (b"PK\x03\x04" + bytes(50), "application/zip", "application/zip, 54 bytes\nThis is neither text nor"),
        (b"GIF87", "image/gif", "image/gif, 5 bytes\nThis is neither text nor"),
        (bytes(80), "<b>\x80", "unknown type, 80 bytes\nThis is neither text nor"),
    ],
)
async def test_what_cannot_be_shown_is_named(body: bytes, type: str, says: str):
    async with site({"/x": answer(body, content_type=type)}) as there, visitor() as visiting:
        assert says in await visiting.refused(f"{there.url}/x")


async def test_a_long_page_is_read_on_where_it_ended_without_another_request():
    text = "".join(f"{number:05}\n" for number in range(8000))
    async with site({"/x": answer(text, content_type="text/plain")}) as there, visitor() as visiting:
        first = await visiting.read(f"{there.url}/x")
        second = await visiting.read(f"{there.url}/x", offset=20_000)
        beyond = await visiting.refused(f"{there.url}/x", offset=48_000)

    assert "Characters 0 to 20,000 of 47,999.\nFor more: the same URL with offset=20000." in first
    assert "Characters 20,000 to 40,000 of 47,999." in second
    assert beyond == f"{there.url}/x has 47,999 characters; offset=48000 is beyond its end."
    assert len(there.requests) == 1


async def test_a_page_from_its_beginning_is_always_fetched_anew_and_another_session_shares_nothing():
    async with site({"/x": answer("a" * 100, content_type="text/plain")}) as there, visitor() as visiting:
        await visiting.read(f"{there.url}/x")
        await visiting.read(f"{there.url}/x")
        async with await visiting.host.session() as other:
            await other.call_tool("fetch_url", {"url": f"{there.url}/x", "offset": 50})

    assert len(there.requests) == 3


async def test_a_request_says_who_asks_and_brings_nothing_along():
    pages = {"/x?q=1": answer("a", content_type="text/plain", set_cookie="id=1")}
    async with site(pages) as there, visitor() as visiting:
        await visiting.read(f"{there.url}/x?q=1#part")
        await visiting.read(f"{there.url}/x?q=1")

    lines = there.requests[0].lower().splitlines()
    names = {line.partition(":")[0] for line in lines[1:] if line}
    assert lines[0] == "get /x?q=1 http/1.1"
    assert f"host: 127.0.0.1:{there.port}" in lines
    assert any(line.startswith("user-agent: pluggent-web/") for line in lines)
    assert names == {"host", "user-agent", "accept", "accept-encoding", "connection"}
    assert all("cookie" not in request.lower() for request in there.requests)


@pytest.mark.parametrize(
    ("page", "says"),
    [
        (answer("gone for good", "410 Gone", content_type="text/plain"), "gone for good"),
        (answer("<h1>No such page</h1>", "404 Not Found", content_type="text/html"), "No such page"),
        (answer("", "429 Too Many Requests", retry_after="120"), "Status 429, text/plain, 0 bytes, Retry-After: 120"),
        (answer("", "204 No Content"), "Status 204"),
        (answer("", "304 Not Modified"), "Status 304"),
        (answer("", "300 Multiple Choices", location="/a"), "Status 300"),
    ],
)
async def test_a_failure_is_an_error_with_its_status_and_words(page: bytes, says: str):
    async with site({"/x": page}) as there, visitor() as visiting:
        output = await visiting.fetch(f"{there.url}/x")

    assert says in str(output.for_model)


async def test_a_packed_page_is_unpacked():
    packed = answer(gzip.compress(b"packed words", mtime=0), content_type="text/plain", content_encoding="gzip")
    async with site({"/x": packed}) as there, visitor() as visiting:
        assert "]\npacked words\n[" in await visiting.read(f"{there.url}/x")


async def test_a_policy_is_asked_about_every_url():
    class Refuses:
        @hookimpl
        def decide_tool_call(self, event: ToolCallEvent) -> Deny | None:
            url = json.loads(event.arguments_json)["url"]
            return Deny("not there") if "/secret" in url else None

    pages = {"/x": redirect("/secret"), "/secret": answer("s")}
    recorder = Recorder()
    async with site(pages) as there, visitor(plugins=[Refuses(), recorder]) as visiting:
        direct = await visiting.refused(f"{there.url}/secret")
        words = await visiting.refused(f"{there.url}/x")

    assert "not there" in direct
    assert words == f"{there.url}/x redirects to {there.url}/secret:\nDenied: not there"
    assert there.paths() == ["/x"]
    assert [each.name for each in recorder.of(ToolStarted)] == ["fetch_url"]
