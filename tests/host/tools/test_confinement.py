"""What a workspace confines (policy 7)."""

from pathlib import Path
from typing import Annotated

import pytest
from pluggent_hookspecs import Param, ToolOutput, tool
from pluggent_host import Host
from pluggent_host.tools.workspace_guard import stays_inside
from pluggent_testing.fakes import ScriptedModel, call

ONE = {"properties": {"path": {"type": "string", "format": "path"}, "text": {"type": "string"}}}


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
    """Write a file, nobody says where."""
    return f"saved {text}"


async def outcome(workspace: Path | None, name: str, **arguments: str) -> ToolOutput:
    options = {"model": "scripted/m", "plugins": [ScriptedModel()], "installed": False, "strict": True}
    tools = [write, build, save]
    async with Host.open(tools=tools, workspace=workspace, **options) as host, await host.session() as session:
        return await session.call_tool(name, arguments)


@pytest.mark.parametrize("path", ["a.txt", "./b/../a.txt", "sub/c.txt", "."])
async def test_writing_inside_the_workspace_needs_no_approval(tmp_path: Path, path: str) -> None:
    assert (await outcome(tmp_path, "write", path=path)).for_model == f"wrote {path}"
    assert not (await outcome(tmp_path, "write", path=str(tmp_path / path))).is_error


@pytest.mark.parametrize("path", ["../a.txt", "/etc/passwd", "sub/../../a.txt", "link/a.txt", "a\0b"])
async def test_writing_outside_the_workspace_asks(tmp_path: Path, path: str) -> None:
    room = tmp_path / "room"
    room.mkdir()
    (room / "link").symlink_to(tmp_path)

    output = await outcome(room, "write", path=path)

    assert output.is_error
    assert "approval" in str(output.for_model)


async def test_without_a_workspace_and_without_marked_paths_writing_asks(tmp_path: Path) -> None:
    assert (await outcome(None, "write", path="a.txt")).is_error
    assert (await outcome(tmp_path, "save", text="x")).is_error


async def test_another_effect_beside_writing_still_asks(tmp_path: Path) -> None:
    assert (await outcome(tmp_path, "build", path="a.txt")).is_error


def test_every_path_of_a_list_counts(tmp_path: Path) -> None:
    many = {"properties": {"paths": {"type": "array", "format": "path"}}}

    assert stays_inside(many, b'{"paths":["a","b/c"]}', str(tmp_path))
    assert not stays_inside(many, b'{"paths":["a","../c"]}', str(tmp_path))
    assert not stays_inside(many, b'{"paths":[]}', str(tmp_path))


def test_the_root_of_all_files_confines_nothing_out() -> None:
    assert stays_inside(ONE, b'{"path":"etc/x"}', "/")


async def test_what_is_asked_is_told_to_the_model(tmp_path: Path) -> None:
    model = ScriptedModel(call("write", path="../x"))
    options = {"plugins": [model], "installed": False, "strict": True, "workspace": tmp_path}
    async with Host.open(model="scripted/m", tools=[write], **options) as host, await host.session() as session:
        result = await session.say("go")

    assert result.why == "denied"
    assert "outside the workspace" in result.detail
