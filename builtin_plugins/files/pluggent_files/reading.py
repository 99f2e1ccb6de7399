"""Reads one file for a model: numbered lines of a range, images as parts, anything else by name."""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Iterator
from typing import NamedTuple

from pluggent_hookspecs import Image, Text as TextPart, ToolContext, ToolError, ToolOutput
from pluggent_workspace_files.reach import PIECE, Place, content, open_file

from pluggent_files.seen import Seen
from pluggent_files.settings import FilesSettings
from pluggent_files.text import (
    HEAD,
    amount,
    binary_type,
    clean,
    decode,
    has_crlf,
    image_type,
    is_binary,
    line_end,
    numbered,
)


class Range(NamedTuple):
    """The lines that are wanted, from 1; negative: from the end. ``last`` None is as many as may be shown."""

    first: int
    last: int | None


def read(place: Place, wanted: Range, context: ToolContext, settings: FilesSettings, seen: Seen) -> ToolOutput:
    """Return the lines *wanted* of the file at *place*, which may be read."""
    if wanted.last is not None and wanted.last < wanted.first and (wanted.first > 0) == (wanted.last > 0):
        raise ToolError(f"end_line {wanted.last} lies before start_line {wanted.first}")
    opened = open_file(place)
    try:
        if os.fstat(opened).st_size > settings.edit_bytes:
            return _huge(opened, place, wanted, context, settings)
        data = content(opened, settings.edit_bytes, place)
    finally:
        os.close(opened)
    seen.note(context.session_id, place.real, hashlib.sha256(data).hexdigest())
    if media_type := image_type(data):
        return _image(place, data, media_type, settings)
    if (found := decode(data, settings.fallback_encoding)) is None:
        return _binary(place, data, len(data))
    if not found.text:
        return ToolOutput(f"[{place.shown} is empty{', but for a byte order mark' if data else ''}]")
    notes = [found.described] if found.described else []
    if has_crlf(found.text):
        ends = "CRLF" if line_end(found.text) == "\r\n" else "mixed"
        notes.append(f"line ends: {ends}, kept by edit_file")
    if not found.text.endswith("\n"):
        notes.append("no line end at the end")
    return _lines(place, found.text, wanted, notes, settings)


def _lines(place: Place, text: str, wanted: Range, notes: list[str], settings: FilesSettings) -> ToolOutput:
    total = text.count("\n") + (not text.endswith("\n"))
    first, last = _bounds(wanted, total, place)
    last = min(last, first + settings.read_lines - 1)
    shown = _fitting(text.split("\n", last)[first - 1 : last], settings)
    end = first + len(shown) - 1
    text = clean(numbered(shown, first, settings.line_characters))
    if first > 1 or end < total:
        more = f"; go on with start_line={end + 1}" if end < total else ""
        notes.insert(0, f"lines {first:,} to {end:,} of {total:,}{more}")
    return ToolOutput(f"{text}\n[{'; '.join(notes)}]" if notes else text)


def _bounds(wanted: Range, total: int, place: Place) -> tuple[int, int]:
    first = wanted.first if wanted.first > 0 else max(1, total + wanted.first + 1)
    last = total if wanted.last is None else wanted.last if wanted.last > 0 else total + wanted.last + 1
    if first > total:
        raise ToolError(f"{place.shown} has {amount(total, 'line')}; start_line {first:,} is beyond its end")
    if last < first:
        raise ToolError(f"{place.shown} has {amount(total, 'line')}; between start_line and end_line there is none")
    return first, min(last, total)


def _fitting(lines: list[str], settings: FilesSettings) -> list[str]:
    """Return as many of *lines* as fit into one answer, one at least."""
    left = settings.read_characters
    for number, line in enumerate(lines):
        left -= min(len(line), settings.line_characters) + 8  # its number
        if left < 0:
            return lines[: max(1, number)]
    return lines


def _image(place: Place, data: bytes, media_type: str, settings: FilesSettings) -> ToolOutput:
    if len(data) > settings.image_bytes:
        return ToolOutput.error(
            f"{place.shown} is an image ({media_type}) of {len(data):,} bytes; at most {settings.image_bytes:,} are"
            " shown. Make it smaller"
        )
    said = f"[{place.shown}: {media_type}, {len(data):,} bytes]"
    return ToolOutput((TextPart(said), Image(data=base64.b64encode(data).decode("ascii"), media_type=media_type)))


def _binary(place: Place, head: bytes, size: int) -> ToolOutput:
    return ToolOutput(f"[{place.shown} is {binary_type(head)}, {size:,} bytes; it is not shown as text]")


# ---- files that are not read whole ----------------------------------------------------------


def _huge(opened: int, place: Place, wanted: Range, context: ToolContext, settings: FilesSettings) -> ToolOutput:
    """Return a range of a file that is too large to be read whole, by going through it once at most."""
    size = os.fstat(opened).st_size
    head = os.pread(opened, HEAD, 0)
    if is_binary(head) or head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return _binary(place, head, size)
    wanted_lines = settings.read_lines if wanted.last is None else wanted.last - wanted.first + 1
    most = min(max(wanted_lines, 1), settings.read_lines)
    if wanted.first < 0:
        lines, first = _tail(opened, size, -wanted.first, settings), 0
        lines = lines[:most]
    else:
        first = wanted.first
        lines = _from_line(opened, first, most, context, settings)
    if not lines:
        raise ToolError(f"{place.shown} has fewer than {first:,} lines")
    texts = _fitting([line.decode("utf-8", "replace") for line in lines], settings)
    if not first:
        shown = "\n".join(clean(line.removesuffix("\r")[: settings.line_characters]) for line in texts)
        return ToolOutput(f"{shown}\n[the end of {place.shown}, {size:,} bytes; its lines are not counted]")
    end = first + len(texts) - 1
    return ToolOutput(
        f"{clean(numbered(texts, first, settings.line_characters))}\n[lines {first:,} to {end:,} of a file of"
        f" {size:,} bytes, too large to be read whole or edited; go on with start_line={end + 1}, or use search_files]"
    )


def _from_line(opened: int, first: int, most: int, context: ToolContext, settings: FilesSettings) -> list[bytes]:
    """Return up to *most* lines from line *first* (from 1)."""
    found: list[bytes] = []
    keep = settings.line_characters * 4
    size = 0
    for number, line in _cut_lines(opened, first, keep, context):
        if number >= first:
            found.append(line)
            size += len(line) + 8
        if len(found) >= most or size > settings.read_characters:
            break
    return found


def _cut_lines(opened: int, first: int, keep: int, context: ToolContext) -> Iterator[tuple[int, bytes]]:
    """Yield number and beginning (of *keep* bytes) of the lines from about line *first* on."""
    number, rest = 1, b""
    while piece := os.read(opened, PIECE):
        if context.cancelled:
            raise ToolError("the call was cancelled")
        count = piece.count(b"\n")
        if number + count < first:  # nothing in it is wanted
            number, rest = number + count, b""
            continue
        lines = (rest + piece).split(b"\n")
        for line in lines[:-1]:
            yield number, line[:keep]
            number += 1
        rest = lines[-1][:keep]  # the beginning of a line is all that is shown of it
    if rest:
        yield number, rest


def _tail(opened: int, size: int, count: int, settings: FilesSettings) -> list[bytes]:
    """Return the last *count* lines, as far as one answer takes them."""
    want = min(size, settings.read_characters * 4 + HEAD)
    data = os.pread(opened, want, size - want)
    lines = data.removesuffix(b"\n").split(b"\n")
    return lines[-min(count, settings.read_lines) :]
