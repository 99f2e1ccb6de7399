"""What a workspace confines (policy 7), and what the host keeps from every tool: sessions, approvals, keys (32)."""

import json
from pathlib import Path
from typing import Annotated, Any

import pytest
from pluggent_hookspecs import Param, ToolOutput, hookimpl, tool
from pluggent_hookspecs.decisions import Allow
from pluggent_host.tools.workspace_guard import why_outside
from pluggent_testing.fakes import call
from talking import talking


@tool(effects=("filesystem_write",))
def write(path: Annotated[str, Param("where", format="path")], text: str = "") -> str:
    """Write a file."""
    return f"wrote {path}{text}"


@tool(effects=("filesystem_write", "shell"))
def build(path: Annotated[str, Param(format="path")]) -> str:
    """Build a file with a shell."""
    return f"built {path}"


@tool(effects=("filesystem_write",))
def save(text: str) -> str:
    """Write a file without a marked path."""
    return f"saved {text}"


async def outcome(workspace: Path | None, name: str, **arguments: str) -> ToolOutput:
    async with talking(tools=[write, build, save], workspace=workspace, strict=True) as session:
        return await session.call_tool(name, arguments)


@pytest.mark.parametrize("path", [
    ".mcp.json", ".MCP.json", " pluggent.toml", "pluggent.toml\n", "sub/.git /config", ".gi\u200bt/config",
    ".git./config", "GIT~1/config", ".git::$INDEX_ALLOCATION/config", " out/x", "out /x",
    "MCP~1.JSO", "plugge~1.tom", "GI7EBA~1/config",
])  # fmt: skip
async def test_what_some_tool_or_file_system_takes_for_a_file_that_decides_what_runs_asks(
    tmp_path: Path, path: str
) -> None:
    (tmp_path / "out").symlink_to("/")
    (tmp_path / "out ").symlink_to("/")

    assert (await outcome(tmp_path, "write", path=path)).is_error


@pytest.mark.parametrize("path", ["a.txt", "./b/../a.txt", "sub/c.txt", "."])
async def test_writing_inside_the_workspace_needs_no_approval(tmp_path: Path, path: str) -> None:
    assert (await outcome(tmp_path, "write", path=path)).for_model == f"wrote {path}"
    assert not (await outcome(tmp_path, "write", path=str(tmp_path / path))).is_error


@pytest.mark.parametrize("path", ["../a.txt", "/etc/passwd", "sub/../../a.txt", "link/a.txt", "a\0b"])
async def test_writing_outside_the_workspace_asks(tmp_path: Path, path: str) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "link").symlink_to(tmp_path)

    output = await outcome(folder, "write", path=path)

    assert output.is_error
    assert "approval" in str(output.for_model)


@tool(effects=("filesystem_write",))
def copy(here: Path, there: Path | None = None, also: list[Path] = []) -> str:  # noqa: B006 (never changed)
    """Write files whose parameters say themselves that they are paths."""
    return " ".join(type(each).__name__ for each in (here, there, *also))


@pytest.mark.parametrize(
    ("arguments", "runs"),
    [
        ({"here": "a"}, True), ({"here": "a", "there": "sub/b", "also": ["c"]}, True), ({"here": "../a"}, False),
        ({"here": "a", "there": "/etc/passwd"}, False), ({"here": "a", "also": ["c", "../d"]}, False),
        ({"here": "~/a"}, False),
    ],
)  # fmt: skip
async def test_a_parameter_annotated_as_a_path_is_a_marked_one(
    tmp_path: Path, arguments: dict[str, Any], runs: bool
) -> None:
    async with talking(tools=[copy], workspace=tmp_path, strict=True) as session:
        output = await session.call_tool("copy", arguments)

    wanted = [Path, type(None) if "there" not in arguments else Path, *[Path] * len(arguments.get("also", ()))]
    assert output.is_error is not runs
    assert not runs or str(output.for_model).split() == [
        type(kind()).__name__ if kind is Path else "NoneType" for kind in wanted
    ]
    assert runs or "approval" in str(output.for_model)


async def test_without_a_workspace_a_marked_path_or_with_another_effect_writing_asks(tmp_path: Path) -> None:
    assert (await outcome(None, "write", path="a.txt")).is_error
    assert (await outcome(tmp_path, "save", text="x")).is_error
    assert (await outcome(tmp_path, "build", path="a.txt")).is_error


async def test_the_model_reads_what_is_asked(tmp_path: Path) -> None:
    async with talking(call("write", path="../x"), tools=[write], strict=True, workspace=tmp_path) as session:
        result = await session.say("go")

    assert result.why == "denied"
    assert "outside the workspace" in result.detail


