import pytest
from pluggent_hookspecs import DecisionMade, ToolStarted
from pluggent_testing.fakes import Recorder
from web_site import Names, answer, redirect, site, visitor

pytestmark = pytest.mark.usefixtures("patience")
WORDS = answer("words", content_type="text/plain")


@pytest.mark.parametrize("status", ["301 Moved", "302 Found", "303 See Other", "307 Temporary", "308 Permanent"])
async def test_a_redirect_is_a_call_of_its_own(status: str):
    recorder = Recorder()
    pages = {"/a": redirect("/b", status), "/b": WORDS}
    async with site(pages) as there, visitor(plugins=[recorder]) as visiting:
        text = await visiting.read(f"{there.url}/a")

    assert text.startswith(f"Redirected from {there.url}/a\n{there.url}/b\nStatus 200")
    assert there.paths() == ["/a", "/b"]
    assert len([made for made in recorder.of(DecisionMade) if made.operation == "tool_call"]) == 2
    assert len(recorder.of(ToolStarted)) >= 1


async def test_five_redirects_are_followed_and_no_more():
    pages = {f"/{number}": redirect(f"/{number + 1}") for number in range(6)} | {"/6": WORDS}
    async with site(pages) as there, visitor() as visiting:
        five = await visiting.read(f"{there.url}/1")
        six = await visiting.refused(f"{there.url}/0")

    assert "words" in five
    assert f"More than 5 redirects; the last one to {there.url}/6." in six
    assert there.paths().count("/6") == 1


async def test_a_loop_ends_where_it_closes():
    pages = {"/a": redirect("/b"), "/b": redirect("/a"), "/self": redirect("/self#x")}
    async with site(pages) as there, visitor() as visiting:
        long = await visiting.refused(f"{there.url}/a")
        short = await visiting.refused(f"{there.url}/self")

    assert "it never ends" in long
    assert "it never ends" in short
    assert there.paths() == ["/a", "/b", "/self"]


@pytest.mark.parametrize(
    "to",
    [
        "http://169.254.169.254/latest/meta-data/", "http://10.0.0.1/", "http://[::1]:{port}/b", "http://0.0.0.0:{port}/b",
        "http://localhost:{port}/b", "http://[::ffff:127.0.0.1]:{port}/b", "http://127.0.0.2:{port}/b",
        "//metadata.example/", "http://2130706433:{port}/b", "http://127.0.0.1.:22/", "http://user@127.0.0.1:{port}/b",
        "file:///etc/passwd", "data:text/plain,x", "javascript:alert(1)", "gopher://127.0.0.1/", "http:///b", "http://[",
        "http://127.0.0.1:{port}\\@example.org/b", "http://127.0.0.1:99999/",
    ],
)  # fmt: skip
async def test_a_redirect_leads_nowhere_that_a_url_does_not(to: str):
    names = Names({"localhost": ("127.0.0.1", "::1"), "metadata.example": ("169.254.169.254",)})
    pages = {"/b": WORDS}
    async with (
        site(pages) as there,
        site({"/a": redirect(to.format(port=there.port))}) as first,
        visitor(names=names, allow_private=(f"127.0.0.1:{first.port}",)) as visiting,
    ):
        words = await visiting.refused(f"{first.url}/a")

    assert "words" not in words
    assert there.requests == []


async def test_a_redirect_between_hosts_is_looked_up_and_checked_again():
    names = Names({"a.example": ("127.0.0.1",), "b.example": ("127.0.0.1",), "c.example": ("127.0.0.1",)})
    pages = {"/b": WORDS}
    async with site(pages) as there:
        to_b, to_c = (redirect(f"http://{name}.example:{there.port}/b") for name in "bc")
        async with (
            site({"/b": to_b, "/c": to_c}) as first,
            visitor(names=names, allow_private=("a.example", "b.example")) as visiting,
        ):
            allowed = await visiting.read(f"http://a.example:{first.port}/b")
            refused = await visiting.refused(f"http://a.example:{first.port}/c")

    assert "words" in allowed
    assert "leads inside" in refused
    assert names.asked == ["a.example", "b.example", "a.example", "c.example"]


async def test_a_redirect_without_a_place_is_an_answer():
    page = answer("where to?", "302 Found", content_type="text/plain")
    async with site({"/a": page}) as there, visitor() as visiting:
        assert "where to?" in await visiting.refused(f"{there.url}/a")


async def test_a_later_page_behind_a_redirect_is_read_from_what_was_fetched():
    text = "x" * 30_000
    pages = {"/a": redirect("/b"), "/b": answer(text, content_type="text/plain")}
    async with site(pages) as there, visitor() as visiting:
        await visiting.read(f"{there.url}/a")
        second = await visiting.read(f"{there.url}/a", offset=20_000)

    assert "Characters 20,000 to 30,000 of 30,000." in second
    assert there.paths() == ["/a", "/b", "/a"]
