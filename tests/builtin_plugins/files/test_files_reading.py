"""What read_file shows: ranges, encodings, images; and what it never opens."""

import base64
import os
import socket
import threading
from pathlib import Path

import pytest
from file_hands import Hands
from pluggent_hookspecs import Image, ToolError

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


@pytest.fixture
def hands(tmp_path: Path) -> Hands:
    return Hands(tmp_path)


def write(hands: Hands, name: str, content: str | bytes) -> None:
    (hands.workspace / name).write_bytes(content if isinstance(content, bytes) else content.encode())


def test_lines_have_their_numbers(hands):
    write(hands, "a.txt", "one\ntwo\n")

    assert hands("read_file", path="a.txt") == "1\tone\n2\ttwo"


@pytest.mark.parametrize(
    ("first", "last", "shown"),
    [
        (3, None, "3\tc\n4\td\n[lines 3 to 4 of 4]"),
        (2, 3, "2\tb\n3\tc\n[lines 2 to 3 of 4; go on with start_line=4]"),
        (-1, None, "4\td\n[lines 4 to 4 of 4]"),
        (-9, 1, "1\ta\n[lines 1 to 1 of 4; go on with start_line=2]"),
        (1, -3, "1\ta\n2\tb\n[lines 1 to 2 of 4; go on with start_line=3]"),
        (1, 99, "1\ta\n2\tb\n3\tc\n4\td"),
    ],
)
def test_a_range_says_how_to_go_on(hands, first, last, shown):
    write(hands, "a.txt", "a\nb\nc\nd\n")

    assert hands("read_file", path="a.txt", start_line=first, end_line=last) == shown


@pytest.mark.parametrize(("first", "last"), [(9, None), (3, 2), (-2, -3), (4, -2)])
def test_a_range_without_lines_says_so(hands, first, last):
    write(hands, "a.txt", "a\nb\nc\nd\n")

    with pytest.raises(ToolError, match=r"start_line|end_line"):
        hands("read_file", path="a.txt", start_line=first, end_line=last)


def test_pages_of_a_long_file_are_the_whole_file(tmp_path):
    hands = Hands(tmp_path, read_lines=7, read_characters=1_000)
    lines = [f"line {number} " + "x" * (number % 300) for number in range(1, 200)]
    write(hands, "a.txt", "\n".join(lines) + "\n")
    read: list[str] = []
    start = 1

    while start:
        text = hands("read_file", path="a.txt", start_line=start)
        shown, _, note = text.rpartition("\n[")
        read += [line.partition("\t")[2] for line in shown.split("\n")]
        _, _, start = note.rstrip("]").partition("start_line=")
        start = int(start or 0)

    assert read == lines


@pytest.mark.parametrize(
    ("content", "shown"),
    [
        ("caf\u00e9\n".encode(), "1\tcaf\u00e9"),
        ("caf\u00e9\n".encode("utf-8-sig"), "1\tcaf\u00e9\n[UTF-8 with a byte order mark]"),
        ("caf\u00e9\n".encode("utf-16"), "1\tcaf\u00e9\n[UTF-16-LE]"),
        (b"\xfe\xff" + "caf\u00e9\n".encode("utf-16-be"), "1\tcaf\u00e9\n[UTF-16-BE]"),
        ("caf\u00e9\n".encode("utf-32"), "1\tcaf\u00e9\n[UTF-32-LE]"),
        ("caf\u00e9\n".encode("latin-1"), "1\tcaf\u00e9\n[not UTF-8; read as latin-1]"),
        (
            "\u4f60\u597d ".encode() + b"\xff\n",
            "1\t\u4f60\u597d \ufffd\n[UTF-8 with 1 invalid bytes, shown as \ufffd and kept]",
        ),
        (b"a\r\nb\r\n", "1\ta\n2\tb\n[line ends: CRLF, kept by edit_file]"),
        (b"a\r\nb\nc\n", "1\ta\n2\tb\n3\tc\n[line ends: mixed, kept by edit_file]"),
        (b"a", "1\ta\n[no line end at the end]"),
        (b"", "[a.txt is empty]"),
        (b"\xef\xbb\xbf", "[a.txt is empty, but for a byte order mark]"),
        (b"\n", "1\t"),
    ],
)
def test_an_encoding_is_recognised_and_named(hands, content, shown):
    write(hands, "a.txt", content)

    assert hands("read_file", path="a.txt") == shown


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (b"\x7fELF\0\0", "an ELF program or library, 6 bytes"),
        (b"PK\x03\x04\0", "a ZIP archive"),
        (b"%PDF-1.7\0", "a PDF document"),
        (b"abc\0def", "binary data, 7 bytes"),
    ],
)
def test_a_binary_file_is_named_and_not_shown(hands, content, kind):
    write(hands, "a.bin", content)

    assert kind in hands("read_file", path="a.bin")


