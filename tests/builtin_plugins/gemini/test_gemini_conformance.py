from __future__ import annotations

from typing import Any

from odd_server import settings_for
from pluggent_gemini.plugin import Gemini
from pluggent_testing.wires import GeminiWire, InteractionsWire, Made, WireConformance, WireServer, opened


def at(server: WireServer, **settings: Any) -> Made:
    return opened(Gemini(Gemini.Settings(**settings_for(server), **settings)))


class TestGemini(WireConformance):
    wire = GeminiWire()
    whole_by_stream = True

    def make_provider(self, server: WireServer) -> Made:
        return at(server)


class TestGeminiWithoutStreams(WireConformance):
    wire = GeminiWire()
    stream_by_whole = True

    def make_provider(self, server: WireServer) -> Made:
        return at(server, stream=False)


class TestInteractions(WireConformance):
    wire = InteractionsWire()
    whole_by_stream = True

    def make_provider(self, server: WireServer) -> Made:
        return at(server, api="interactions")
