"""Paths that lead out of the workspace, and what swaps them while a call runs: nothing outside is read or changed."""

import os
import secrets
from contextlib import suppress
from pathlib import Path

import pytest
from file_hands import Hands, tree
from pluggent_hookspecs import ToolError
from pluggent_workspace_files import atomic, reach

SECRET = "precious secret\n"
CALLS = {
    "read_file": {},
    "list_files": {},
    "find_files": {"glob": "*"},
    "search_files": {"pattern": "secret"},
    "edit_file": {"edits": [{"old_text": "precious", "new_text": "x"}]},
    "write_file": {"content": "x"},
    "delete_file": {"recursive": True},
    "restore_file": {"content": "x", "sha256": ""},
}
TRAVERSALS = [
    "../outside/a.txt", "../outside", "./../outside/a.txt", "src/../../outside/a.txt", "src/../..//outside//a.txt",
    "{outside}/a.txt", "{outside}", "/", "/etc", "//{outside}/a.txt", "..", "../", "../../..", "src/../..",
    "link-out/a.txt", "link-out", "src/link-up/outside/a.txt", "link-file", "~", "~/a.txt", "chain/a.txt",
    "src/./link-up/./outside/./a.txt", "link-out/../outside/a.txt", "/proc/self/cwd/../outside/a.txt",
    "/proc/self/root{outside}/a.txt", "/dev/fd/0", "/proc/self/environ",
]  # fmt: skip


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "a.txt").write_text(SECRET)
    return folder


@pytest.fixture
def hands(tmp_path: Path, outside: Path) -> Hands:
    workspace = tmp_path / "workspace"
    (workspace / "src").mkdir(parents=True)
    (workspace / "src" / "a.txt").write_text("mine\n")
    (workspace / "link-out").symlink_to(outside)
    (workspace / "link-file").symlink_to(outside / "a.txt")
    (workspace / "src" / "link-up").symlink_to("../..")
    (workspace / "chain").symlink_to("link-out")
    return Hands(workspace)


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("path", TRAVERSALS)
def test_what_lies_outside_is_not_reached_without_a_person(hands, outside, name, path):
    before = tree(outside.parent)
    path = path.format(outside=outside)
    is_link_itself = name == "delete_file" and path in ("link-out", "link-file")  # it lies inside

    try:
        said = hands(name, path=path, **CALLS[name])
    except ToolError as error:
        said = str(error)
        assert not is_link_itself
    else:
        assert is_link_itself

    assert SECRET.strip() not in said
    assert tree(outside.parent) == before


@pytest.mark.parametrize("path", TRAVERSALS)
def test_nothing_is_moved_out_or_in_without_a_person(hands, outside, path):
    before = tree(outside.parent)
    path = path.format(outside=outside)

    with pytest.raises(ToolError):
        hands("move_file", path="src/a.txt", to=f"{path}/b.txt")
    if path not in ("link-out", "link-file"):  # the links themselves lie inside
        with pytest.raises(ToolError):
            hands("move_file", path=path, to="src/b.txt")
    assert tree(outside.parent) == before


@pytest.mark.parametrize("name", ["list_files", "find_files", "search_files"])
def test_a_walk_follows_no_link(hands, name):
    arguments = {"list_files": {"depth": 20}, "find_files": {"glob": "*.txt"}, "search_files": {"pattern": "e"}}[name]

    said = hands(name, **arguments)

    assert "link-out/" not in said
    assert SECRET.strip() not in said
    assert "src/a.txt" in said


def test_a_path_with_nul_is_refused(hands):
    with pytest.raises(ToolError, match="NUL"):
        hands("read_file", path="src/a.txt\0.png")


@pytest.mark.parametrize("name", ["read_file", "edit_file", "write_file", "delete_file"])
def test_a_link_in_a_ring_or_to_nowhere_is_an_error(hands, name):
    (hands.workspace / "a").symlink_to("b")
    (hands.workspace / "b").symlink_to("a")
    before = tree(hands.workspace)

    with pytest.raises(ToolError):
        hands(name, path="a/c", **CALLS[name])
    assert tree(hands.workspace) == before


# Races: a folder is swapped for a link after the path was looked at


