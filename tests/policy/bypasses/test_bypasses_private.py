"""Attempts to get at what the host keeps for itself, and to have it forget a policy (rules 14 and 32)."""

import json
import os
import shutil
from pathlib import Path
from typing import Annotated, Any

import pytest
from cli_support import Cli
from each_of import each_of
from fake_distributions import POLICY, install
from hypothesis import given, strategies as st
from pluggent_function_tools.arguments import canonical
from pluggent_hookspecs import Param, ToolContext, tool
from pluggent_hookspecs.events import ApprovalEvent
from pluggent_host import Host
from pluggent_host.tools.workspace_guard import Protected
from pluggent_testing.fakes import ScriptedModel


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """Return a folder of state, with a link and a workspace beside it."""
    (tmp_path / "state" / "sessions").mkdir(parents=True)
    (tmp_path / "state" / "sessions" / "s.jsonl").write_text("")
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "link").symlink_to(tmp_path / "state" / "sessions")
    return tmp_path / "state"


def holds(state: Path, value: object, *schema: Any) -> bool:
    arguments = canonical(value if schema else {"value": value})
    return bool(Protected((str(state / "sessions"),)).holds(arguments, str(state.parent / "work"), *schema))


@each_of(
    "text",
    [
        "{sessions}/s.jsonl", "  {sessions}/s.jsonl", "{sessions}\n", "{sessions}\0.txt", "{sessions}/s.jsonl\0",
        "/" + "/." * 3000 + "{sessions}/s.jsonl", "{sessions}" + "/x/.." * 2000, "//{sessions}/s.jsonl",
        "{sessions}" + "/" * 5000, "{sessions}/" + "y" * 5000 + "/..", "./" * 3000 + "link/s.jsonl",
        "FILE:{sessions}", "file:{sessions}/s.jsonl", "File:///{sessions}", "file://LOCALHOST{sessions}/x",
        "file://127.0.0.1{sessions}/x", "file://user@[::1]:80{sessions}/x", " file://{sessions}/s.jsonl",
        "file://{sessions}/s.jsonl?a=b#c", "file://{encoded}", "file:../state/sessions/s.jsonl",
        "/proc/self/{top}{sessions}", "/proc/thread-self/{top}/{sessions}", "/proc/self/cwd/{fromhere}",
        "link/s.jsonl", "./link/../sessions/x", "../state//./sessions", "{upper}/S.JSONL", "../STATE/Sessions",
    ],
)  # fmt: skip
def test_a_private_place_is_found_however_it_is_written(state: Path, text: str):
    sessions = str(state / "sessions")

    assert holds(state, text.format(
        sessions=sessions, encoded="".join(f"%{ord(letter):02X}" if letter != "/" else "/" for letter in sessions),
        upper=sessions.upper(), fromhere=os.path.relpath(sessions), top="root",
    ))  # fmt: skip


@pytest.mark.parametrize(
    "text", ["sessions", "SESSIONS", " sessions\n", "sessions/..//sessions", "sub", "more", "s.jsonl"]
)
def test_a_single_name_is_a_path_too(state: Path, text: str, monkeypatch: pytest.MonkeyPatch):
    (state / "sub").symlink_to("sessions")
    (state / "more").symlink_to("sub")
    protected = Protected((str(state / "sessions"),))
    here = state / "sessions" if text == "s.jsonl" else state
    monkeypatch.chdir(here)

    assert protected.holds(canonical({"path": text}), str(here))
    assert protected.holds(canonical({"path": text}), "")
    assert not protected.holds(canonical({"path": "other"}), str(state))


def test_a_name_that_the_tool_does_not_declare_may_be_a_path_and_a_link_made_between_two_looks_is_seen(state: Path):
    def seen(value: object, *declared: str) -> bool:
        return holds(state, value, {"properties": {name: {} for name in declared}})

    assert not holds(state, "new")
    (state.parent / "work" / "new").symlink_to(state / "sessions")

    assert holds(state, "new")
    assert seen({"new": 1}, "old")
    assert seen({"old": {"new": 1}}, "old", "new")
    assert seen({"new": "new"}, "new")
    assert not seen({"new": "x"}, "new")


