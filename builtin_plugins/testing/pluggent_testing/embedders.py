"""What every embedder has to do, as tests to be inherited.

    class TestMine(EmbedderConformance):
        def make_embedder(self):
            return opened(MyPlugin(base_url=...))

The tests need pytest and no plugin of it: each runs a story in an event loop of its own.
"""

from __future__ import annotations

import asyncio
import math
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Protocol, TypeAlias

import attrs
from pluggent_hookspecs import Embedder, EmbeddingRequest, EmbeddingResponse, ProvideEvent, ProviderError, Vectors

__all__ = ["EmbedderConformance", "opened"]

Story: TypeAlias = Callable[[Embedder], Coroutine[Any, Any, None]]
PATIENCE_S = 60.0
"""How long one story may take before it counts as hanging."""

TEXTS = ("Tea is hot.", "Ice is cold.", "天气很好。", 'a\nb\t"c" \\ \u2028 🎉', "x" * 300)
"""What an embedder has to take as it is."""


class ProvidesEmbedders(Protocol):
    """A plugin that provides embedders."""

    def provide_embedders(self, event: ProvideEvent) -> Any:
        """Return them."""
        ...


@asynccontextmanager
async def opened(plugin: ProvidesEmbedders) -> AsyncGenerator[Embedder]:
    """Open *plugin*, if it wants to be opened, and yield its first embedder."""
    embedder: Embedder = next(iter(plugin.provide_embedders(ProvideEvent())))
    opens = getattr(plugin, "open", None)
    if opens is None:
        yield embedder
        return
    async with opens(_Context()):
        yield embedder


class _Context:
    """What a plugin is opened with."""

    plugin = "pluggent-testing"
    host_version = "0"

    async def tools_named(self, pattern: str) -> tuple[str, ...]:
        return (pattern,)

    async def model_named(self, name: str) -> str:
        return name


def check_vectors(response: EmbeddingResponse, texts: Sequence[str]) -> Vectors:
    """Return the vectors in *response*. Raises AssertionError if they are not what *texts* have to get."""
    vectors = response.vectors
    assert len(vectors) == len(texts), f"{len(vectors)} vectors for {len(texts)} texts"
    assert vectors.finite, "a number is not finite"
    assert not texts or vectors.dimensions > 0, "the vectors have no dimensions"
    for count in (response.usage.input, response.usage.output):
        assert count is None or (type(count) is int and count >= 0), f"{count!r} is not a count of tokens"
    return vectors


def is_like(one: Sequence[float], other: Sequence[float]) -> bool:
    """Say whether two vectors are the same, as far as a vendor embeds a text twice alike."""
    return all(math.isclose(a, b, rel_tol=1e-2, abs_tol=1e-3) for a, b in zip(one, other, strict=True))