@pytest.mark.parametrize("name", [name for name in CALLS if name != "restore_file"])
def test_a_folder_that_is_swapped_for_a_link_leads_nowhere(hands, outside, monkeypatch, name):
    place = reach.Reach.place

    def and_then(self, path, **more):
        found = place(self, path, **more)
        if (hands.workspace / "src").is_dir() and not (hands.workspace / "src").is_symlink():
            (hands.workspace / "src").rename(hands.workspace / "away")
            (hands.workspace / "src").symlink_to(outside)
        return found

    monkeypatch.setattr(reach.Reach, "place", and_then)
    before = tree(outside)
    path = "src" if name in ("list_files", "find_files", "search_files") else "src/a.txt"

    with pytest.raises(ToolError, match=r"replaced|does not exist|could not|is outside|link"):
        hands(name, path=path, **CALLS[name])
    assert tree(outside) == before


def test_a_folder_that_is_swapped_between_reading_and_writing_leads_nowhere(hands, outside, monkeypatch):
    folder_of = atomic.folder_of

    def after_a_swap(*arguments):
        (hands.workspace / "src").rename(hands.workspace / "away")
        (hands.workspace / "src").symlink_to(outside)
        return folder_of(*arguments)

    monkeypatch.setattr(atomic, "folder_of", after_a_swap)
    before = tree(outside)

    with pytest.raises(ToolError):
        hands.edit("src/a.txt", "mine", "x")
    assert tree(outside) == before


def test_a_file_that_is_swapped_for_a_link_is_not_followed(hands, outside, monkeypatch):
    place = reach.Reach.place

    def and_then(self, path, **more):
        found = place(self, path, **more)
        (hands.workspace / "src" / "a.txt").unlink()
        (hands.workspace / "src" / "a.txt").symlink_to(outside / "a.txt")
        return found

    monkeypatch.setattr(reach.Reach, "place", and_then)

    with pytest.raises(ToolError, match=r"is a link, not a file"):
        hands("read_file", path="src/a.txt")


def test_a_folder_that_is_swapped_in_a_walk_is_not_followed(hands, outside, monkeypatch):
    scandir = os.scandir

    def and_then(folder):
        found = list(scandir(folder))
        if any(entry.name == "src" for entry in found):
            (hands.workspace / "src").rename(hands.workspace.parent / "away")
            (hands.workspace / "src").symlink_to(outside)

        class Found(list):
            def __enter__(self):
                return self

            def __exit__(self, *_):
                pass

        return Found(found)

    monkeypatch.setattr(os, "scandir", and_then)

    assert "no match" in hands("search_files", pattern="secret")


def test_a_link_that_is_left_for_the_temporary_file_is_not_followed(hands, outside, monkeypatch):
    monkeypatch.setattr(secrets, "token_hex", lambda _: "0")
    (hands.workspace / "src" / ".a.txt.0.tmp").symlink_to(outside / "a.txt")

    with pytest.raises(ToolError):
        hands.edit("src/a.txt", "mine", "x")
    assert tree(outside) == {"a.txt": SECRET.encode()}


# What a person agreed to


@pytest.mark.parametrize("name", [name for name in CALLS if name not in ("restore_file", "write_file")])
def test_what_a_person_agreed_to_is_done_outside(hands, outside, name):
    path = outside if name in ("list_files", "find_files") else outside / "a.txt"

    output = hands.approved(name, path=str(path), **{**PREVIEWED.get(name, {}), **CALLS[name]})

    assert not output.is_error


PREVIEWED = {
    "find_files": {"include_ignored": False, "skip": 0},
    "search_files": {
        "glob": "", "ignore_case": False, "literal": False, "context_lines": 0, "files_only": False,
        "include_ignored": False, "skip": 0,
    },
}  # fmt: skip


def test_an_approval_is_for_what_was_shown_alone(hands, outside):
    edits = [{"old_text": "precious", "new_text": "x"}]
    hands.context.approved_state = hands.preview("edit_file", path=str(outside / "a.txt"), edits=edits).state
    (outside / "a.txt").write_text("precious, and more\n")

    with pytest.raises(ToolError, match="has changed since a person agreed to this call, so nothing was done"):
        hands("edit_file", path=str(outside / "a.txt"), edits=edits)
    assert (outside / "a.txt").read_text() == "precious, and more\n"


def test_an_approval_does_not_follow_a_swapped_link(hands, outside):
    other = outside.parent / "other"
    other.mkdir()
    (other / "a.txt").write_text(SECRET)
    hands.context.approved_state = hands.preview("delete_file", path="link-out/a.txt").state
    (hands.workspace / "link-out").unlink()
    (hands.workspace / "link-out").symlink_to(other)

    with pytest.raises(ToolError, match="has changed since a person agreed"):
        hands("delete_file", path="link-out/a.txt")
    assert tree(other) == {"a.txt": SECRET.encode()}


