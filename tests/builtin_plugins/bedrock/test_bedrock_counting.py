"""The provider counts as every counter does, with an honest server at its other end."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from pluggent_bedrock.plugin import Bedrock
from pluggent_bedrock.settings import Settings
from pluggent_hookspecs import Provider, Secret
from pluggent_testing.counters import CounterConformance
from pluggent_testing.wires import opened
from pluggent_testing.wires.http_server import LoopbackServer, Received, Steps, answer


def honest(asked: Received) -> Steps:
    """Count a token for four bytes of the prompt."""
    assert asked.path.endswith("/count-tokens")
    return answer(json.dumps({"inputTokens": len(json.dumps(asked.json["input"]["converse"])) // 4}).encode())


@asynccontextmanager
async def counting() -> AsyncGenerator[Provider]:
    with LoopbackServer(honest) as server:
        settings = Settings(base_url=server.origin, region="eu-west-1", api_key=Secret.of("bedrock-key"))
        async with opened(Bedrock(settings)) as provider:
            yield provider


class TestBedrockCounter(CounterConformance):
    def make_counter(self) -> AbstractAsyncContextManager[Provider]:
        return counting()
