"""Makes parts of what is attached: a file, a URL or standard input. The content decides the type, not the name."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from pluggent_hookspecs.attachments import LIMIT_BYTES, attachment, image
from pluggent_hookspecs.errors import ConfigError
from pluggent_hookspecs.messages import File, Part, Text

from pluggent_cli.inputs.reading import FROM_STANDARD_INPUT, STANDARD_INPUT, Say, read_file, read_standard_input
from pluggent_cli.inputs.texts import ATTACH, decoded, framed, read_text


def attached(names: Iterable[str], images: Iterable[str], say: Say, files: Iterable[str] = ()) -> tuple[Part, ...]:
    """Return a part for each of *files*, which have to be text, of *names*, and of *images*, which have to be such.

    Raises ConfigError naming all that cannot be sent.
    """
    parts: list[Part] = []
    errors: list[ConfigError] = []
    readers: tuple[tuple[Iterable[str], Callable[[str], Part]], ...] = (
        (files, partial(attach_text, say=say)),
        (images, image),
        (names, partial(attach, say=say)),
    )
    for given, read in readers:
        for name in given:
            try:
                parts.append(read(name))
            except ConfigError as error:
                errors.append(error)
    if len(errors) == 1:
        raise errors[0]
    if errors:
        raise ConfigError("what is to be sent", list(map(str, errors)))
    return tuple(parts)


def attach_text(path: str, say: Say) -> Text:
    """Return the text in the file *path*, framed. Raises ConfigError."""
    if is_url(path):
        raise ConfigError(path, [f"is not a file; attach it: -a {path}"])
    text = read_text(read_file(path, say), path, ATTACH.format(path))
    if not text.strip():
        raise ConfigError(path, ["is empty"])
    return Text(framed(text, "file", path))


def attach(name: str, say: Say) -> Part:
    """Return the part for the file or URL *name*, or for standard input if that is ``-``; text is framed.

    Blocks while it reads. Raises ConfigError for what cannot be read, is empty or too large.
    """
    if name == FROM_STANDARD_INPUT:
        return part_of(read_standard_input(say, limit_bytes=LIMIT_BYTES), STANDARD_INPUT)
    if is_url(name):
        return part_of(_fetched(name), "URL", name)
    return part_of(read_file(name, say, limit_bytes=LIMIT_BYTES), "file", name)


def _fetched(url: str) -> bytes:
    try:
        # Here and not above: the HTTP library behind it takes longer than the host's start.
        from pluggent_cli.inputs.url_fetch import fetch
    except ModuleNotFoundError as error:
        problem = "attaching a URL needs one more package: pip install 'pluggent-cli[urls]'"
        raise ConfigError(url, [problem]) from error
    return fetch(url)


def is_url(name: str) -> bool:
    """Say whether *name* is a URL that is fetched.

    >>> is_url("HTTPS://example.com/cat.png"), is_url("cat.png")
    (True, False)
    """
    scheme, separator, _ = name.partition("://")
    return bool(separator) and scheme.lower() in ("http", "https")


def part_of(data: bytes, what: str, name: str = "") -> Part:
    """Return *data*, which came from *what* with that *name*, as a part. Raises ConfigError if there is nothing."""
    if not data:
        raise ConfigError(name or what, ["is empty"])
    part = attachment(data, "" if what == "URL" else name)
    if not isinstance(part, File) or part.media_type == "application/pdf":
        return part
    try:
        return Text(framed(decoded(data), what, name))
    except ValueError:
        return part