def test_a_read_that_a_person_agreed_to_does_not_follow_a_swapped_link(hands, outside):
    hands.context.approved_state = hands.preview("read_file", path="link-file").state
    (hands.workspace / "link-file").unlink()
    (hands.workspace / "link-file").symlink_to("/etc/passwd")

    with pytest.raises(ToolError, match="is outside the workspace"):
        hands("read_file", path="link-file")


def test_an_approved_change_inside_is_what_was_shown_too(hands):
    hands.context.approved_state = hands.preview("write_file", path="src/new.txt", content="shown\n").state

    with pytest.raises(ToolError, match="has changed since a person agreed"):
        hands("write_file", path="src/new.txt", content="not shown\n")


@pytest.mark.parametrize("name", ["read_folders", "write_folders"])
def test_a_folder_of_the_settings_is_reached(hands, outside, name):
    hands = Hands(hands.workspace, **{name: [str(outside)]})

    assert hands("read_file", path=str(outside / "a.txt")) == "1\tprecious secret"
    if name == "write_folders":
        hands.edit(str(outside / "a.txt"), "precious", "x")
        assert (outside / "a.txt").read_text() == "x secret\n"
    else:
        with pytest.raises(ToolError, match="write_folders"):
            hands.edit(str(outside / "a.txt"), "precious", "x")


# What decides what runs, and what is the host's own


@pytest.mark.parametrize(
    "path",
    [
        ".git/hooks/pre-commit", "sub/.git/config", "pluggent.toml", "src/pluggent.toml", ".mcp.json", ".GIT/config",
        ".husky/pre-commit", ".git\u200b/config", "git~1/config", "PLUGGENT.TOML", ".git /config",
    ],
)  # fmt: skip
def test_what_decides_what_runs_is_written_only_as_agreed(hands, path):
    before = tree(hands.workspace)

    with pytest.raises(ToolError, match="decides what runs here"):
        hands("write_file", path=path, content="x")
    with pytest.raises(ToolError, match="decides what runs here"):
        hands("move_file", path="src/a.txt", to=path)
    assert tree(hands.workspace) == before

    assert not hands.approved("write_file", path=path, content="x").is_error


BARE = ["HEAD", "config", "objects/x", "refs/heads/x", "hooks/pre-commit"]


@pytest.mark.parametrize("order", [BARE, BARE[::-1]])
@pytest.mark.parametrize("below", ["", "src/deep/"])
def test_a_repository_without_its_folder_is_not_made_unasked(hands, order, below):
    for name in order:
        with suppress(ToolError):
            hands("write_file", path=below + name, content="x")

    made = {name for name in ("HEAD", "objects", "refs") if (hands.workspace / below / name).exists()}
    assert len(made) == 1


def test_a_repository_is_not_made_by_moving_its_parts(hands):
    for name in ("HEAD", "a/x", "b/x"):
        hands("write_file", path=name, content="x")

    with pytest.raises(ToolError, match="decides what runs here"):
        hands("move_file", path="a", to="objects")
    assert not (hands.workspace / "objects").exists()


def test_the_config_of_a_repository_without_its_folder_is_written_only_as_agreed(hands):
    for name in ("HEAD", "objects/x", "refs/x"):
        (hands.workspace / "bare" / name).parent.mkdir(parents=True, exist_ok=True)
        (hands.workspace / "bare" / name).write_text("x")

    with pytest.raises(ToolError, match="decides what runs here"):
        hands("write_file", path="bare/config", content="x")
    assert not hands.approved("write_file", path="bare/config", content="x").is_error


@pytest.mark.parametrize(
    "named", ["tools/hooks", "./tools/hooks/", '"tools/hooks"', "{root}/tools/hooks", "tools/link"]
)
def test_hooks_that_the_config_of_git_names_are_written_only_as_agreed(hands, named):
    (hands.workspace / ".git").mkdir()
    (hands.workspace / "tools" / "hooks").mkdir(parents=True)
    (hands.workspace / "tools" / "link").symlink_to("hooks")
    config = f"[user]\n\tname = x\n[core]\n\thooksPath = {named.format(root=hands.workspace)}\n"
    (hands.workspace / ".git" / "config").write_text(config)

    with pytest.raises(ToolError, match="decides what runs here"):
        hands("write_file", path="tools/hooks/pre-commit", content="x")
    with pytest.raises(ToolError, match="decides what runs here"):
        hands("move_file", path="src/a.txt", to="tools/hooks/pre-commit")
    hands("write_file", path="tools/other", content="x")


