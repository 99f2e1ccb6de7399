"""The replies of script.py, handed out as a provider does: whole, or word by word."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Iterator, Sequence

from pluggent_hookspecs import Delta, ModelInfo, ModelRequest, ModelResponse, TextDelta, deltas

from pluggent_offline.script import answer

_PIECE = re.compile(r"\s*\S+\s*|\s+")


class OfflineProvider:
    """A provider without network, key or model. Any model name will do: ``offline/demo``.

    A reply is a pure function of the request. It is streamed a word a batch. For
    ``output_schema`` it is the smallest value that the schema allows, as JSON.

    ``max_output_tokens``, ``stop``, ``parallel_tool_calls`` and ``tool_choice`` are heeded, the
    latter until a call was made. Nothing is drawn by lot here, so any ``temperature``, ``top_p``,
    ``top_k``, ``seed`` and penalty gets the one reply that there is. The other parameters are
    words to a vendor or to a model, of which there is none: they are refused.

    Usage counts words: everything between white space in the texts, tool calls and tool
    results of the conversation is one token. Definitions of tools are not counted.

    Raises ProviderError ``bad_request`` for what is refused, nothing else.
    """

    @property
    def name(self) -> str:
        """``offline``."""
        return "offline"

    @property
    def target(self) -> str:
        """``offline:``: requests go nowhere."""
        return "offline:"

    async def complete(self, request: ModelRequest) -> ModelResponse:
        """Return the whole reply."""
        return answer(request)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Sequence[Delta]]:
        """Yield the reply word by word; Finished comes last."""
        for delta in _pieces(answer(request)):
            yield (delta,)
            await asyncio.sleep(0)  # others get their turn between two words, as with a network

    async def list_models(self) -> Sequence[ModelInfo]:
        """Return the one name that stands for all."""
        return (ModelInfo("demo", "offline stand-in: any name will do, no model is behind it"),)


def _pieces(response: ModelResponse) -> Iterator[Delta]:
    for delta in deltas(response):
        if isinstance(delta, TextDelta):
            yield from (TextDelta(piece) for piece in _PIECE.findall(delta.text))
        else:
            yield delta
