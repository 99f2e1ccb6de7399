"""Recorded answers of vendors, as test data beside the repository; see its README. Nothing of them is copied here.

The files are YAML as one writer makes it. Of that only two forms are read, without a library: a
stream as a literal block, and a reason on a line of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from textwrap import dedent

import pytest
from workspace import ROOT

FOLDER = ROOT.parent / "shared" / "published" / "recordings"
WHY = "the recorded answers are not beside this checkout (../shared/published/recordings)"
needs_recordings = pytest.mark.skipif(not FOLDER.is_dir(), reason=WHY)

_EXCHANGE = re.compile(r"^- request:$", re.MULTILINE)
_BLOCK = re.compile(r"^ +string: \|[+-]?\n((?: {8}.*\n|\n)+)", re.MULTILINE)
_REASON = re.compile(r"(?:finish_reason|stop_reason)\"?: ?\"?(\w+)")


def exchanges(path: str) -> Iterator[tuple[str, str]]:
    """Yield the name and the text of every recorded exchange with an address that ends in *path*."""
    address = re.compile(rf"^ +uri: .*{re.escape(path)}(\?.*)?$", re.MULTILINE)
    for file in sorted(FOLDER.rglob("*.yaml")):
        for text in _EXCHANGE.split(file.read_text(encoding="utf-8"))[1:]:
            if address.search(text):
                yield f"{file.parent.name}/{file.stem}", text


def streams(path: str) -> Iterator[tuple[str, bytes]]:
    """Yield the name and the body of every recorded stream from an address that ends in *path*."""
    for name, text in exchanges(path):
        for block in _BLOCK.findall(text.partition("response:")[2]):
            body = dedent(block)
            if re.search("^data: ", body, re.MULTILINE):
                yield name, body.encode()


def reasons(path: str) -> set[str]:
    """Return every word with which a recorded answer from such an address says why it ended."""
    return {word for _, text in exchanges(path) for word in _REASON.findall(text.partition("response:")[2])}
