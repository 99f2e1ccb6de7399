"""The settings of a provider for a server of the wire's suite."""

from typing import Any

from pluggent_hookspecs import Secret
from pluggent_testing.providers_wire import WireServer


def settings_for(server: WireServer) -> dict[str, Any]:
    """Return where *server* is, its key, and its limits."""
    return {
        "base_url": server.url,
        "api_key": Secret.of(server.key),
        "connect_s": server.patience_s,
        "first_byte_s": server.patience_s,
        "silence_s": server.patience_s,
        "max_response_bytes": server.max_bytes,
    }
