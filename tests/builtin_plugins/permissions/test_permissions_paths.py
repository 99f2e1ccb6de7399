"""Paths and the folders they lie in, on a real file system."""

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from permitting import both
from pluggent_permissions.paths import resolved

BOTH = (True, True)
FORBIDDEN_ONLY = (True, False)
NEITHER = (False, False)
OUR_ROOT = "/proc/self/root"
SPELLINGS = (
    ".git./config", "src/.git /config", "GIT~1/config", ".git::$INDEX_ALLOCATION/config", "pluggent.toml.",
    "PLUGGE~1.TOM", ".mcp.json:x", "mcp~1.jso", "gi7eba~1/config",
)  # fmt: skip
"""What other file systems take for a name that decides what runs."""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A workspace ``w`` with files and links, and a folder ``out`` beside it."""
    for folder in ("w/src", "w/.git", "w/deep/er", "out/secret", "w-other"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "w/src/a.py").touch()
    (tmp_path / "out/secret/key").touch()
    for link, target in {
        "w/away": "../out",
        "w/home": "src",
        "w/loop": "loop",
        "w/absolute": str(tmp_path / "out"),
        "w/deep/up": "../../out/secret",
        "w/dangling": "../out/new",
        "w/process": "/proc/self/cwd",
        "entry": "w",
    }.items():
        (tmp_path / link).symlink_to(target)
    return tmp_path


def inside(place: Path, path: Any, root: Any = ".") -> tuple[bool, bool]:
    return both({"inside": root}, path, workspace=str(place / "w"))


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("src/a.py", BOTH),
        (".", BOTH),
        ("./src//a.py", BOTH),
        ("src/../src/a.py", BOTH),
        ("new/file.txt", BOTH),
        ("home/a.py", BOTH),
        ("src/", BOTH),
        ("..", NEITHER),
        ("../w/src/a.py", BOTH),
        ("../w-other/x", NEITHER),
        ("../out/secret/key", NEITHER),
        ("src/../../out", NEITHER),
        ("away/secret/key", NEITHER),
        ("absolute/secret", NEITHER),
        ("deep/up/key", NEITHER),
        ("dangling", NEITHER),
        ("/etc/passwd", NEITHER),
        ("//etc/passwd", NEITHER),
        # Tools that shorten away/.. first and those that follow the link first arrive at different places.
        ("away/../src/a.py", FORBIDDEN_ONLY),
        ("deep/up/../src", FORBIDDEN_ONLY),
        # Who knows what a tool makes of these.
        ("~/x", FORBIDDEN_ONLY),
        ("~root/x", FORBIDDEN_ONLY),
        ("$HOME/x", FORBIDDEN_ONLY),
        ("src/${HOME}", FORBIDDEN_ONLY),
        ("file:///etc/passwd", FORBIDDEN_ONLY),
        ("C:x", FORBIDDEN_ONLY),
        ("src\\..\\..\\out", FORBIDDEN_ONLY),
        ("..%2fout", FORBIDDEN_ONLY),
        ("%2e%2e/out", FORBIDDEN_ONLY),
        (" /etc/passwd", FORBIDDEN_ONLY),
        ("src ", FORBIDDEN_ONLY),
        ("src\n/etc/passwd", FORBIDDEN_ONLY),
        ("src\x00/../../etc", FORBIDDEN_ONLY),
        ("src/\u202egnp.exe", FORBIDDEN_ONLY),
        ("", FORBIDDEN_ONLY),
        (5, FORBIDDEN_ONLY),
        ({"path": "src"}, FORBIDDEN_ONLY),
        # What cannot be followed.
        ("loop", FORBIDDEN_ONLY),
        ("loop/x", FORBIDDEN_ONLY),
        ("src/a.py/../a.py", FORBIDDEN_ONLY),
        ("src/a.py/x", FORBIDDEN_ONLY),
        ("new/../src/a.py", FORBIDDEN_ONLY),
        ("x" * 300, FORBIDDEN_ONLY),
        (f"{OUR_ROOT}/etc/passwd", FORBIDDEN_ONLY),
        ("/proc/self/cwd/x", FORBIDDEN_ONLY),
        ("/dev/fd/3", FORBIDDEN_ONLY),
        ("process/x", FORBIDDEN_ONLY),
        # What decides what runs is permitted by name alone.
        (".git/hooks/pre-commit", FORBIDDEN_ONLY),
        (".GIT/config", FORBIDDEN_ONLY),
        (".g\u200bit/config", FORBIDDEN_ONLY),
        ("pluggent.toml", FORBIDDEN_ONLY),
        ("src/.mcp.json", FORBIDDEN_ONLY),
        *((name, FORBIDDEN_ONLY) for name in SPELLINGS),
        (["src/a.py", "new"], BOTH),
        (["src/a.py", "../out"], FORBIDDEN_ONLY),
        (["../out"], NEITHER),
    ],
)
def test_a_path_is_inside_only_if_every_way_of_going_there_ends_there(place, path, expected):
    assert inside(place, path) == expected


@pytest.mark.parametrize(
    ("root", "path", "expected"),
    [
        ("src", "src/a.py", BOTH),
        ("src", "deep/er/x", NEITHER),
        (["src", "deep"], "deep/er/x", BOTH),
        (".git", ".git/config", BOTH),
        ("home", "src/a.py", BOTH),
        ("../out", "away/secret/key", BOTH),
        ("away", "../out/secret/key", BOTH),
        ("../entry", "src/a.py", BOTH),
        ("/", "/etc/passwd", BOTH),
        ("/proc", "/proc/self/environ", FORBIDDEN_ONLY),
        ("/proc", "src/a.py", NEITHER),
        ("SRC", "src/a.py", FORBIDDEN_ONLY),
        ("../OUT/Secret", "away/secret/key", FORBIDDEN_ONLY),
        ("loop", "src/a.py", NEITHER),
        ("missing", "missing/x", BOTH),
    ],
)
def test_folders_are_resolved_like_paths(place, root, path, expected):
    assert inside(place, path, root) == expected


def test_without_a_workspace_relative_paths_are_nowhere(place):
    assert both({"inside": "."}, "src/a.py") == FORBIDDEN_ONLY
    assert both({"inside": "."}, str(place / "w/src")) == FORBIDDEN_ONLY
    assert both({"inside": str(place)}, "src/a.py") == FORBIDDEN_ONLY
    assert both({"inside": str(place)}, str(place / "w/src")) == BOTH


def test_a_home_counts_in_rules_alone(place, monkeypatch):
    monkeypatch.setenv("HOME", str(place / "w"))

    assert both({"inside": "~/src"}, str(place / "w/src/a.py")) == BOTH
    assert both({"inside": "~/src"}, "~/src/a.py") == FORBIDDEN_ONLY


def test_a_folder_is_the_same_under_every_name_it_is_reached_by(place):
    hard, other = place / "w/src/a.py", place / "w-other/b.py"
    os.link(hard, other)

    # A hard link of a file that is a root itself: the same thing under another name.
    assert inside(place, "../w-other/b.py", "src/a.py") == FORBIDDEN_ONLY


def test_a_link_that_changes_is_seen_at_the_next_decision(place):
    assert inside(place, "home/a.py") == BOTH
    (place / "w/home").unlink()
    (place / "w/home").symlink_to("../out")

    assert inside(place, "home/a.py") == NEITHER


@pytest.mark.skipif(os.geteuid() == 0, reason="root may look everywhere")
def test_what_may_not_be_looked_into_is_in_doubt(place):
    (place / "w/deep").chmod(0)
    try:
        assert inside(place, "deep/er/x") == FORBIDDEN_ONLY
    finally:
        (place / "w/deep").chmod(0o755)


NAMES = st.sampled_from(
    ["..", ".", "", "src", "away", "home", "deep", "up", "er", "a.py", "new", "loop", "absolute", "w"]
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(NAMES, min_size=1, max_size=7))
def test_what_is_permitted_is_inside_as_the_system_sees_it(place, names):
    path = "/".join(names).lstrip("/") or "."
    root = os.path.realpath(place / "w")

    wide, exact = inside(place, path)

    real = os.path.realpath(place / "w" / path)
    lies_inside = real == root or real.startswith(root + "/")
    if exact:
        assert lies_inside
        assert os.path.normpath(f"{root}/{path}").startswith(root)
    if lies_inside:
        assert wide


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(NAMES, min_size=1, max_size=7))
def test_paths_are_resolved_as_the_system_does(place, names):
    path = f"{place}/w/{'/'.join(names)}"

    found = resolved(path)

    try:
        # Before 3.12 realpath goes up from a file as if it were a folder, and pathlib drops a last dot.
        os.stat(path)  # noqa: PTH116
        real = os.path.realpath(path, strict=True)
    except OSError:
        return
    assert found is not None
    assert found.path == real
    ways = [real, *map(str, Path(real).parents)][:-1]
    assert found.folders == {(Path(way).stat().st_dev, Path(way).stat().st_ino) for way in ways}
