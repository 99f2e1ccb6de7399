from __future__ import annotations

from typing import Any

from odd_server import settings_for
from pluggent_anthropic.plugin import Anthropic
from pluggent_testing.wires import AnthropicWire, Made, WireConformance, WireServer, opened


def at(server: WireServer, **settings: Any) -> Made:
    return opened(Anthropic(Anthropic.Settings(**settings_for(server), **settings)))


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
