"""Embeddings that vendors have really sent: each is read whole, and what we would ask is what was asked."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from embedding_server import MAKERS
from pluggent_hookspecs import EmbeddingRequest
from pluggent_provider_http.server_errors import Faults
from recordings import exchanges, needs_recordings

HOSTS = {"openai": "api.openai.com/v1/embeddings", "cohere": "/v2/embed", "voyage": "api.voyageai.com/v1/embeddings"}
_FIELD = re.compile(r"^ {6}(\w+):(?: (.+))?$")
_ITEM = re.compile(r"^ {6}- (.+)$")


def body_of(text: str) -> dict[str, Any]:
    """Return the body in one half of an exchange, as far as it is scalars and lists of them."""
    found: dict[str, Any] = {}
    name = ""
    for line in text.partition("parsed_body:\n")[2].splitlines():
        if match := _FIELD.match(line):
            name, value = match[1], match[2]
            found[name] = [] if value is None else _scalar(value)
        elif (match := _ITEM.match(line)) and isinstance(found.get(name), list):
            found[name].append(match[1])
        elif not line.startswith("       "):
            break
    return found


def _scalar(value: str) -> Any:
    known = {"null": None, "true": True, "false": False}
    return known[value] if value in known else int(value) if value.isdecimal() else value


def answer_of(vendor: str, text: str) -> tuple[bytes, int]:
    """Return the recorded answer as JSON, and how many vectors it has."""
    if vendor == "cohere":
        rows: list[list[float]] = []
        for first, number in re.findall(r"^ {8}(- |  )- (-?[\d.e-]+)$", text, re.MULTILINE):
            if first == "- ":
                rows.append([])
            rows[-1].append(float(number))
        tokens = int(re.findall(r"^ +input_tokens: (\d+)", text, re.MULTILINE)[0])
        body: Any = {"embeddings": {"float": rows}, "meta": {"billed_units": {"input_tokens": tokens}}}
        return json.dumps(body).encode(), len(rows)
    entries = re.findall(r"^ {6}- embedding: (\S+)\n +index: (\d+)", text, re.MULTILINE)
    usage = {name: int(count) for name, count in re.findall(r"^ {8}(\w+_tokens): (\d+)$", text, re.MULTILINE)}
    data = [{"embedding": row, "index": int(place)} for row, place in entries]
    return json.dumps({"data": data, "usage": usage}).encode(), len(entries)


@needs_recordings
@pytest.mark.parametrize("vendor", HOSTS)
def test_every_recorded_answer_is_read_and_asked_for_in_the_same_words(vendor: str) -> None:
    words, make = MAKERS[vendor]
    (embedder,) = make("http://127.0.0.1:1").provide_embedders(None)
    read = 0
    for name, text in exchanges(HOSTS[vendor]):
        asked, _, answered = text.partition("response:")
        if "code: 200" not in answered:
            continue
        sent = body_of(asked)
        role = "query" if "query" in str(sent.get("input_type")) else "document"
        cuts = sent.get("truncation") is True or sent.get("truncate") == "END"
        size = sent.get(words.dimensions)
        request = EmbeddingRequest(sent["model"], sent[words.texts], role, size, truncate=cuts)
        ours = json.loads(embedder.asked(request).body)
        if sent.get("input_type") in (None, "classification") or sent.get("truncate") == "START":
            sent |= {key: ours[key] for key in ("input_type", "truncate") if key in ours}  # what the contract has not
        assert ours == {key: value for key, value in sent.items() if value is not None}, name
        data, count = answer_of(vendor, answered)
        response = embedder.read(data, request, Faults(vendor, "http://x"))
        assert count == len(response.vectors) == len(request.texts), name
        assert response.vectors.dimensions >= 128, name
        assert response.usage.input is not None, name
        read += 1
    assert read > 1
