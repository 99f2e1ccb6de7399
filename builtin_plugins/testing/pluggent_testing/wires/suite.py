"""What all cases with a wire share: the server, and the provider that asks it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

import pytest
from pluggent_hookspecs import (
    ModelRequest,
    ModelResponse,
    Provider,
    ProviderError,
    ProviderErrorKind as Kind,
    Reasoning,
    Refusal,
    Text,
)

from pluggent_testing.providers.asking import WAIT_S, Ask, Made, outcome, whole
from pluggent_testing.providers.suite import Maker, Suite
from pluggent_testing.wires.format import Says, Wire
from pluggent_testing.wires.server import KEY, WireServer

_HASTY = "__pluggent_hasty__"

T = TypeVar("T")


def hasty(test: T) -> T:
    """Mark a test that waits until a provider has lost its patience."""
    setattr(test, _HASTY, True)
    return test


class WireSuite(Suite):
    """Who inherits has a ``wire`` and a ``make_provider`` for its server.

    ``whole_by_stream``: ``complete`` asks the server for a stream and collects it.
    ``stream_by_whole``: ``stream`` asks for a whole reply and hands that on. ``patience_s`` is what
    the provider is told to wait at most where a test waits for that; elsewhere it is ``calm_s``,
    which no busy machine makes it reach.
    """

    wire: Wire
    patience_s: float = 0.6
    calm_s: float = 10.0
    max_bytes: int = 1_000_000
    bounds_size: bool = True
    whole_by_stream: bool = False
    stream_by_whole: bool = False

    deterministic = True
    obedient = False
    secrets = (KEY,)

    def make_provider(self, server: WireServer) -> Made:
        """Return a provider for *server*; see WireServer for what it is to keep to.

        As in ProviderConformance it may be a provider, an awaitable of one, or a context manager.
        """
        raise TypeError(f"{type(self).__name__} does not say how a provider is made: write make_provider(self, server)")

    @pytest.fixture
    def server(self, request: pytest.FixtureRequest) -> Iterator[WireServer]:
        """Return the server of this test."""
        patience_s = self.patience_s if hasattr(request.function, _HASTY) else self.calm_s
        with WireServer(self.wire, patience_s, self.max_bytes, min(WAIT_S, self.limit_s)) as server:
            yield server

    @pytest.fixture
    def maker(self, server: WireServer) -> Maker:
        """Return what makes a provider."""
        return lambda: self.make_provider(server)

    async def sent(self, provider: Provider, server: WireServer, request: ModelRequest, ask: Ask) -> Any:
        """Return the body that arrives, or the refusal."""
        answer = await outcome(provider, request, ask)
        return server.asked[-1].json if isinstance(answer, ModelResponse) else answer

    def asks_whole(self, ask: Ask) -> bool:
        """Tell whether the server is asked for a whole reply."""
        return not self.whole_by_stream if ask is whole else self.stream_by_whole

    def needs_streams(self) -> None:
        """Skip a provider that asks for no streams."""
        if self.stream_by_whole:
            pytest.skip("this provider asks for no streams")

    def needs_whole_replies(self) -> None:
        """Skip a provider that asks for streams alone."""
        if self.whole_by_stream:
            pytest.skip("this provider asks for streams alone")

    def needs(self, *words: Says) -> None:
        """Skip what this wire has no words for."""
        missing = [word.value for word in words if word not in self.wire.says]
        if missing:
            pytest.skip(f"this format does not know {', '.join(missing)}")


def content_of(reply: ModelResponse) -> list[object]:
    """Return what a person and the host see of *reply*: its parts, neighbouring texts as one, and its calls."""
    parts: list[object] = []
    for part in reply.message.content:
        last = parts[-1] if parts else None
        if isinstance(part, Text) and isinstance(last, Text):
            parts[-1] = Text(last.text + part.text)
        elif not (isinstance(part, Text | Refusal | Reasoning) and not part.text):
            parts.append(part)
    calls = [(call.id, call.name, call.arguments) for call in reply.message.tool_calls]
    return [parts, calls, reply.finish_reason]


def assert_error(answer: ModelResponse | ProviderError, *kinds: Kind) -> ProviderError:
    """Return *answer*, which is an error of one of *kinds*."""
    assert isinstance(answer, ProviderError), f"expected an error ({_listed(kinds)}), got the reply {answer}"
    assert answer.kind in kinds, f"expected an error of kind {_listed(kinds)}, got {answer.kind}: {answer}"
    return answer


def _listed(kinds: Sequence[Kind]) -> str:
    return " or ".join(kinds)
