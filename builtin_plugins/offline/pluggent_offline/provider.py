"""The replies of script.py, handed out as a provider does: whole, or word by word."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Iterator, Sequence

from pluggent_hookspecs import Delta, ModelRequest, ModelResponse, TextDelta, deltas

from pluggent_offline.script import answer

_PIECE = re.compile(r"\s*\S+\s*|\s+")


class OfflineProvider:
    """A provider without network, key or model. Any model name will do: ``offline/demo``.

    A reply is a pure function of the request. It is streamed a word a batch. Of the
    parameters, ``max_output_tokens``, ``parallel_tool_calls`` and ``tool_choice="none"`` are
    heeded, ``output_schema`` is refused, the others mean nothing here.

    Usage counts words: everything between white space in the texts, tool calls and tool
    results of the conversation is one token. Definitions of tools are not counted.

    Raises ProviderError ``bad_request`` for ``output_schema``, nothing else.
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


def _pieces(response: ModelResponse) -> Iterator[Delta]:
    for delta in deltas(response):
        if isinstance(delta, TextDelta):
            yield from (TextDelta(piece) for piece in _PIECE.findall(delta.text))
        else:
            yield delta
