"""The replies of script.py, handed out as a provider does: whole, or piece by piece."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Iterator, Sequence

from pluggent_hookspecs import Delta, ModelInfo, ModelRequest, ModelResponse, TextDelta, deltas

from pluggent_offline.script import answer

_WORD = re.compile(r"\s*\S+\s*|\s+")
_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_LONG = 800
"""Characters of a text that is streamed by words; a longer one is a list, and each piece passes the whole way."""


class OfflineProvider:
    """A provider without network, key or model. Any model name will do: ``offline/demo``.

    A reply is a pure function of the request. It is streamed a word a batch, a long one
    a line a batch. For ``output_schema`` it is the smallest value that the schema allows, as JSON.

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
        """Yield the reply piece by piece; Finished comes last."""
        for delta in _pieces(answer(request)):
            yield (delta,)
            await asyncio.sleep(0)  # others get their turn between two pieces, as with a network

    async def list_models(self) -> Sequence[ModelInfo]:
        """Return the one name that stands for all."""
        return (ModelInfo("demo", "offline stand-in: any name will do, no model is behind it"),)


def _pieces(response: ModelResponse) -> Iterator[Delta]:
    for delta in deltas(response):
        if isinstance(delta, TextDelta):
            pieces = (_WORD if len(delta.text) <= _LONG else _LINE).findall(delta.text)
            yield from map(TextDelta, pieces)
        else:
            yield delta
