"""Files as parts of a message: what they are, their content says; what cannot be sent is refused with the reason."""

import base64
import os
from pathlib import Path

import pytest
from pluggent_hookspecs import Audio, ConfigError, File, Image, Text
from pluggent_host import audio, file, image
from pluggent_testing.fakes import ScriptedModel
from talking import hosting

PNG, JPEG, GIF, WEBP = b"\x89PNG\r\n\x1a\nrest", b"\xff\xd8\xff\xe0rest", b"GIF89arest", b"RIFF\x10\0\0\0WEBPrest"
WAV = b"RIFF\x10\0\0\0WAVEfmt "


def holding(folder: Path, data: bytes, name: str = "file") -> Path:
    path = folder / name
    path.write_bytes(data)
    return path


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


@pytest.mark.parametrize(
    ("data", "media_type"), [(PNG, "image/png"), (JPEG, "image/jpeg"), (GIF, "image/gif"), (WEBP, "image/webp")]
)
def test_a_picture_is_what_its_content_is_whatever_its_name_says(tmp_path, data, media_type):
    assert image(holding(tmp_path, data, "cat.txt")) == Image(data=encoded(data), media_type=media_type)


@pytest.mark.parametrize(
    ("data", "format"),
    [(WAV, "wav"), (b"ID3rest", "mp3"), (b"\xff\xfbrest", "mp3"), (b"fLaCrest", "flac"), (b"OggSrest", "ogg"),
     (b"\0\0\0\x20ftypM4A ", "m4a")],
)  # fmt: skip
def test_sound_is_what_its_content_is(tmp_path, data, format):
    assert audio(holding(tmp_path, data)) == Audio(encoded(data), format)


@pytest.mark.parametrize(
    ("name", "data", "media_type"),
    [
        ("paper.txt", b"%PDF-1.7", "application/pdf"),
        ("cat.bin", PNG, "image/png"),
        ("notes.txt", b"notes", "text/plain"),
        ("thing.xyzzy", b"\0\1", "application/octet-stream"),
    ],
)
def test_a_document_has_the_last_part_of_its_path_as_its_name(tmp_path, name, data, media_type):
    assert file(holding(tmp_path, data, name)) == File(data=encoded(data), filename=name, media_type=media_type)


@pytest.mark.parametrize("url", ["https://example.com/a.png", "HTTP://example.com"])
def test_an_url_is_passed_on_unread(url):
    assert image(url) == Image(url=url)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("absent.png", "cannot be read: No such file or directory"),
        (".", "cannot be read: Is a directory"),
        ("empty", "is empty"),
        ("text.png", "is not a picture in the format PNG, JPEG, GIF or WebP, whatever its name says"),
        ("pipe", "is not an ordinary file"),
        ("/dev/zero", "is not an ordinary file"),
        ("large", "is larger than 100 bytes"),
        ("a\0b", "cannot be read: embedded null byte"),
        ("~no-such-user-here/x", "cannot be read"),
        ("ftp://example.com/a.png", "give the path of a file, or a URL that begins with https:// or http://"),
        ("https://", "is not an image URL"),
        ("https://example.com/a b", "is not an image URL"),
        ("https://example.com/\x1b[2J", "is not an image URL"),
    ],
)
def test_what_cannot_be_sent_is_refused_with_the_reason(tmp_path, monkeypatch, name, says):
    holding(tmp_path, b"", "empty")
    holding(tmp_path, b"words", "text.png")
    holding(tmp_path, PNG + bytes(100), "large")
    os.mkfifo(tmp_path / "pipe")
    monkeypatch.chdir(tmp_path)

    with pytest.raises(ConfigError, match=says) as caught:
        image(name, limit_bytes=100)
    assert caught.value.path == name
    with pytest.raises(ConfigError, match="is not a sound in the format WAV"):
        audio("large")


def test_a_file_of_just_the_allowed_size_is_read(tmp_path):
    assert image(holding(tmp_path, PNG), limit_bytes=len(PNG)).data == encoded(PNG)


def test_what_is_refused_leaves_nothing_open(tmp_path):
    def lowest_free() -> int:
        descriptor = os.open(tmp_path, os.O_RDONLY)
        os.close(descriptor)
        return descriptor

    before = lowest_free()
    for path in (tmp_path, "/dev/zero", holding(tmp_path, b"words")):
        with pytest.raises(ConfigError):
            image(path)

    assert lowest_free() == before


async def test_the_model_is_sent_the_picture_beside_the_words(tmp_path):
    model = ScriptedModel("a cat")
    async with hosting(model=model) as host:
        session = await host.session()
        await session.say(("what is this?", image(holding(tmp_path, PNG))))

        (message,) = model.requests[0].messages
        assert message.content == (Text("what is this?"), Image(data=encoded(PNG), media_type="image/png"))
