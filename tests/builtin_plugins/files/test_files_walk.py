"""What list_files and find_files show of a folder: ignored files left out, links not followed, nothing opened."""

import os
import shutil
import socket
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest
from file_hands import Hands
from hypothesis import given, strategies as st
from pluggent_files.search.glob import matcher
from pluggent_files.search.ignore import Ignored, compiled
from pluggent_hookspecs import ToolError


@pytest.fixture
def hands(tmp_path: Path) -> Hands:
    return Hands(tmp_path)


def make(folder: Path, *names: str) -> None:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)


def test_a_list_shows_sizes_folders_links_and_kinds(hands, monkeypatch):
    make(hands.workspace, "a.txt", "src/b.py")
    monkeypatch.chdir(hands.workspace)
    os.mkfifo("pipe")
    Path("link").symlink_to("nowhere")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("sock")

    assert hands("list_files") == "a.txt  5\nlink -> nowhere\npipe (named pipe)\nsock (socket)\nsrc/"
    assert hands("list_files", path="src") == "b.py  8"
    assert hands("list_files", path="a.txt") == "a.txt  5 bytes"
    assert hands("list_files", path="pipe") == "pipe  (a named pipe)"


def test_a_list_goes_as_deep_as_wanted(hands):
    make(hands.workspace, "a/b/c/d.txt")

    assert hands("list_files", depth=1) == "a/"
    assert hands("list_files", depth=3) == "a/\na/b/\na/b/c/"


def test_an_empty_folder_says_so(hands):
    assert hands("list_files") == "[. has nothing in it]"


def test_pages_together_are_the_whole(tmp_path):
    hands = Hands(tmp_path, listed=7)
    make(tmp_path, *(f"f{number:03}.txt" for number in range(30)))
    found: list[str] = []
    skip = 0

    while True:
        text = hands("find_files", glob="*.txt", skip=skip)
        shown, _, note = text.partition("\n[")
        found += shown.split("\n")
        if "skip=" not in note:
            break
        skip = int(note.rpartition("skip=")[2].rstrip("]"))

    assert found == [f"f{number:03}.txt" for number in range(30)]


@pytest.mark.parametrize(
    ("glob", "expected"),
    [
        ("*.py", ["a.py", "src/b.py", "src/deep/c.py"]),
        ("src/*.py", ["src/b.py"]),
        ("src/**/*.py", ["src/b.py", "src/deep/c.py"]),
        ("**/deep/*", ["src/deep/c.py", "src/deep/d.TXT"]),
        ("*.{py,TXT}", ["a.py", "src/b.py", "src/deep/c.py", "src/deep/d.TXT"]),
        ("[ab].py", ["a.py", "src/b.py"]),
        ("[!a].py", ["src/b.py", "src/deep/c.py"]),
        ("?.py", ["a.py", "src/b.py", "src/deep/c.py"]),
        ("./src/b.py", ["src/b.py"]),
        ("/a.py", ["a.py"]),
        ("src/**", ["src/b.py", "src/deep/c.py", "src/deep/d.TXT"]),
    ],
)
def test_a_glob_finds_files_by_name(hands, glob, expected):
    make(hands.workspace, "a.py", "src/b.py", "src/deep/c.py", "src/deep/d.TXT")

    assert hands("find_files", glob=glob).split("\n") == expected


def test_a_file_below_another_folder_has_its_path_from_the_workspace(hands):
    make(hands.workspace, "src/deep/c.py")

    assert hands("find_files", path="src", glob="deep/*.py") == "src/deep/c.py"


@pytest.mark.parametrize("glob", ["", "{a{b}", "[z-a]", "x" * 501])
def test_a_glob_that_means_nothing_is_an_error(hands, glob):
    with pytest.raises(ToolError, match="name pattern"):
        hands("find_files", glob=glob)


@given(st.text(alphabet="ab/*?[]{},!-\\^.\u4f60", min_size=1, max_size=12), st.text(alphabet="ab/.\u4f60", max_size=12))
def test_any_glob_is_a_pattern_or_an_error(glob, path):
    with suppress(ToolError):
        matcher(glob).fullmatch(path.encode())


@given(st.text(alphabet="ab/.\u4f60 -", min_size=1, max_size=12).filter(lambda name: name.strip("/.") == name))
def test_a_path_fits_itself(path):
    assert matcher(path).fullmatch(path.encode()) is not None


# .gitignore

IGNORES = {
    ".gitignore": "*.log\n!keep.log\n/build/\ndocs/*.tmp\n# comment\n\\#odd\n**/cache\ntrailing \n[ab]x\n!\n/\n",
    "src/.gitignore": "!a.log\nlocal.txt\n/only-here\n",
    "src/deep/.gitignore": "*\n!kept.txt\n",
    ".git/info/exclude": "excluded.txt\n",
}
PATHS = [
    "a.log", "keep.log", "build/x.txt", "src/build/x.txt", "docs/a.tmp", "docs/b.txt", "src/docs/a.tmp", "#odd",
    "src/cache/x", "trailing", "ax", "src/bx", "cx", "src/a.log", "src/b.log", "src/local.txt", "local.txt",
    "src/only-here", "src/below/only-here", "src/deep/x.txt", "src/deep/kept.txt", "excluded.txt", "src/excluded.txt",
    "src/deep/down/kept.txt",
]  # fmt: skip


