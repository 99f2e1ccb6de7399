"""Recorded answers of vendors, as test data beside the repository; see its README. Nothing of them is copied here.

The files are YAML as one writer makes it. ``streams`` and ``reasons`` look for two forms of it: a
stream as a literal block, and a reason on a line of its own; ``whole_exchanges`` reads all.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from textwrap import dedent
from typing import Any, cast

import pytest
import yaml
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


def whole_exchanges(path: str) -> Iterator[tuple[str, Any, Any]]:
    """Yield name, body of the request and body of the answer of every good exchange with such an address.

    Bodies are JSON values, or the bytes of a stream.
    """
    address = re.compile(rf"{path}(\?.*)?$")
    for file in sorted(FOLDER.rglob("*.yaml")):
        text = file.read_text(encoding="utf-8")
        if path not in text:
            continue
        for exchange in yaml.load(text, yaml.CSafeLoader)["interactions"]:
            request, answer = exchange["request"], exchange["response"]
            if address.search(request["uri"]) and answer["status"]["code"] in range(200, 300):
                yield f"{file.parent.name}/{file.stem}", _body(request), _body(answer)


def _body(message: dict[str, Any]) -> Any:
    if "parsed_body" in message:
        return message["parsed_body"]
    body = message["body"]
    text: Any = cast("dict[str, Any]", body)["string"] if isinstance(body, dict) else body
    try:
        return json.loads(text) if isinstance(text, str) else text
    except ValueError:  # some were edited by hand
        return text
