from __future__ import annotations

from pluggent_hookspecs import Secret
from pluggent_host.testing.providers_wire import Made, OpenAIWire, WireConformance, WireServer, opened
from pluggent_openai.plugin import OpenAI


class TestOpenAI(WireConformance):
    wire = OpenAIWire()

    def make_provider(self, server: WireServer) -> Made:
        return opened(
            OpenAI(
                OpenAI.Settings(
                    base_url=server.url,
                    api_key=Secret.of(server.key),
                    connect_s=server.patience_s,
                    first_byte_s=server.patience_s,
                    silence_s=server.patience_s,
                    max_response_bytes=server.max_bytes,
                )
            )
        )
