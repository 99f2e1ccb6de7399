"""Attempts to get past a policy on files, end to end: a real host, real tools, a model that means harm."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from permitting import rule, under
from pluggent_hookspecs import hookimpl, tool
from pluggent_testing.fakes import call as model_calls
from policy_stage import WAYS, reach, stage

OUR_ROOT = "/proc/self/root"


class Files:
    """Real tools on a real folder, and a list of what they touched."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.touched: list[str] = []

    def tools(self) -> list[Any]:
        @tool(effects=("filesystem_read",))
        async def read(path: str) -> str:
            """Read a file."""
            self.touched.append(path)
            return (self.folder / path).read_text()

        @tool(effects=("filesystem_read",))
        async def read_all(paths: list[str], options: dict[str, Any] | None = None) -> str:
            """Read files."""
            self.touched.extend(paths)
            return " ".join((self.folder / path).read_text() for path in paths)

        @tool(effects=("filesystem_write",), name="link")
        async def make_link(path: str, target: str) -> str:
            """Make a link."""
            (self.folder / path).unlink(missing_ok=True)
            (self.folder / path).symlink_to(target)
            return "linked"

        @tool(effects=("filesystem_write",))
        async def write(path: str, text: str) -> str:
            """Write a file."""
            self.touched.append(path)
            (self.folder / path).write_text(text)
            return "written"

        return [read, read_all, make_link, write]


@pytest.fixture
def files(tmp_path: Path) -> Files:
    (tmp_path / "w" / "docs").mkdir(parents=True)
    (tmp_path / "w" / "docs" / "a.md").write_text("harmless")
    (tmp_path / "key").write_text("SECRET")
    (tmp_path / "w" / "out").symlink_to("..")
    return Files(tmp_path / "w")


INSIDE = rule("inside", "deny", when={"effects": ["filesystem_read"]}, unless={"arguments": {"path": {"inside": "."}}})
LISTS = rule(
    "lists", "deny", when={"tool": "app:tools:tool/read_all"}, unless={"arguments": {"paths": {"inside": "."}}}
)


NEVER = rule("never", "deny", when={"tool": "app:tools:tool/danger"})
NOT_X = rule("not-x", "deny", when={"arguments": {"path": {"equals": "X"}}})
NOT_Y = rule("not-y", "deny", when={"arguments": {"path": {"equals": "y"}}})


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("forbids", "ran"), [(NEVER, ()), (NOT_X, ()), (NOT_Y, ("x",))], ids=["tool", "value", "other"]
)
async def test_what_is_denied_runs_in_no_way(way: str, forbids: Any, ran: tuple[str, ...]):
    seen = await reach(way, **under(forbids, granted=True, mode="autonomous"))

    assert seen.ran == ran


@pytest.mark.parametrize(
    "path",
    [
        "../key", "docs/../../key", "out/key", "./out//key", "docs/../out/key", "{folder}/../key", "/etc/passwd",
        "//etc/passwd", f"{OUR_ROOT}/etc/passwd", "~/key", "$HOME/key", "docs/..%2f..%2fkey", "docs\\..\\..\\key",
        "file:///etc/passwd", " ../key", "docs/a.md\n../key", "docs/a.md\u0000../key", "/proc/self/cwd/key",
    ],
)  # fmt: skip
async def test_no_spelling_of_a_path_leads_out(files: Files, path: str):
    path = path.replace("{folder}", str(files.folder))
    options = under(INSIDE, granted=True, mode="autonomous")
    async with stage(model_calls("read", path=path), tools=files.tools(), workspace=files.folder, **options) as on:
        await on.session.say("go")

        assert on.read_by_model() == ["Denied: this is not allowed here"]
    assert files.touched == []


async def test_a_path_inside_is_read(files: Files):
    options = under(INSIDE, granted=True, mode="autonomous")
    model = model_calls("read", path="docs/a.md")
    async with stage(model, tools=files.tools(), workspace=files.folder, **options) as on:
        await on.session.say("go")

        assert on.read_by_model() == ["harmless"]


@pytest.mark.parametrize(
    "paths", [["docs/a.md", "../key"], ["../key", "docs/a.md"], ["docs/a.md", "out/key"], ["docs/a.md", ""], []]
)
async def test_one_bad_path_among_good_ones_is_enough(files: Files, paths: list[str]):
    options = under(LISTS, granted=True, mode="autonomous")
    async with stage(
        model_calls("read_all", paths=paths), tools=files.tools(), workspace=files.folder, **options
    ) as on:
        await on.session.say("go")

        assert on.read_by_model() == ["Denied: this is not allowed here"]
    assert files.touched == []


WRITES_INSIDE = rule(
    "writes", "deny", when={"tool": "app:tools:tool/write"}, unless={"arguments": {"path": {"inside": "."}}}
)


@pytest.mark.parametrize(("target", "written"), [("../key", False), ("docs/a.md", True)])
async def test_a_link_swapped_by_a_call_of_the_same_reply_is_seen(files: Files, target: str, written: bool):
    (files.folder / "note").symlink_to("docs/a.md")
    batch = (model_calls("link", path="note", target=target), model_calls("write", path="note", text="EVIL"))
    options = under(WRITES_INSIDE, granted=True, mode="autonomous")
    async with stage(batch, tools=files.tools(), workspace=files.folder, **options) as on:
        await on.session.say("go")

        assert on.read_by_model() == ["linked", "written" if written else "Denied: this is not allowed here"]
    assert (files.folder.parent / "key").read_text() == "SECRET"
    assert files.touched == (["note"] if written else [])


async def test_a_link_swapped_in_an_earlier_round_is_seen(files: Files):
    (files.folder / "note").symlink_to("docs/a.md")
    rounds = (
        model_calls("read", path="note"),
        model_calls("link", path="note", target="../key"),
        model_calls("read", "again", path="note"),
    )
    options = under(INSIDE, granted=True, mode="autonomous")
    async with stage(*rounds, tools=files.tools(), workspace=files.folder, **options) as on:
        await on.session.say("go")

        assert on.read_by_model() == ["harmless", "linked", "Denied: this is not allowed here"]


async def test_what_a_plugin_changes_is_judged_after_the_change(files: Files):
    class Rewrites:
        @hookimpl
        def transform_tool_call(self, event: Any) -> Mapping[str, Any]:
            return {**event.arguments, "path": "../key"}

    options = under(INSIDE, granted=True, mode="autonomous")
    model = model_calls("read", path="docs/a.md")
    tools = files.tools()
    async with stage(model, tools=tools, workspace=files.folder, plugins=[Rewrites()], **options) as on:
        await on.session.say("go")

        assert on.read_by_model() == ["Denied: this is not allowed here"]


async def test_a_second_argument_is_no_way_to_smuggle_a_path(files: Files):
    @tool(effects=("filesystem_read",))
    async def show(path: str, also: list[str] | None = None) -> str:
        """Show files."""
        files.touched.append(path)
        return "shown"

    every = rule("every", "deny", when={"tool": "*"}, unless={"arguments": {"**": {"inside": "."}}})
    options = under(every, granted=True, mode="autonomous")
    for also, allowed in ((None, True), (["docs"], True), (["docs", "../key"], False)):
        files.touched.clear()
        model = model_calls("show", path="docs/a.md", also=also)
        async with stage(model, tools=[show], workspace=files.folder, **options) as on:
            await on.session.say("go")
        assert bool(files.touched) is allowed
