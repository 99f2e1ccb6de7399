from __future__ import annotations

from odd_server import settings_for
from pluggent_ollama.plugin import Ollama
from pluggent_testing.wires import Made, OllamaWire, WireConformance, WireServer, opened


class TestOllama(WireConformance):
    wire = OllamaWire()
    whole_by_stream = True

    def make_provider(self, server: WireServer) -> Made:
        return opened(Ollama(Ollama.Settings(**settings_for(server))))
