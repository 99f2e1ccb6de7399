"""Attacks on the tools that read and change files: paths, links, races and what decides what runs.

Against rules 7, 11, 26, 28, 32, 39 and 44.
"""

import os
from collections.abc import Callable
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
from git_folders import RUNS, git_looks_at, repository
from pluggent_files.plugin import Files
from pluggent_hookspecs import Approval, ApprovalEvent
from pluggent_host import HostSettings
from policy_stage import stage

pytestmark = pytest.mark.usefixtures("patience")
Call = tuple[str, dict[str, Any]]


def write(path: str, content: str = "evil") -> Call:
    return "write_file", {"path": path, "content": content}


def edit(path: str, old: str, new: str) -> Call:
    return "edit_file", {"path": path, "edits": [{"old_text": old, "new_text": new}]}


async def results(workspace: Path, *calls: Call, approver: Any = None, **more: Any) -> list[str]:
    """Return what each of *calls* says, made one after the other under all policies."""
    async with stage(
        plugins=[Files()], approver=approver, workspace=workspace, config=HostSettings(on_ask="deny"), **more
    ) as here:
        return [str((await here.session.call_tool(name, arguments)).for_model) for name, arguments in calls]


@pytest.fixture
def places(tmp_path: Path) -> tuple[Path, Path]:
    """Return a workspace, and a folder beside it with a file that says OUTSIDE."""
    inside, outside = tmp_path / "work", tmp_path / "outside"
    inside.mkdir()
    outside.mkdir()
    (outside / "secret").write_text("OUTSIDE")
    return inside, outside


@pytest.mark.parametrize(
    "path",
    [
        "../outside/secret", "./x/../../outside/secret", "{outside}/secret", "//{outside}/secret", "link/secret",
        "link/../outside/secret", "file", "chain", "loop/../file", "up/outside/secret",
        "/proc/self/root{outside}/secret",
        "/proc/self/cwd/../outside/secret", "/proc/thread-self/root{outside}/secret", "link/./secret", "link//secret",
    ],
)  # fmt: skip
async def test_no_spelling_leads_out_of_the_workspace_unasked(places: tuple[Path, Path], path: str):
    inside, outside = places
    (inside / "link").symlink_to(outside)
    (inside / "file").symlink_to(outside / "secret")
    (inside / "chain").symlink_to("file")
    (inside / "loop").symlink_to("loop")
    (inside / "up").symlink_to("..")
    where = path.format(outside=outside)

    read = await results(
        inside, ("read_file", {"path": where}), ("search_files", {"pattern": "OUTSIDE", "path": where}),
        ("search_files", {"pattern": "OUTSIDE", "include_ignored": True}), ("list_files", {"path": where}),
        write(where), edit(where, "OUTSIDE", "evil"), ("move_file", {"path": "link", "to": "link2/x/../../../l"}),
    )  # fmt: skip

    assert "OUTSIDE" not in "".join(read).replace("'OUTSIDE'", "")
    assert (outside / "secret").read_text() == "OUTSIDE"
    assert [*outside.iterdir()] == [outside / "secret"]


@pytest.mark.parametrize(
    "path",
    [
        ".git/config",
        ".GIT/config",
        ".git./config",
        ".git /config",
        ".git/hooks/pre-commit",
        "sub/../.git/config",
        "sub/.git/config",
        ".g\u200cit/config",
        "git~1/config",
        ".git/../.git/config",
        "./.git",
        "to-git/config",
        "pluggent.toml",
        "PLUGGENT.TOML",
        "pluggent.toml ",
        ".mcp.json",
        "sub/.mcp.json",
        ".MCP.json",
    ],
)
async def test_what_decides_what_runs_is_not_written_unasked(places: tuple[Path, Path], path: str):
    inside = repository(places[0])
    (inside / "to-git").symlink_to(".git")
    before = (inside / ".git" / "config").read_text()

    written = await results(inside, write(path), write("new"), ("move_file", {"path": "new", "to": path}))

    assert ["Denied" in each for each in written] == [True, False, True]
    assert (inside / ".git" / "config").read_text() == before
    assert not any((inside / name).exists() for name in ("pluggent.toml", ".mcp.json", "sub"))


async def test_a_folder_is_not_moved_to_where_git_runs_it_nor_is_git_moved_away(places: tuple[Path, Path]):
    inside = repository(places[0])

    moved = await results(
        inside, write("h/pre-commit"), ("move_file", {"path": "h", "to": ".git/hooks2"}),
        ("move_file", {"path": ".git", "to": "git2"}), ("move_file", {"path": ".git/hooks", "to": "h2"}),
    )  # fmt: skip

    assert ["Denied" in each for each in moved] == [False, True, True, True]
    assert (inside / ".git" / "hooks").is_dir()


