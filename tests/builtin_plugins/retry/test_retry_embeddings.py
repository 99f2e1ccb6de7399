"""Embeddings that fail and are tried again; never with another model."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import attrs
import pytest
from pluggent_hookspecs import EmbeddingIncomplete, EmbeddingRequest, EmbeddingResponse, ProviderError
from pluggent_host import Host
from pluggent_retry.plugin import Retry
from pluggent_testing.fakes import EmbeddingReply, ScriptedEmbedder, ScriptedModel
from retrying import Kind, Time, failure

TEXTS = ("one", "two", "three")


def half(request: EmbeddingRequest) -> EmbeddingResponse:
    came = ScriptedEmbedder().vectors_of(attrs.evolve(request, texts=request.texts[:1]))
    raise EmbeddingIncomplete(failure(message="gone"), came, len(request.texts))


@asynccontextmanager
async def embedding(*replies: EmbeddingReply, **settings: Any) -> AsyncGenerator[tuple[Host, ScriptedEmbedder, Time]]:
    time, embedder = Time(), ScriptedEmbedder(*replies)
    retry = Retry(Retry.Settings(**settings), clock=time.clock, draw=lambda: 0.5)
    async with Host.open(plugins=[retry, embedder, ScriptedModel()], installed=False) as host:
        yield host, embedder, time


async def test_an_embedding_that_fails_and_then_works_gives_its_vectors() -> None:
    async with embedding(failure(), failure(Kind.TIMEOUT)) as (host, embedder, time):
        response = await host.embed("scripted/m", TEXTS)

    assert response == embedder.vectors_of(embedder.requests[0])
    assert time.waits == [0.5, 1.0]


async def test_texts_that_were_embedded_before_a_failure_are_not_sent_again() -> None:
    async with embedding(half, half) as (host, embedder, _):
        response = await host.embed("scripted/m", TEXTS)

    assert [request.texts for request in embedder.requests] == [TEXTS, TEXTS[1:], TEXTS[2:]]
    assert response.vectors == embedder.vectors_of(embedder.requests[0]).vectors


async def test_the_last_failure_is_raised_with_what_came() -> None:
    async with embedding(half, half, attempts=2) as (host, _, _):
        with pytest.raises(
            EmbeddingIncomplete, match="2 of 3 texts were embedded, then: gone; tried 2 times"
        ) as caught:
            await host.embed("scripted/m", TEXTS)

    assert len(caught.value.response.vectors) == 2


async def test_no_other_model_is_asked_for_vectors() -> None:
    async with embedding(*[failure()] * 4, fallback=("scripted/m",)) as (host, embedder, _):
        with pytest.raises(ProviderError, match="tried 4 times"):
            await host.embed("scripted/m", TEXTS)

    assert len(embedder.requests) == 4
