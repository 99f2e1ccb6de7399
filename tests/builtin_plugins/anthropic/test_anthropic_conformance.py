from __future__ import annotations

from typing import Any

from pluggent_anthropic.plugin import Anthropic
from pluggent_hookspecs import Secret
from pluggent_host.testing.providers_wire import AnthropicWire, Made, WireConformance, WireServer, opened


def at(server: WireServer, **settings: Any) -> Made:
    return opened(
        Anthropic(
            Anthropic.Settings(
                base_url=server.url,
                api_key=Secret.of(server.key),
                connect_s=server.patience_s,
                first_byte_s=server.patience_s,
                silence_s=server.patience_s,
                max_response_bytes=server.max_bytes,
                **settings,
            )
        )
    )


class TestAnthropic(WireConformance):
    wire = AnthropicWire()
    whole_by_stream = True

    def make_provider(self, server: WireServer) -> Made:
        return at(server)


class TestAnthropicWithoutStreams(WireConformance):
    wire = AnthropicWire()
    stream_by_whole = True

    def make_provider(self, server: WireServer) -> Made:
        return at(server, stream=False)
