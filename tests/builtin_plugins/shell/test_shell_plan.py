"""What a command gets: its confinement, its environment, and settings that are refused."""

import asyncio
import json
import os
import shutil
import sys
from pathlib import Path

import pytest
from pluggent_process_engine.confinement import HOME_SECRETS
from pluggent_process_engine.program import Confinement, Limits
from pluggent_shell.outputs import MOST_KEPT, Outputs
from pluggent_shell.plan import confinement_of
from pluggent_shell.repositories import MOST_REPOSITORIES, placeholders, repositories, settings_of
from pluggent_shell.settings import ShellSettings
from programs import linux, only, ran


def confinement(workspace: Path, found: tuple[Path, ...] = (), **settings) -> Confinement:
    kept = workspace.parent / "kept" / "s" / "tmp"
    return confinement_of(ShellSettings(**settings), workspace, kept, network=False, required=False, found=found)


@pytest.fixture
def tmp_path(disk_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder on the disk, where the home is too: with hidden files in /dev/shm none of it is permitted."""
    monkeypatch.setenv("HOME", str(disk_path / "home"))
    monkeypatch.setattr("tempfile.tempdir", str(disk_path.parent))
    return disk_path


def test_the_workspace_and_what_the_settings_name_can_be_written(tmp_path):
    wanted = confinement(tmp_path, writable=["~/cache", "/srv/data"])

    assert wanted.writable == (tmp_path, Path.home() / "cache", Path("/srv/data"))


def test_a_workspace_that_is_the_whole_disk_is_not_written():
    assert confinement(Path("/")).writable == ()


def test_keys_and_the_folders_of_pluggent_are_hidden(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", "/elsewhere")
    hidden = confinement(tmp_path, hidden=["~/diary"]).hidden

    assert {Path.home() / name for name in HOME_SECRETS} <= set(hidden)
    assert {Path("/elsewhere/pluggent"), Path.home() / "diary", tmp_path.parent / "kept"} <= set(hidden)


def test_what_decides_what_runs_later_is_read_only(tmp_path, monkeypatch):
    for made in (".git/hooks", ".venv/bin"):
        (tmp_path / made).mkdir(parents=True)
    for made in (".git/config", "pluggent.toml", ".mcp.json", "Makefile"):
        (tmp_path / made).write_text("")
    monkeypatch.setattr(sys, "prefix", str(tmp_path / ".venv"))

    wanted = confinement(tmp_path, found=repositories(tmp_path))

    assert {path.relative_to(tmp_path).as_posix() for path in wanted.read_only} == {
        ".git/hooks", ".git/config", ".git/config.worktree", ".git/commondir", ".git/modules", ".git/worktrees",
        "pluggent.toml", ".mcp.json", ".venv",
    }  # fmt: skip
    assert tmp_path / ".git" in wanted.writable


def test_repositories_in_the_workspace_are_found_and_a_worktree_is_a_file(tmp_path):
    for made in (".git", "a/b/.git", "c", "d/.git/modules/e", "f"):
        (tmp_path / made).mkdir(parents=True)
    (tmp_path / "c" / ".git").write_text("gitdir: elsewhere")
    (tmp_path / "f" / ".git").symlink_to(tmp_path / ".git")

    found = repositories(tmp_path)

    assert {path.relative_to(tmp_path).as_posix() for path in found} == {
        ".git", "a/b/.git", "c/.git", "d/.git", "f/.git",
    }  # fmt: skip
    assert tmp_path / "c" / ".git" in set(settings_of(found))


def test_bare_repositories_and_deep_ones_are_found(tmp_path):
    for made in ("bare/objects", "bare/refs", "a/b/c/d/e/f/.git"):
        (tmp_path / made).mkdir(parents=True)
    (tmp_path / "bare" / "HEAD").write_text("ref: refs/heads/x")

    assert set(repositories(tmp_path)) == {tmp_path / "bare", tmp_path / "a/b/c/d/e/f/.git"}


def test_hooks_elsewhere_and_included_settings_are_read_only_too(tmp_path):
    (tmp_path / ".git").mkdir()
    config = tmp_path / ".git" / "config"
    config.write_text('[core]\n\thooksPath = .husky # ours\n[include]\n\tpath = "../shared"\npath = ..\n')

    assert {tmp_path / ".husky", tmp_path / "shared"} <= set(settings_of([tmp_path / ".git"]))
    assert tmp_path not in set(settings_of([tmp_path / ".git"]))


def test_the_search_for_repositories_is_bounded(tmp_path):
    for number in range(MOST_REPOSITORIES + 20):
        (tmp_path / str(number) / ".git").mkdir(parents=True)

    assert len(repositories(tmp_path)) <= MOST_REPOSITORIES


def test_placeholders_stay_while_any_command_runs_and_own_files_are_left_alone(tmp_path):
    git = tmp_path / ".git"
    git.mkdir()
    (git / "config.worktree").write_text("own")

    with placeholders([git]):
        with placeholders([git]):
            assert (git / "commondir").read_text() == ".\n"
        assert (git / "commondir").exists()

    assert {path.name for path in git.iterdir()} == {"config.worktree", "hooks"}
    assert (git / "config.worktree").read_text() == "own"


REPOSITORY = """
git init -q . && git config user.email a@b.example && git config user.name A
echo all: > Makefile && git add . && git commit -q -m first
"""


@linux
@pytest.mark.skipif(not shutil.which("git"), reason="needs git")
@pytest.mark.parametrize("how", ["bubblewrap", "landlock"])
async def test_git_and_python_work_confined(how, tmp_path):
    work = tmp_path / "work"
    tmp = tmp_path / "kept" / "s" / "tmp"
    work.mkdir()
    tmp.mkdir(parents=True)
    await ran("sh", "-c", REPOSITORY, cwd=work)
    script = (
        "git checkout -q -b next && echo x > new && git add new && git commit -q -m second; git log --oneline | wc -l;"
        "python3 -c 'import tempfile, multiprocessing; tempfile.TemporaryFile(); multiprocessing.Lock(); print(1)'"
    )

    wanted = confinement(work, writable=[str(tmp)])
    env = {"TMPDIR": str(tmp) if how == "landlock" else "/tmp"}  # noqa: S108 (a private one)
    outcome, said = await ran(
        "sh", "-c", script, cwd=work, confinement=wanted, found=only(how), env=env, limits=Limits(wall_s=20)
    )

    assert (outcome.exit_code, said.split()) == (0, ["2", "1"])


@pytest.mark.parametrize(
    "settings",
    [
        {"shell": "/usr/bin/fish"}, {"shell": "sh"}, {"confinement": "never"}, {"env": {"LD_PRELOAD": "x"}},
        {"env": {"a b": "x"}}, {"inherit": "HOME"}, {"inherit": ["a=b"]}, {"timeout_s": 0}, {"max_timeout_s": "1"},
        {"writable": ["relative"]}, {"writable": "/a"}, {"network": "yes"}, {"shown_bytes": 10}, {"processes": 1},
    ],
    ids=str,
)  # fmt: skip
def test_settings_that_mean_nothing_are_refused(settings):
    with pytest.raises((ValueError, TypeError)):
        ShellSettings(**settings)


# Outputs


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


@linux
async def test_an_output_is_for_its_session_alone(folder):
    outputs = Outputs()
    output_id, path = outputs.new("one")
    path.write_text("1\n2\n3\n")

    assert outputs.read("one", output_id, 2, 1, 100) == "2\n"
    for session, name in (("two", output_id), ("one", "../lock"), ("one", "")):
        with pytest.raises(Exception, match="there is no output"):
            outputs.read(session, name, 1, 1, 100)
    await outputs.aclose()
    assert list(folder.iterdir()) == []


@linux
@pytest.mark.parametrize(
    ("content", "first", "lines", "shown"),
    [
        ("a\nb\nc", 3, 9, "c"),
        ("a\nb\n", 3, 9, "[no line 3: the output has 2 lines]"),
        ("x" * 200 + "\nb", 1, 9, "x" * 100 + "\n[cut after 100 bytes; ask for fewer lines, or for line 1 on]"),
        ("", 1, 1, "[no line 1: the output has 0 lines]"),
    ],
)
async def test_lines_of_an_output_are_read_by_their_numbers(content, first, lines, shown, folder):
    outputs = Outputs()
    output_id, path = outputs.new("s")
    path.write_text(content)

    assert outputs.read("s", output_id, first, lines, 100) == shown
    await outputs.aclose()


@linux
async def test_old_outputs_make_way(folder):
    outputs = Outputs()
    made = []
    for _ in range(MOST_KEPT + 3):
        output_id, path = outputs.new("s")
        path.write_text("x")
        made.append(output_id)

    assert len(list(folder.glob("*/*/*.txt"))) == MOST_KEPT
    with pytest.raises(Exception, match="there is no output"):
        outputs.read("s", made[0], 1, 1, 100)
    await outputs.aclose()


@linux
async def test_what_a_killed_host_left_is_removed_and_what_another_one_uses_is_not(folder):
    lost, used = folder / "pluggent-shell-lost", folder / "pluggent-shell-odd"
    for made in (lost, used):
        made.mkdir()
    (lost / "lock").write_text("")
    other, outputs = Outputs(), Outputs()
    other.new("s")

    outputs.new("s")

    assert not lost.exists()
    assert used.exists()
    assert other.folder is not None
    assert other.folder.exists()
    assert oct(other.folder.stat().st_mode & 0o777) == "0o700"
    await other.aclose()
    await outputs.aclose()
    assert os.listdir(folder) == ["pluggent-shell-odd"]  # noqa: PTH208 (names are what is compared)


# Cost


async def test_the_plugin_costs_little_to_import():
    source = "import sys; import pluggent_shell.plugin; print(json.dumps(sorted(sys.modules)))"
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", f"import json; {source}", stdout=asyncio.subprocess.PIPE, env=dict(os.environ)
    )
    said, _ = await process.communicate()

    assert [name for name in json.loads(said) if name.startswith("pluggent_process_engine")] == []
