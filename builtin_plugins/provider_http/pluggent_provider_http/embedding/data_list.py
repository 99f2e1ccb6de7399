"""Answers of the shape ``{"data": [{"index": 0, "embedding": …}], "model": …, "usage": …}``. Pure.

OpenAI's, and that of all who are compatible with it; Voyage's too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import msgspec
from pluggent_hookspecs import EmbeddingResponse, Usage, Vectors

from pluggent_provider_http.embedding.vectors import in_order, joined, read_entries
from pluggent_provider_http.payload import MalformedError, Object, as_object, as_text, decode_whole
from pluggent_provider_http.server_errors import Faults
from pluggent_provider_http.token_counts import as_tokens


class _Entry(msgspec.Struct):
    embedding: bytes
    index: int | None = None


class _Answer(msgspec.Struct):
    data: list[_Entry]
    model: str = ""
    usage: dict[str, Any] | None = None
    error: Any = None


_read = msgspec.json.Decoder(_Answer).decode
"""Reads what such answers are in nearly all cases: base64 goes to bytes in half the time of two steps."""


def read_data_list(data: bytes, texts: int, faults: Faults, *, tokens: str) -> EmbeddingResponse:
    """Return the vectors of *texts* texts in *data*; *tokens* is what their number is called in ``usage``.

    Raises ProviderError: what the answer holds, or ``protocol``.
    """
    try:
        try:
            answer = _read(data)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return _read_slowly(data, texts, faults, tokens)
        if answer.error:
            raise faults.from_payload({"error": answer.error})
        vectors = joined(in_order([(one.index, one.embedding) for one in answer.data], texts), texts)
        return _response(vectors, answer.usage, answer.model, tokens)
    except MalformedError as error:
        shown = faults.shown(data[:_SHOWN_BYTES]) or "(empty)"
        raise faults.protocol(f"answered with what is not a list of vectors: {error}: {shown}") from error
    except RecursionError as error:
        raise faults.protocol("answered with JSON that is nested too deeply") from error


_SHOWN_BYTES = 1_000


def _read_slowly(data: bytes, texts: int, faults: Faults, tokens: str) -> EmbeddingResponse:
    """Read lists of numbers too, and say what is wrong."""
    answer: Any = decode_whole(data)
    fields = as_object(answer, "it")
    if fields.get("error"):
        raise faults.from_payload(fields)
    return _response(read_entries(fields.get("data"), texts), fields.get("usage"), as_text(fields.get("model")), tokens)


def _response(vectors: Vectors, usage: object, model: str, tokens: str) -> EmbeddingResponse:
    counts: Object = cast("Object", usage) if isinstance(usage, Mapping) else {}
    return EmbeddingResponse(vectors, Usage(input=as_tokens(counts.get(tokens))), model)
