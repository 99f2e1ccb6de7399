"""Moving and deleting: never over something, to the trash where there is one, and undone."""

import os
import stat
import subprocess
from pathlib import Path

import pytest
from file_hands import Hands, tree
from pluggent_hookspecs import ToolError


@pytest.fixture
def hands(tmp_path: Path) -> Hands:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "a.txt").write_text("a\n")
    (tmp_path / "b.txt").write_text("b\n")
    return Hands(tmp_path)


@pytest.mark.parametrize(("path", "to"), [("src/a.txt", "new/folder/c.txt"), ("b.txt", "c.txt"), ("src", "lib")])
def test_a_move_is_undone(hands, path, to):
    before = tree(hands.workspace)

    output = hands.call("move_file", path=path, to=to)
    assert output.for_model == f"moved {path} to {to}"
    assert (hands.workspace / to).exists()
    assert not (hands.workspace / path).exists()

    hands.undo(output)
    assert {name: content for name, content in tree(hands.workspace).items() if not name.startswith("new")} == before


@pytest.mark.parametrize(
    ("path", "to", "said"),
    [
        ("src/a.txt", "b.txt", "b.txt exists, so nothing was moved"),
        ("b.txt", "src", "src is a folder that exists; to move into it, give the whole new path: src/b.txt"),
        ("src", "src/below", "src cannot be moved into itself"),
        ("src", "src", "src cannot be moved into itself"),
        (".", "other", "is the workspace"),
        ("none.txt", "c.txt", "none.txt does not exist"),
        ("b.txt", "src/a.txt/c.txt", "is not a folder"),
    ],
)
def test_what_cannot_be_moved_stays(hands, path, to, said):
    before = tree(hands.workspace)

    with pytest.raises(ToolError) as caught:
        hands("move_file", path=path, to=to)
    assert said in str(caught.value)
    assert tree(hands.workspace) == before


def test_a_link_is_moved_itself(hands):
    (hands.workspace / "link").symlink_to("b.txt")

    hands("move_file", path="link", to="src/link")

    assert (hands.workspace / "src" / "link").readlink() == Path("b.txt")
    assert (hands.workspace / "b.txt").read_text() == "b\n"


def test_a_moved_file_counts_as_read(hands):
    hands("read_file", path="b.txt")
    hands("move_file", path="b.txt", to="c.txt")

    hands("write_file", path="c.txt", content="new\n")

    assert (hands.workspace / "c.txt").read_text() == "new\n"


def test_a_deleted_file_is_put_back_with_its_mode(hands):
    (hands.workspace / "b.txt").write_bytes(b"\xff\0b")
    (hands.workspace / "b.txt").chmod(0o750)

    output = hands.call("delete_file", path="b.txt")
    assert output.for_model == "deleted b.txt (3 bytes); undo can put it back"
    assert not (hands.workspace / "b.txt").exists()

    hands.undo(output)
    assert (hands.workspace / "b.txt").read_bytes() == b"\xff\0b"
    assert stat.S_IMODE((hands.workspace / "b.txt").stat().st_mode) == 0o750


def test_a_folder_with_something_in_it_is_deleted_only_if_that_is_said(hands):
    (hands.workspace / "empty").mkdir()

    hands("delete_file", path="empty")
    with pytest.raises(ToolError, match="src is a folder with 1 file in it, so it was not deleted"):
        hands("delete_file", path="src")
    assert hands("delete_file", path="src", recursive=True).startswith("deleted src/ (a folder: 1 file, 2 bytes)")
    assert tree(hands.workspace) == {"b.txt": b"b\n"}


def test_deleting_a_folder_follows_no_link(hands, tmp_path_factory):
    outside = tmp_path_factory.mktemp("outside")
    (outside / "a.txt").write_text("precious")
    (hands.workspace / "src" / "link").symlink_to(outside)

    hands("delete_file", path="src", recursive=True)

    assert tree(outside) == {"a.txt": b"precious"}