@pytest.mark.parametrize("section", ["[include]", '[includeIf "gitdir:**"]'])
def test_a_config_that_the_config_of_git_includes_is_written_only_as_agreed(hands, section):
    (hands.workspace / ".git").mkdir()
    (hands.workspace / ".git" / "config").write_text(f"{section}\n\tpath = ../.gitconfig\n")

    with pytest.raises(ToolError, match="decides what runs here"):
        hands("write_file", path=".gitconfig", content="x")
    hands("write_file", path="src/.gitconfig", content="x")


def test_what_decides_what_runs_in_a_folder_of_the_settings_is_guarded_too(hands, outside):
    hands = Hands(hands.workspace, write_folders=[str(outside)])

    with pytest.raises(ToolError, match="decides what runs here"):
        hands("write_file", path=str(outside / ".git" / "config"), content="x")


def test_a_link_to_what_decides_what_runs_is_no_way_around(hands):
    (hands.workspace / ".git").mkdir()
    (hands.workspace / "notes").symlink_to(".git")

    with pytest.raises(ToolError, match="decides what runs here"):
        hands("write_file", path="notes/config", content="x")


def test_code_that_this_process_imports_is_written_only_as_agreed(hands, monkeypatch):
    monkeypatch.syspath_prepend(hands.workspace / "src")

    with pytest.raises(ToolError, match="decides what runs here"):
        hands("write_file", path="src/attrs.py", content="x")


@pytest.mark.parametrize("name", CALLS)
def test_the_sessions_of_the_host_are_for_no_tool(tmp_path, monkeypatch, name):
    state = tmp_path / ".local" / "state" / "pluggent"
    state.mkdir(parents=True)
    (state / "a.txt").write_text(SECRET)
    monkeypatch.setenv("HOME", str(tmp_path))
    hands = Hands(tmp_path, write_folders=["/"])
    before = tree(tmp_path)

    with pytest.raises(ToolError, match="pluggent keeps for itself"):
        hands(name, path=str(state / "a.txt"), **CALLS[name])
    if name in PREVIEWED or name in ("read_file", "write_file", "delete_file", "edit_file"):
        more = {**PREVIEWED.get(name, {}), **CALLS[name]}
        with pytest.raises(ToolError, match="pluggent keeps for itself"):
            hands.preview(name, path=str(state / "a.txt"), **more)
    assert tree(tmp_path) == before


@pytest.mark.parametrize("folder", [".config", ".local/share", ".local/state"])
def test_settings_in_the_home_folder_are_for_no_tool(tmp_path, monkeypatch, folder):
    (tmp_path / folder / "pluggent").mkdir(parents=True)
    (tmp_path / folder / "pluggent" / "pluggent.toml").write_text(SECRET)
    monkeypatch.setenv("HOME", str(tmp_path))
    hands = Hands(tmp_path)

    with pytest.raises(ToolError, match="pluggent keeps for itself"):
        hands("read_file", path=f"{folder}/pluggent/pluggent.toml")
    with pytest.raises(ToolError, match="pluggent keeps for itself"):
        hands("move_file", path=folder, to="c2")
    assert "no match" in hands("search_files", pattern="secret")


@pytest.mark.parametrize("ripgrep", ["auto", "never"])
def test_the_sessions_of_the_host_are_not_walked_moved_or_deleted(tmp_path, monkeypatch, ripgrep):
    state = tmp_path / ".local" / "state" / "pluggent"
    state.mkdir(parents=True)
    (state / "a.txt").write_text(SECRET)
    monkeypatch.setenv("HOME", str(tmp_path))
    hands = Hands(tmp_path, ripgrep=ripgrep)

    assert "no match" in hands("search_files", pattern="secret", include_ignored=True)
    assert "a.txt" not in hands("find_files", glob="**/*", include_ignored=True)
    with pytest.raises(ToolError, match="pluggent keeps for itself"):
        hands("move_file", path=".local", to="other")
    with pytest.raises(ToolError, match="pluggent keeps for itself"):
        hands("delete_file", path=".local", recursive=True)


def test_a_workspace_that_is_a_link_is_where_it_leads(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    hands = Hands(tmp_path / "link")

    hands("write_file", path="a.txt", content="x\n")

    assert tree(tmp_path / "real") == {"a.txt": b"x\n"}
    assert hands("list_files") == "a.txt  2"


def test_without_a_workspace_it_is_the_working_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    hands = Hands(tmp_path)
    hands.context.workspace = None

    hands("write_file", path="a.txt", content="x\n")

    assert tree(tmp_path) == {"a.txt": b"x\n"}
    with pytest.raises(ToolError, match="outside the workspace"):
        hands("write_file", path="../a.txt", content="x\n")
