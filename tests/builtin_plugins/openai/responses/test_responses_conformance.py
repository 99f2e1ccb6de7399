from __future__ import annotations

from odd_server import settings_for
from pluggent_openai.plugin import OpenAI
from pluggent_testing.wires import Made, ResponsesWire, WireConformance, WireServer, opened


class TestResponses(WireConformance):
    wire = ResponsesWire()

    def make_provider(self, server: WireServer) -> Made:
        return opened(OpenAI(OpenAI.Settings(**settings_for(server), api="responses")))