def test_an_image_comes_as_a_part_whatever_its_name(hands):
    write(hands, "a.txt", PNG)

    text, image = hands.call("read_file", path="a.txt").for_model

    assert image == Image(data=base64.b64encode(PNG).decode(), media_type="image/png")
    assert "image/png, 70 bytes" in text.text


def test_an_image_that_is_too_large_is_an_error(tmp_path):
    hands = Hands(tmp_path, image_bytes=10)
    write(hands, "a.png", PNG)

    output = hands.call("read_file", path="a.png")

    assert output.is_error
    assert "at most 10" in output.for_model


def test_a_long_line_is_cut_and_says_by_how_much(tmp_path):
    hands = Hands(tmp_path, line_characters=80)
    write(hands, "a.js", "x" * 1_080 + "\n")

    assert hands("read_file", path="a.js") == f"1\t{'x' * 80}… [1,000 more characters]"


@pytest.mark.parametrize("first", [1, 3_000, 5_000])
def test_a_huge_file_is_read_in_ranges(tmp_path, first):
    hands = Hands(tmp_path, edit_bytes=1 << 16, read_lines=10)
    write(hands, "a.log", "".join(f"line {number}\n" for number in range(1, 5_011)) + "x" * (1 << 16))

    text = hands("read_file", path="a.log", start_line=first)

    assert text.lstrip().startswith(f"{first}\tline {first}\n")
    assert f"go on with start_line={first + 10}" in text


def test_the_end_of_a_huge_file_is_read_without_the_rest(tmp_path):
    hands = Hands(tmp_path, edit_bytes=1 << 16)
    with (tmp_path / "a.log").open("wb") as file:
        file.truncate(1 << 34)  # sparse
        file.seek(0, os.SEEK_END)
        file.write(b"\nlast but one\nlast\n")
        file.seek(0)
        file.write(b"first\n" * 2_000)

    assert hands("read_file", path="a.log", start_line=-2).startswith("last but one\nlast\n[the end of a.log")


@pytest.mark.parametrize("name", ["read_file", "edit_file", "search_files"])
@pytest.mark.parametrize("kind", ["pipe", "socket", "device"])
def test_what_is_no_file_is_named_and_never_opened(hands, monkeypatch, name, kind):
    monkeypatch.chdir(hands.workspace)  # the name of a socket is short
    if kind == "pipe":
        os.mkfifo("a")
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as server:
            server.bind("a")
    else:
        try:
            os.mknod("a", 0o20666, os.makedev(1, 5))  # /dev/zero
        except PermissionError:
            pytest.skip("only root makes devices")
    more = {"read_file": {}, "edit_file": {"edits": [{"old_text": "a", "new_text": "b"}]}}
    arguments = more.get(name, {"pattern": "x"})

    with pytest.raises(ToolError, match=rf"a is a .*{kind}, not a file. It is not opened"):
        hands(name, path="a", **arguments)


def test_a_file_that_grows_while_it_is_read_ends(hands, monkeypatch):
    write(hands, "a.log", "x\n" * 10)
    read = os.read
    count = iter(range(1_000_000))

    def growing(descriptor: int, size: int) -> bytes:
        with (hands.workspace / "a.log").open("ab") as file:
            file.write(b"more\n" * 400_000)
        assert next(count) < 100
        return read(descriptor, size)

    monkeypatch.setattr(os, "read", growing)

    with pytest.raises(ToolError, match="larger than 16,777,216 bytes"):
        hands("read_file", path="a.log")


def test_a_folder_is_no_file(hands):
    (hands.workspace / "src").mkdir()

    with pytest.raises(ToolError, match=r"src is a folder, not a file. Use list_files"):
        hands("read_file", path="src")


def test_a_missing_file_says_which_names_are_near(hands):
    write(hands, "settings.py", "")

    with pytest.raises(ToolError, match=r"setting.py does not exist. Its folder has settings.py"):
        hands("read_file", path="setting.py")


def test_many_threads_read_at_once(hands):
    write(hands, "a.txt", "text\n")
    found: list[str] = []
    threads = [threading.Thread(target=lambda: found.append(hands("read_file", path="a.txt"))) for _ in range(20)]

    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert found == ["1\ttext"] * 20