class EmbedderConformance(ABC):
    """The promises of ``pluggent_hookspecs.Embedder``. Inherit, and say how one is made.

    ``model`` is asked for vectors. ``dimensions`` is a size that it has besides its own, None if it has no other;
    ``roles`` says whether a query has another vector than a document; ``truncates`` whether texts can be cut.
    ``many`` texts need more than one request.
    """

    model: str = "m"
    dimensions: int | None = 4
    truncates: bool = True
    roles: bool = False
    many: int = 250

    @abstractmethod
    def make_embedder(self) -> AbstractAsyncContextManager[Embedder]:
        """Return what opens an embedder for a test, and closes it; see ``opened``."""

    def told(self, story: Story) -> None:
        """Tell *story* of an embedder, in an event loop of its own."""

        async def tell() -> None:
            async with asyncio.timeout(PATIENCE_S), self.make_embedder() as embedder:
                await story(embedder)

        asyncio.run(tell())

    def asked(self, *texts: str, **more: Any) -> EmbeddingRequest:
        """Return a request for vectors of *texts*."""
        return EmbeddingRequest(self.model, texts, **more)

    # ---- the tests -----------------------------------------------------------------------

    def test_it_has_a_name_and_a_target_without_secrets(self) -> None:
        async def story(embedder: Embedder) -> None:
            assert isinstance(embedder, Embedder)
            assert embedder.name
            assert "/" not in embedder.name
            assert "@" not in embedder.target
            assert "?" not in embedder.target

        self.told(story)

    def test_each_text_has_its_vector_in_its_place(self) -> None:
        async def story(embedder: Embedder) -> None:
            together = check_vectors(await embedder.embed(self.asked(*TEXTS)), TEXTS)
            for place, text in enumerate(TEXTS):
                alone = check_vectors(await embedder.embed(self.asked(text)), (text,))
                assert is_like(alone[0], together[place]), f"{text!r} has another vector by itself"

        self.told(story)

    def test_equal_texts_have_equal_vectors_and_others_have_others(self) -> None:
        async def story(embedder: Embedder) -> None:
            vectors = check_vectors(await embedder.embed(self.asked("tea", "ice", "tea")), "abc")
            assert is_like(vectors[0], vectors[2])
            assert not is_like(vectors[0], vectors[1])

        self.told(story)

    def test_no_texts_have_no_vectors(self) -> None:
        async def story(embedder: Embedder) -> None:
            assert check_vectors(await embedder.embed(self.asked()), ()) == Vectors()

        self.told(story)

    def test_many_texts_come_back_in_order(self) -> None:
        async def story(embedder: Embedder) -> None:
            texts = [f"text {number}" for number in range(self.many)]
            vectors = check_vectors(await embedder.embed(self.asked(*texts)), texts)
            for place in (0, self.many // 2, self.many - 1):
                alone = check_vectors(await embedder.embed(self.asked(texts[place])), "a")
                assert is_like(alone[0], vectors[place]), f"the vector of text {place} is another one's"

        self.told(story)

    def test_queries_and_documents_are_told_apart_where_the_model_does(self) -> None:
        async def story(embedder: Embedder) -> None:
            query = check_vectors(await embedder.embed(self.asked("tea", role="query")), "a")
            document = check_vectors(await embedder.embed(self.asked("tea", role="document")), "a")
            assert is_like(query[0], document[0]) is not self.roles

        self.told(story)

    def test_vectors_have_the_dimensions_that_were_asked_for_or_the_request_is_refused(self) -> None:
        async def story(embedder: Embedder) -> None:
            if self.dimensions is None:
                assert (await _refused(embedder, self.asked("tea", dimensions=4))).kind == "bad_request"
                return
            asked = self.asked("tea", "ice", dimensions=self.dimensions)
            vectors = check_vectors(await embedder.embed(asked), "ab")
            assert vectors.dimensions == self.dimensions

        self.told(story)

    def test_texts_are_cut_if_that_is_asked_for_or_the_request_is_refused(self) -> None:
        async def story(embedder: Embedder) -> None:
            asked = self.asked("tea", truncate=True)
            if self.truncates:
                check_vectors(await embedder.embed(asked), "a")
            else:
                assert (await _refused(embedder, asked)).kind == "bad_request"

        self.told(story)

    def test_a_text_that_is_no_unicode_is_refused_or_taken(self) -> None:
        async def story(embedder: Embedder) -> None:
            try:
                check_vectors(await embedder.embed(self.asked("a\ud83c")), "a")
            except ProviderError as error:
                assert error.kind == "bad_request"  # noqa: PT017 (or it raises nothing)

        self.told(story)

    def test_requests_go_side_by_side(self) -> None:
        async def story(embedder: Embedder) -> None:
            texts = [f"text {number}" for number in range(8)]
            found = await asyncio.gather(*(embedder.embed(self.asked(text)) for text in texts))
            together = check_vectors(await embedder.embed(self.asked(*texts)), texts)
            for response, vector in zip(found, together, strict=True):
                assert is_like(check_vectors(response, "a")[0], vector)

        self.told(story)

    def test_a_cancelled_request_is_cancelled_and_leaves_the_embedder_as_it_was(self) -> None:
        async def story(embedder: Embedder) -> None:
            task = asyncio.create_task(embedder.embed(self.asked(*TEXTS)))
            await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait({task})
            assert task.cancelled() or task.exception() is None
            check_vectors(await embedder.embed(self.asked("tea")), "a")

        self.told(story)

    def test_it_works_in_a_second_event_loop(self) -> None:
        async def story(embedder: Embedder) -> None:
            check_vectors(await embedder.embed(self.asked("tea")), "a")

        self.told(story)
        self.told(story)

    def test_the_request_stays_as_it_was(self) -> None:
        async def story(embedder: Embedder) -> None:
            asked = self.asked("tea", "ice")
            before = attrs.evolve(asked)
            await embedder.embed(asked)
            assert asked == before

        self.told(story)


async def _refused(embedder: Embedder, asked: EmbeddingRequest) -> ProviderError:
    try:
        await embedder.embed(asked)
    except ProviderError as error:
        return error
    raise AssertionError("the request was not refused")