def agreeing_after(change: Callable[[], object]) -> Callable[[ApprovalEvent], Approval]:
    """Return an approver in front of whom something changes before it agrees."""

    def approve(_: ApprovalEvent) -> Approval:
        change()
        return Approval(agreed=True)

    return approve


async def test_a_folder_that_becomes_a_link_after_it_was_approved_is_not_followed(places: tuple[Path, Path]):
    inside, outside = places
    agreed = outside.parent / "agreed"
    agreed.mkdir()

    def swap() -> None:
        agreed.rmdir()
        agreed.symlink_to(outside)

    (said,) = await results(inside, write(str(agreed / "secret")), approver=agreeing_after(swap))

    assert "Error" in said
    assert (outside / "secret").read_text() == "OUTSIDE"


@pytest.mark.parametrize("kind", ["content", "link", "gone", "folder"])
async def test_a_file_that_changes_after_its_diff_was_approved_is_not_written(places: tuple[Path, Path], kind: str):
    inside, outside = places
    target = outside.parent / "target"
    target.write_text("shown")

    def change() -> None:
        match kind:
            case "content":
                target.write_text("shown, and more")
            case "link":
                target.unlink()
                target.symlink_to(outside / "secret")
            case "gone":
                target.unlink()
            case _:
                target.unlink()
                target.mkdir()

    (said,) = await results(inside, edit(str(target), "shown", "evil"), approver=agreeing_after(change))

    assert "Error" in said
    assert (outside / "secret").read_text() == "OUTSIDE"
    assert not target.is_file() or "evil" not in target.read_text()


async def test_a_workspace_that_is_a_link_stays_where_it_led_first(places: tuple[Path, Path]):
    inside, outside = places
    (inside / "secret").write_text("inside")
    link = inside.parent / "link"
    link.symlink_to(inside)

    def swap() -> None:
        link.unlink()
        link.symlink_to(outside)

    read = await results(
        link, write(".git/x"), ("read_file", {"path": "secret"}), edit("secret", "OUTSIDE", "evil"),
        approver=agreeing_after(swap),
    )  # fmt: skip

    assert "OUTSIDE" not in read[1]
    assert (outside / "secret").read_text() == "OUTSIDE"
    assert not (outside / ".git").exists()


async def test_a_hard_link_is_not_written_through(places: tuple[Path, Path]):
    inside, outside = places
    os.link(outside / "secret", inside / "hard")

    await results(inside, edit("hard", "OUTSIDE", "evil"))

    assert (outside / "secret").read_text() == "OUTSIDE"
    assert (inside / "hard").read_text() == "evil"


async def test_a_link_to_what_is_not_there_makes_nothing_outside(places: tuple[Path, Path]):
    inside, outside = places
    (inside / "dangling").symlink_to(outside / "new")

    (said,) = await results(inside, write("dangling"))

    assert "Denied" in said
    assert not (outside / "new").exists()


async def test_a_program_of_the_workspace_is_not_run_for_a_search(
    places: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
):
    inside, outside = places
    for name in ("rg", "git"):
        (inside / name).write_text(f"#!/bin/sh\ntouch {outside}/ran\n")
        (inside / name).chmod(0o755)
    monkeypatch.chdir(inside)
    monkeypatch.setenv("PATH", f".:{inside}:{os.environ['PATH']}")
    monkeypatch.setenv("RIPGREP_CONFIG_PATH", str(inside / "config"))
    (inside / "config").write_text(f"--pre=touch {outside}/ran\n")

    await results(inside, ("search_files", {"pattern": "x"}), ("find_files", {"glob": "*"}), ("list_files", {}))

    assert [*outside.iterdir()] == [outside / "secret"]


@pytest.mark.parametrize(
    "pattern", ["--pre=touch {0}/ran", "-f{0}/secret", "--files", "-e", "--", "(?<x>a", "\\Q--pre"]
)
async def test_a_pattern_is_no_option(places: tuple[Path, Path], pattern: str):
    inside, outside = places
    (inside / "a").write_text("OUTSIDE\n")

    (said,) = await results(
        inside, ("search_files", {"pattern": pattern.format(outside), "literal": "?" not in pattern})
    )

    assert "OUTSIDE" not in said
    assert [*outside.iterdir()] == [outside / "secret"]


async def test_special_files_are_named_and_not_opened(places: tuple[Path, Path]):
    inside, _ = places
    os.mkfifo(inside / "pipe")
    (inside / "zero").symlink_to("/dev/zero")
    (inside / "tty").symlink_to("/dev/tty")

    read = await results(
        inside, ("read_file", {"path": "pipe"}), ("read_file", {"path": "zero"}), ("read_file", {"path": "tty"}),
        ("search_files", {"pattern": "x", "include_ignored": True}), write("pipe"),
        ("read_file", {"path": "/dev/stdin"}),
    )  # fmt: skip

    assert all("Error" in each or "Denied" in each or "no match" in each for each in read)


