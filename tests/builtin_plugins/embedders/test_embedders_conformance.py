"""The embedders of this repository do what every embedder does, each with an honest server at its other end."""

from contextlib import AbstractAsyncContextManager

from embedding_server import embedding
from pluggent_hookspecs import Embedder
from pluggent_testing.embedders import EmbedderConformance, opened
from pluggent_testing.fakes import ScriptedEmbedder


class TestOpenAI(EmbedderConformance):
    truncates = False

    def make_embedder(self) -> AbstractAsyncContextManager[Embedder]:
        return embedding("openai")


class TestCohere(EmbedderConformance):
    roles = True

    def make_embedder(self) -> AbstractAsyncContextManager[Embedder]:
        return embedding("cohere")


class TestVoyage(EmbedderConformance):
    roles = True

    def make_embedder(self) -> AbstractAsyncContextManager[Embedder]:
        return embedding("voyage")


class TestOllama(EmbedderConformance):
    def make_embedder(self) -> AbstractAsyncContextManager[Embedder]:
        return embedding("ollama")


class TestScripted(EmbedderConformance):
    roles = True

    def make_embedder(self) -> AbstractAsyncContextManager[Embedder]:
        return opened(ScriptedEmbedder())