@pytest.fixture
def repository(hands: Hands) -> Hands:
    git = shutil.which("git")
    if git is None:
        pytest.skip("git is not installed")
    subprocess.run([git, "init", "-q", hands.workspace], check=True)  # noqa: S603
    make(hands.workspace, *PATHS)
    for name, text in IGNORES.items():
        (hands.workspace / name).write_text(text)
    return hands


def not_ignored(hands: Hands, below: str = ".") -> list[str]:
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", below]
    listed = subprocess.run(command, cwd=hands.workspace, capture_output=True, check=True, text=True)  # noqa: S603
    return sorted(name for name in listed.stdout.split("\0") if name)


@pytest.mark.parametrize("path", [".", "src", "src/deep"])
def test_what_git_ignores_is_left_out(repository, path):
    shown = repository("find_files", path=path, glob="**")

    assert sorted(line for line in shown.split("\n") if not line.startswith("[")) == not_ignored(repository, path)
    assert "ignored by .gitignore left out: include_ignored=true shows them]" in shown


def test_what_is_ignored_is_shown_if_wanted(repository):
    shown = repository("find_files", glob="**", include_ignored=True).split("\n")

    assert set(PATHS) <= set(shown)
    assert not [path for path in shown if path.startswith(".git/")]


@pytest.mark.parametrize(
    "text",
    [b"\xff\xfe*\n", b"[z-a]\n*.log\n", b"(((\n*.log", b"*a" * 2_000 + b"\n*.log", b"x" * 2_000_000, b"!\n!!\n/"],
)
def test_a_hostile_ignore_file_is_no_trouble(hands, text):
    make(hands.workspace, "a" * 200 + "b", "src/c.txt")
    (hands.workspace / ".gitignore").write_bytes(text)

    assert "src/c.txt" in hands("find_files", glob="**")


def test_an_ignore_file_made_to_take_forever_is_bounded(hands):
    lines = [b"**/" * 10 + b"a*" * 10 + b"%d" % number for number in range(8_000)]
    (hands.workspace / ".gitignore").write_bytes(b"\n".join(lines) + b"\n" + b"\n".join([b"a*" * 6] * 2_000))
    for number in range(300):
        os.close(os.open(hands.workspace / f"{'a' * 200}{number}b", os.O_CREAT | os.O_WRONLY))

    assert "there are more" in Hands(hands.workspace, listed=10)("list_files")


def test_an_ignore_file_that_is_a_pipe_or_a_link_is_not_read(hands, tmp_path_factory):
    outside = tmp_path_factory.mktemp("outside")
    (outside / "rules").write_text("*\n")
    make(hands.workspace, "a.txt", "src/b.txt")
    os.mkfifo(hands.workspace / ".gitignore")
    (hands.workspace / "src" / ".gitignore").symlink_to(outside / "rules")

    assert "a.txt\nsrc/.gitignore\nsrc/b.txt" in hands("find_files", glob="**")


@given(st.lists(st.text(alphabet="ab*?/!#[]\\. ", max_size=8), max_size=6), st.text(alphabet="ab./", max_size=10))
def test_any_ignore_file_decides(lines, path):
    rules = compiled([line.encode() for line in lines])

    assert Ignored().added(rules).holds(path.encode()) in (True, False)


# Hostile folders


def test_links_in_a_ring_are_not_followed(hands):
    make(hands.workspace, "a/b/c.txt")
    (hands.workspace / "a" / "b" / "up").symlink_to("../..")
    (hands.workspace / "a" / "self").symlink_to("self")

    assert hands("find_files", glob="*.txt") == "a/b/c.txt"


def test_names_that_are_no_text_or_no_line_are_shown_escaped(hands):
    (hands.workspace / os.fsdecode(b"bad\xff.txt")).write_text("")
    (hands.workspace / "two\nlines.txt").write_text("")
    (hands.workspace / "\x1b[31mred.txt").write_text("")

    shown = hands("find_files", glob="*.txt").split("\n")

    assert shown == ["'\\x1b[31mred.txt'", "bad\ufffd.txt", "'two\\nlines.txt'"]


def test_a_deep_tree_is_walked_as_far_as_descriptors_reach(hands):
    at = os.open(hands.workspace, os.O_RDONLY)
    for _ in range(300):
        os.mkdir("d", dir_fd=at)
        below = os.open("d", os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = below
    os.close(os.open("bottom.txt", os.O_CREAT | os.O_WRONLY, dir_fd=at))
    os.close(at)

    assert "no file fits" in hands("find_files", glob="bottom.txt")
    assert "bottom" not in hands("list_files", depth=20)


def test_many_files_are_listed_in_part(hands):
    for number in range(20_000):
        os.close(os.open(hands.workspace / f"{number:05}", os.O_CREAT | os.O_WRONLY))

    shown = hands("list_files").split("\n")

    assert shown[:2] == ["00000  0", "00001  0"]
    assert shown[-1] == "[500 entries shown, there are more: go on with skip=500]"


def test_a_cancelled_walk_ends_with_what_it_has(hands):
    for number in range(2_000):
        os.close(os.open(hands.workspace / f"{number:05}", os.O_CREAT | os.O_WRONLY))
    hands.context.cancelled = True

    assert "the time was over before everything was looked at" in hands("find_files", glob="nothing")
