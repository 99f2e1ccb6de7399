"""What the host keeps for itself, sessions, approvals and their key, is for no tool (policy 32)."""

from pathlib import Path
from typing import Any

import pytest
from pluggent_hookspecs import ToolOutput, hookimpl, tool
from pluggent_hookspecs.decisions import Allow
from pluggent_host import Host
from pluggent_testing.fakes import ScriptedModel, call


class Agrees:
    """The operator's rule allows everything; a person does, too."""

    @hookimpl
    def decide_tool_call(self, event: Any) -> Allow:
        return Allow()


async def outcome(folder: Path, effects: Any, **arguments: Any) -> ToolOutput:
    (folder / "work").mkdir(exist_ok=True)
    (folder / "work" / "link").symlink_to(folder / "state")

    @tool(effects=effects)
    async def use(path: str = "", more: list[dict[str, str]] | None = None) -> str:
        """Use a file."""
        return "used"

    opening = Host.open(
        model="scripted/m", plugins=[ScriptedModel(call("use"), "x"), Agrees()], tools=[use], installed=False,
        state_dir=folder / "state", workspace=folder / "work", approver=lambda _: True,
    )  # fmt: skip
    async with opening as host, await host.session("s") as session:
        return await session.call_tool("use", arguments)


READS, WRITES = ("filesystem_read",), ("filesystem_write",)


@pytest.mark.parametrize("effects", [READS, WRITES, ("destructive",), None])
@pytest.mark.parametrize(
    "path",
    [
        "{state}/sessions/s.jsonl", "{state}/sessions/approvals.json.key", "{state}/sessions", "{state}/trust.json.key",
        "{state}/logins/web.json", "../state/sessions/s.jsonl", "link/sessions/x", "file://{state}/sessions/s.jsonl",
        "file://localhost{state}/sessions/s%2Ejsonl", "{state}/./x/../hooks.json",
    ],
)  # fmt: skip
async def test_no_tool_gets_at_it_whatever_is_allowed(tmp_path: Path, effects: Any, path: str):
    output = await outcome(tmp_path, effects, path=path.format(state=tmp_path / "state"))

    assert output.for_model == "Denied: this is what pluggent keeps for itself: sessions and approvals are for no tool"


async def test_a_path_is_found_wherever_it_stands(tmp_path: Path):
    output = await outcome(tmp_path, READS, more=[{"from": "x", "to": str(tmp_path / "state" / "sessions")}])

    assert output.is_error


async def test_a_home_folder_is_a_path_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HOME", str(tmp_path))

    assert (await outcome(tmp_path, READS, path="~/state/sessions/s.jsonl")).is_error


@pytest.mark.parametrize(
    "path", ["notes.txt", "{state}/mine.txt", "{state}/sessions2", "", "a\0b", "x" * 5000, "http://a/b"]
)
async def test_all_else_is_as_ever(tmp_path: Path, path: str):
    output = await outcome(tmp_path, READS, path=path.format(state=tmp_path / "state"))

    assert output.for_model == "used"


async def test_tools_that_know_no_files_may_speak_of_it(tmp_path: Path):
    output = await outcome(tmp_path, ("messaging",), path=str(tmp_path / "state" / "sessions"))

    assert output.for_model == "used"
