"""A server that embeds in the words of a vendor, honestly or as it is told, and the embedders that ask it."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import struct
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import attrs
from odd_server import Loopback, Received, answer, read_request
from pluggent_embedders.plugin import CohereEmbedders, VoyageEmbedders
from pluggent_embedders.settings import Cohere, Settings, Voyage
from pluggent_hookspecs import Embedder, Secret
from pluggent_ollama.plugin import OllamaEmbedders
from pluggent_openai.plugin import OpenAIEmbedders
from pluggent_testing.embedders import opened

KEY = "sk-secret-0123456789"
SIZE = 6


def numbers(text: str, size: int) -> tuple[float, ...]:
    """Return the vector that *text* has at every server of ours."""
    digest = hashlib.shake_256(text.encode("utf-8", "surrogatepass")).digest(size)
    return tuple(byte / 256 for byte in digest)


def packed(row: Sequence[float]) -> str:
    """Return a vector as base64."""
    return base64.b64encode(struct.pack(f"<{len(row)}f", *row)).decode()


@attrs.frozen
class Words:
    """How one vendor puts it: the fields of requests, and its answers."""

    path: str
    texts: str
    dimensions: str
    role: str = ""
    most: int = 10**6

    def list_answer(self, rows: Sequence[Any], tokens: int) -> dict[str, Any]:
        """Return the answer with *rows*, which are as the vendor writes a vector."""
        if self.path == "/api/embed":
            return {"model": "m-1", "embeddings": rows, "total_duration": 7, "prompt_eval_count": tokens}
        if self.path == "/embed":
            return {"id": "e1", "embeddings": {"float": rows}, "meta": {"billed_units": {"input_tokens": tokens}}}
        data = [{"object": "embedding", "index": place, "embedding": row} for place, row in enumerate(rows)]
        counts = {"prompt_tokens": tokens, "total_tokens": tokens}
        return {"object": "list", "data": data, "model": "m-1", "usage": counts}

    def row(self, vector: Sequence[float]) -> Any:
        """Return *vector* as the vendor writes it."""
        return list(vector) if self.path.endswith("/embed") else packed(vector)


OPENAI = Words("/embeddings", "input", "dimensions", most=2_048)
COHERE = Words("/embed", "texts", "output_dimension", "input_type", most=96)
OLLAMA = Words("/api/embed", "input", "dimensions")
VOYAGE = Words("/embeddings", "input", "output_dimension", "input_type", most=1_000)


class EmbeddingServer(Loopback):
    """Answers honestly, or once for each of *replies*, in order. ``requests`` is what it was asked."""

    def __init__(self, words: Words, *replies: bytes | None) -> None:
        super().__init__()
        self.words = words
        self.requests: list[Received] = []
        self._replies = list(replies)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def texts(self) -> list[list[str]]:
        """The texts of each request."""
        return [request.json[self.words.texts] for request in self.requests]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while (request := await read_request(reader)) is not None:
            self.requests.append(request)
            reply = self._replies.pop(0) if self._replies else None
            writer.write(self._honest(request.json) if reply is None else reply)
            await writer.drain()

    def _honest(self, asked: Mapping[str, Any]) -> bytes:
        words, texts = self.words, asked[self.words.texts]
        if len(texts) > words.most:
            return whole({"error": {"message": f"inputs: at most {words.most}"}}, 400)
        size, role = asked.get(words.dimensions) or SIZE, asked.get(words.role, "")
        rows = [words.row(numbers(f"{role} {text}", size)) for text in texts]
        return whole(words.list_answer(rows, sum(map(len, texts))))


def whole(value: object, status: int = 200, headers: Mapping[str, str] | None = None) -> bytes:
    """Return *value* as an answer."""
    (data,) = answer(json.dumps(value), status, {"x-request-id": "req_1", **(headers or {})})
    assert isinstance(data, bytes)
    return data


def openai_at(url: str, **settings: Any) -> OpenAIEmbedders:
    """Return the plugin for the server at *url*, with a key."""
    return OpenAIEmbedders(OpenAIEmbedders.Settings(base_url=url, api_key=Secret.of(KEY), **settings))


def cohere_at(url: str, **settings: Any) -> CohereEmbedders:
    """Return the plugin for the server at *url*, with a key."""
    return CohereEmbedders(Settings(cohere=Cohere(base_url=url, api_key=Secret.of(KEY), **settings)))


def voyage_at(url: str, **settings: Any) -> VoyageEmbedders:
    """Return the plugin for the server at *url*, with a key."""
    return VoyageEmbedders(Settings(voyage=Voyage(base_url=url, api_key=Secret.of(KEY), **settings)))


def ollama_at(url: str, **settings: Any) -> OllamaEmbedders:
    """Return the plugin for the server at *url*, with a key."""
    base_url = url.removesuffix("/v1")
    return OllamaEmbedders(OllamaEmbedders.Settings(base_url=base_url, api_key=Secret.of(KEY), **settings))


MAKERS: Mapping[str, tuple[Words, Callable[..., Any]]] = {
    "openai": (OPENAI, openai_at),
    "cohere": (COHERE, cohere_at),
    "voyage": (VOYAGE, voyage_at),
    "ollama": (OLLAMA, ollama_at),
}


@asynccontextmanager
async def serving(
    vendor: str, *replies: bytes | None, **settings: Any
) -> AsyncGenerator[tuple[EmbeddingServer, Embedder]]:
    """Open a server of *vendor* and an embedder that asks it."""
    words, make = MAKERS[vendor]
    async with EmbeddingServer(words, *replies) as server, opened(make(server.url, **settings)) as embedder:
        yield server, embedder


@asynccontextmanager
async def embedding(vendor: str) -> AsyncGenerator[Embedder]:
    """Open an embedder with an honest server at its other end."""
    async with serving(vendor) as (_, embedder):
        yield embedder