def test_letters_that_are_written_in_two_parts_are_the_same_to_some_file_systems(tmp_path: Path):
    protected = Protected((str(tmp_path / "st\u00e4te"),))

    assert protected.holds(canonical({"path": str(tmp_path / "sta\u0308te" / "x")}), "")
    assert protected.holds(canonical({"path": str(tmp_path / "STA\u0308TE" / "x")}), "")


def test_a_private_place_is_found_wherever_it_stands_as_a_name_too(state: Path):
    sessions = str(state / "sessions")

    for value in (
        {f"{sessions}/s.jsonl": "content"}, {"files": {sessions: None}}, [[[sessions]]],
        [{"a": [{"b": {f"{sessions}/x": 1}}]}], {"a": "b", sessions: 1},
    ):  # fmt: skip
        assert holds(state, value), value


@each_of(
    "text",
    ["", "\0", " ", "file:", "file://", "file:///", "file://host", "x" * 100_000, "/" * 100_000, "sessions",
     "../sessions", "{}2", "{}.bak", "http://host{}/x", "see {}", "a:b", "~", "~no-user-of-this-name/x"],
)  # fmt: skip
def test_what_leads_elsewhere_is_left_alone(state: Path, text: str):
    assert not holds(state, text.format(state / "sessions"))


@given(st.text(st.sampled_from("./\\%2eEx \0~:file"), max_size=30))
def test_no_text_at_all_breaks_the_look_at_it(text: str):
    protected = Protected(("/srv/state/sessions",))
    held = protected.holds(canonical({text: [text, f"/srv/state/sessions/{text}", f"file:{text}"]}), "/srv/work")

    assert held in ("", "/srv/state/sessions")
    assert held or ".." in text


def test_a_policy_whose_plugin_stays_without_its_hooks_is_missed(tmp_path: Path):
    cli = Cli(tmp_path)
    install(cli.site, "acme-policy", {"hooks/policy": "acme_policy:Plugin"}, modules={"acme_policy": POLICY})
    assert cli("trust", "--plugin", "acme-policy==1.0").code == 0
    assert cli("run", "hello").code == 0
    shutil.rmtree(next(cli.site.glob("acme_policy-*.dist-info")))
    install(cli.site, "acme-policy", {"tools/policy": "acme_policy:Plugin"}, modules={"acme_policy": POLICY})

    done = cli("run", "--safe", "hello")

    assert done.code == 2
    assert "plugin 'acme-policy' has hooks and ran here before" in done.err


@pytest.mark.parametrize(("path", "effects", "asked"), [
    ("state", ["filesystem_write"], True),
    (".", ["filesystem_write"], True),
    ("STATE", ["destructive"], True),
    ("work/link/../../state", ["filesystem_write"], True),
    (".", ["filesystem_read"], False),
    ("work", ["filesystem_write"], False),
    ("/", None, False),
])  # fmt: skip
async def test_what_holds_private_files_is_moved_only_if_a_person_agrees(
    state: Path, path: str, effects: list[str] | None, asked: bool
):
    seen: list[str] = []

    @tool(effects=effects)
    def move(path: Annotated[str, Param(format="path")]) -> str:
        """Move a folder."""
        return "moved"

    def refuse(event: ApprovalEvent) -> bool:
        seen.append(event.asks[0][1])
        return False

    async with Host.open(
        model="scripted/m", plugins=[ScriptedModel()], tools=[move], installed=False, approver=refuse,
        state_dir=state, workspace=state.parent,
    ) as host, await host.session() as session:  # fmt: skip
        output = await session.call_tool("move", {"path": path})

    assert output.is_error is asked
    assert all(why.endswith("holds what pluggent keeps for itself: sessions and approvals") for why in seen)
    assert bool(seen) is asked


async def test_a_tool_is_told_which_folders_are_private(state: Path):
    @tool(effects=())
    def look(context: ToolContext) -> list[str]:
        """Say what is private."""
        return [each.name for each in context.private_folders if each.parent == state]

    async with Host.open(
        model="scripted/m", plugins=[ScriptedModel()], tools=[look], installed=False, state_dir=state
    ) as host, await host.session() as session:  # fmt: skip
        output = await session.call_tool("look", {})

    assert {"sessions", "logins", "trust.json"} <= set(json.loads(str(output.for_model)))