def test_a_folder_that_is_too_deep_is_left_alone(hands):
    at = os.open(hands.workspace, os.O_RDONLY)
    for _ in range(3_000):
        os.mkdir("d", dir_fd=at)
        below = os.open("d", os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = below
    os.close(at)

    with pytest.raises(ToolError, match="more than 200 deep, so it was not deleted"):
        hands("delete_file", path="d", recursive=True)
    hands("move_file", path="d", to="e")
    subprocess.run(["/bin/rm", "-r", hands.workspace / "e"], check=True)  # noqa: S603 (nothing else deletes it)


def test_what_was_changed_is_not_deleted_by_undo(hands):
    output = hands.call("write_file", path="c.txt", content="c\n")
    (hands.workspace / "c.txt").write_text("changed\n")

    with pytest.raises(ToolError, match="was changed since, so it was not deleted"):
        hands.undo(output)
    assert (hands.workspace / "c.txt").read_text() == "changed\n"


# The trash


@pytest.fixture
def trash(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    data = tmp_path_factory.mktemp("data")
    monkeypatch.setenv("XDG_DATA_HOME", str(data))
    return data / "Trash"


@pytest.mark.parametrize("path", ["b.txt", "src"])
def test_a_deleted_thing_is_in_the_trash_with_where_it_was(hands, trash, path):
    hands = Hands(hands.workspace, trash="always")
    before = tree(hands.workspace)

    output = hands.call("delete_file", path=path, recursive=True)

    assert f"it is in the trash: {trash}/files/{path}" in str(output.for_model)
    info = (trash / "info" / f"{path}.trashinfo").read_text()
    assert info.startswith(f"[Trash Info]\nPath={hands.workspace}/{path}\nDeletionDate=2")
    assert stat.S_IMODE(trash.stat().st_mode) == 0o700
    assert tree(hands.workspace) != before


def test_a_folder_comes_back_from_the_trash(hands, trash):
    hands = Hands(hands.workspace, trash="always", write_folders=[str(trash)])
    before = tree(hands.workspace)

    hands.undo(hands.call("delete_file", path="src", recursive=True))

    assert tree(hands.workspace) == before
    assert list((trash / "info").iterdir()) == []


def test_two_things_of_one_name_are_both_in_the_trash(hands, trash):
    hands = Hands(hands.workspace, trash="always")

    hands("delete_file", path="b.txt")
    hands("write_file", path="b.txt", content="other\n")
    hands("delete_file", path="b.txt")

    assert tree(trash / "files") == {"b.txt": b"b\n", "b.txt.2": b"other\n"}


def test_without_a_trash_none_is_made(hands, trash, monkeypatch):
    for name in ("XDG_CURRENT_DESKTOP", "WAYLAND_DISPLAY", "DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    hands = Hands(hands.workspace, trash="auto")

    assert "undo can put it back" in hands("delete_file", path="b.txt")
    assert not trash.exists()


def test_a_preview_says_what_will_be_deleted_and_how(hands, trash):
    assert hands.preview("delete_file", path="src", recursive=True).text == (
        "delete src/ (a folder: 1 file, 2 bytes)\n  there is no trash for it; it is gone for good"
    )
    hands = Hands(hands.workspace, trash="always")
    assert hands.preview("delete_file", path="b.txt").text == f"delete b.txt (2 bytes)\n  to the trash ({trash}/files)"


def test_a_preview_says_what_will_be_moved(hands):
    assert hands.preview("move_file", path="src", to="lib").text == (
        "move src/ (a folder: 1 file, 2 bytes)\n  to lib"
    )  # fmt: skip


@pytest.mark.parametrize("name", ["move_file", "delete_file"])
def test_what_changed_since_a_person_agreed_is_not_touched(hands, name):
    more = {"to": "c.txt"} if name == "move_file" else {}
    hands.context.approved_state = hands.preview(name, path="b.txt", **more).state
    (hands.workspace / "b.txt").write_text("changed\n")

    with pytest.raises(ToolError, match="has changed since a person agreed to this call"):
        hands(name, path="b.txt", **more)
    assert (hands.workspace / "b.txt").read_text() == "changed\n"