def test_every_path_of_a_list_counts_and_the_root_of_all_files_confines_nothing(tmp_path: Path) -> None:
    many = {"properties": {"paths": {"type": "array", "format": "path"}}}
    one = {"properties": {"path": {"type": "string", "format": "path"}, "text": {"type": "string"}}}

    assert not why_outside(many, b'{"paths":["a","b/c"]}', str(tmp_path))
    assert why_outside(many, b'{"paths":["a","../c"]}', str(tmp_path))
    assert why_outside(many, b'{"paths":[]}', str(tmp_path))
    assert not why_outside(one, b'{"path":"etc/x"}', "/")


READS = ("filesystem_read",)
KEPT = "Denied: this is what pluggent keeps for itself: sessions and approvals are for no tool"


class Agrees:
    """The operator's rule allows everything; a person does, too."""

    @hookimpl
    def decide_tool_call(self, event: Any) -> Allow:
        return Allow()


async def used(folder: Path, effects: Any, *paths: str, more: Any = ()) -> list[object]:
    """Return the outputs of a tool with *effects* that is called with each of *paths*."""
    (folder / "work").mkdir(exist_ok=True)
    (folder / "work" / "link").symlink_to(folder / "state")

    @tool(effects=effects)
    async def use(path: str = "", more: list[dict[str, str]] | None = None) -> str:
        """Use a file."""
        return "used"

    async with talking(
        tools=[use], plugins=[Agrees()], state_dir=folder / "state", workspace=folder / "work", approver=lambda _: True
    ) as session:
        arguments = [{"path": path.format(state=folder / "state")} for path in paths]
        return [(await session.call_tool("use", each)).for_model for each in [*arguments, *more]]


@pytest.mark.parametrize("effects", [READS, ("filesystem_write",), ("destructive",), None])
async def test_no_tool_gets_at_what_the_host_keeps_whatever_is_allowed(
    tmp_path: Path, effects: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    paths = [
        "{state}/sessions/s.jsonl", "{state}/sessions/approvals.json.key", "{state}/sessions", "{state}/trust.json.key",
        "{state}/logins/web.json", "{state}/keys/openai", "../state/sessions/s.jsonl", "link/sessions/x", "file://{state}/sessions/s.jsonl",
        "file://localhost{state}/sessions/s%2Ejsonl", "{state}/./x/../hooks.json", "~/state/sessions/s.jsonl",
    ]  # fmt: skip
    inside = {"more": [{"from": "x", "to": str(tmp_path / "state" / "sessions")}]}

    outputs = await used(tmp_path, effects, *paths, more=[inside])

    assert outputs == [KEPT] * (len(paths) + 1)


async def test_other_paths_are_for_every_tool_and_these_for_one_that_knows_no_files(tmp_path: Path) -> None:
    others = ["notes.txt", "{state}/mine.txt", "{state}/sessions2", "", "a\0b", "x" * 5000, "http://a/b"]

    assert await used(tmp_path, READS, *others) == ["used"] * len(others)
    (tmp_path / "work" / "link").unlink()
    assert await used(tmp_path, ("messaging",), "{state}/sessions") == ["used"]


WRITES = {
    "properties": {
        "path": {"type": "string", "format": "path"},
        "to": {"type": "string"},
        "source": {"type": "string", "format": "text"},
    }
}


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({"path": "a"}, ""),
        ({"path": "a", "content": "all of it\n/etc/passwd"}, ""),
        ({"path": "a", "mode": "w", "lines": 3}, ""),
        ({"path": "a", "source": "// comment"}, ""),
        ({"path": "a", "source": "x", "note": "// comment"}, "'note' may be a path"),
        ({"path": "../a"}, "it writes files outside the workspace"),
        ({"content": "x"}, "none of its arguments is marked as a path (the tool's author: Param(format="),
        ({"path": "a", "to": "b"}, "'to' may be a path and is not marked as one (the tool's author: Param(format="),
        ({"path": "a", "destDir": "b", "OUTPUT_FILES": ["c"]}, "'OUTPUT_FILES' and 'destDir' may be a path"),
        ({"path": "a", "note": "~/.profile"}, "'note' may be a path"),
        ({"path": "a", "note": "../b"}, "'note' may be a path"),
        ({"path": "a", "more": {"x": " /etc/passwd"}}, "'more' may be a path"),
    ],
)
def test_every_argument_that_may_be_a_path_counts(arguments: Any, why: str, tmp_path: Path):
    """Policy 39."""
    found = why_outside(WRITES, json.dumps(arguments).encode(), str(tmp_path))

    assert found.startswith(why)
    assert bool(found) == bool(why)
