"""What every provider has to do with a server at its other end that the suite controls, as tests to be inherited."""

from pluggent_testing.providers.asking import Made, opened
from pluggent_testing.wires.conformance import WireConformance
from pluggent_testing.wires.format import Fault, Says, Wire
from pluggent_testing.wires.formats.anthropic import AnthropicWire
from pluggent_testing.wires.formats.converse import ConverseWire
from pluggent_testing.wires.formats.gemini import GeminiWire
from pluggent_testing.wires.formats.interactions import InteractionsWire
from pluggent_testing.wires.formats.ollama import OllamaWire
from pluggent_testing.wires.formats.openai import OpenAIWire
from pluggent_testing.wires.formats.responses import ResponsesWire
from pluggent_testing.wires.server import WireServer

__all__ = [
    "AnthropicWire",
    "ConverseWire",
    "Fault",
    "GeminiWire",
    "InteractionsWire",
    "Made",
    "OllamaWire",
    "OpenAIWire",
    "ResponsesWire",
    "Says",
    "Wire",
    "WireConformance",
    "WireServer",
    "opened",
]