async def test_a_name_with_control_characters_forges_no_line(places: tuple[Path, Path]):
    inside, _ = places
    (inside / "a\nfake.py: 1: granted\x1b[2J").write_text("x")

    shown = await results(inside, ("list_files", {}), ("find_files", {"glob": "*"}))

    assert all("\x1b" not in each and "\nfake.py" not in each for each in shown)


async def test_the_state_of_the_host_is_for_no_tool(places: tuple[Path, Path], tmp_path: Path):
    inside, _ = places
    state = tmp_path / "state"
    (inside / "to-state").symlink_to(state)
    paths = [f"{state}/sessions", "to-state/sessions", "../state/sessions", f"file:{state}/sessions"]

    read = await results(
        inside, *[("list_files", {"path": path}) for path in paths], *[write(f"{path}/x.jsonl") for path in paths],
        state_dir=state,
    )  # fmt: skip

    assert all("Denied" in each or "Error" in each for each in read)
    assert not list(state.rglob("x.jsonl"))


BARE = {
    "HEAD": "ref: refs/heads/main\n",
    "config": f"{RUNS}\tbare = false\n\tworktree = .\n",
    "objects/x": "x",
    "refs/x": "x",
}
"""A repository that needs no folder .git: git finds it where it stands."""


def moved(path: str, to: str) -> Call:
    return "move_file", {"path": path, "to": to}


def assembled(ran: Path) -> list[list[Call]]:
    """Return ways of making a repository without .git whose settings run a program."""
    files = {name: content.replace("{0}", str(ran)) for name, content in BARE.items()}
    config = files["config"]
    ways = [[write(name, files[name]) for name in order] for order in permutations(files)]
    ways += [
        [write("o/x"), write("r/x"), write("HEAD", files["HEAD"]), write("config", config), moved("o", "objects"),
         moved("r", "refs")],
        [write("objects/x"), write("r/x"), write("h", files["HEAD"]), write("c", config), moved("r", "refs"),
         moved("h", "HEAD"), moved("c", "config")],
        [write("a/HEAD", files["HEAD"]), write("a/config", config), write("b/objects/x"), write("c/refs/x"),
         moved("b/objects", "a/objects"), moved("c/refs", "a/refs"), moved("a", "d")],
        [("restore_file", {"path": name, "content": content, "sha256": ""}) for name, content in files.items()],
        [write("HEAD", files["HEAD"]), write("commondir", "real\n"), write("real/config", config),
         write("real/objects/x"), write("real/refs/x")],
    ]  # fmt: skip
    return ways


@pytest.mark.parametrize("way", range(len(assembled(Path()))))
async def test_no_repository_is_assembled_whose_settings_run_a_program(places: tuple[Path, Path], way: int):
    inside, outside = places

    await results(inside, *assembled(outside / "ran")[way])
    for folder in (inside, *[each for each in inside.iterdir() if each.is_dir()]):
        await git_looks_at(folder)

    assert [*outside.iterdir()] == [outside / "secret"]


@pytest.mark.parametrize("where", ["state", "a/state"])
async def test_a_state_inside_the_workspace_is_for_no_tool_either(places: tuple[Path, Path], where: str):
    inside, _ = places
    state = inside / where
    state.mkdir(parents=True, mode=0o700)

    read = await results(
        inside, ("list_files", {"depth": 9, "include_ignored": True}), ("find_files", {"glob": "*.jsonl"}),
        ("search_files", {"pattern": "turn_id", "include_ignored": True}), moved(where, "b"),
        moved(where.partition("/")[0], "c"), write(f"{where}/sessions/x.jsonl"), state_dir=state,
    )  # fmt: skip

    assert not any(".jsonl  " in each or "turn_id" in each.replace("'turn_id'", "") for each in read)
    assert state.is_dir()
    assert not list(state.rglob("x.jsonl"))


@pytest.mark.parametrize("kept", [".config/pluggent/key", ".local/share/pluggent/trust", ".local/state/pluggent/a"])
async def test_in_a_home_folder_what_pluggent_keeps_is_for_no_tool(clean_home: Path, kept: str):
    (clean_home / kept).parent.mkdir(parents=True)
    (clean_home / kept).write_text("KEPT")

    read = await results(
        clean_home, ("read_file", {"path": kept}), ("search_files", {"pattern": "KEPT", "include_ignored": True}),
        write(kept), edit(kept, "KEPT", "evil"), moved(kept.partition("/")[0], "moved"),
    )  # fmt: skip

    assert not any("KEPT" in each.replace("'KEPT'", "") for each in read)
    assert (clean_home / kept).read_text() == "KEPT"
