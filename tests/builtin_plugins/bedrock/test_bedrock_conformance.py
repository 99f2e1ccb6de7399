from __future__ import annotations

from typing import Any

from odd_server import settings_for
from pluggent_bedrock.plugin import Bedrock
from pluggent_testing.wires import ConverseWire, Made, WireConformance, WireServer, opened


def at(server: WireServer, **settings: Any) -> Made:
    return opened(Bedrock(Bedrock.Settings(**settings_for(server), region="us-east-1", **settings)))


class TestBedrock(WireConformance):
    wire = ConverseWire()
    whole_by_stream = True

    def make_provider(self, server: WireServer) -> Made:
        return at(server)


class TestBedrockWithoutStreams(WireConformance):
    wire = ConverseWire()
    stream_by_whole = True

    def make_provider(self, server: WireServer) -> Made:
        return at(server, stream=False)
