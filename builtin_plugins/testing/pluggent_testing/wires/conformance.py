"""What every provider has to do with a server at its other end that the suite controls.

    class TestMine(WireConformance):
        wire = OpenAIWire()

        def make_provider(self, server):
            return opened(MyPlugin(base_url=server.url, key=server.key, timeout_s=server.patience_s))

A real HTTP server on loopback speaks the vendor's format, well, late and broken. ``OpenAIWire``,
``ResponsesWire``, ``AnthropicWire``, ``ConverseWire``, ``GeminiWire``, ``InteractionsWire`` and ``OllamaWire`` come
with the suite; another format is a class that inherits ``Wire``. What ``ProviderConformance`` asks is asked here too.
"""

from __future__ import annotations

from pluggent_testing.providers.lifetimes import Lifetimes
from pluggent_testing.providers.replies import NamesAndReplies
from pluggent_testing.providers.requests import Requests
from pluggent_testing.providers.stories import Stories
from pluggent_testing.wires.cases.breaks import Breaks
from pluggent_testing.wires.cases.damage import Damage
from pluggent_testing.wires.cases.faults import Faults
from pluggent_testing.wires.cases.replies import WireReplies
from pluggent_testing.wires.cases.requests import WireParameters, WireRequests
from pluggent_testing.wires.cases.waits import Waits


class WireConformance(
    NamesAndReplies,
    Requests,
    Lifetimes,
    Stories,
    WireReplies,
    WireRequests,
    WireParameters,
    Faults,
    Breaks,
    Waits,
    Damage,
):
    """The promises of ``pluggent_hookspecs.Provider``, seen from both ends.

    Inherit, say which wire it is, and how a provider is made for a server. ``patience_s`` is
    what the provider is told to wait at most in tests of that, ``max_bytes`` what it is told to read
    at most; with ``bounds_size = False`` it need not know a limit. More in WireSuite and Suite.
    """
