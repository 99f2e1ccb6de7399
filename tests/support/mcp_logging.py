"""mcp_peer.py with a log, as a program over stdin and stdout; its behaviours are those of that one, and two more.

refuses  answers with an error when it is told from which level on to log
ignores  answers that with what is no answer
"""

import json
from typing import Any

import mcp_peer
from mcp_peer import BEHAVIOUR, send, text


class LoggingPeer(mcp_peer.Peer):
    """Logs whatever it is told, at whatever level; keeps the level that it was asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.levels: list[str] = []

    def answer(self, message: dict[str, Any]) -> dict[str, Any]:
        """Return result or error of a request."""
        if message["method"] == "logging/setLevel":
            self.levels.append(message["params"]["level"])
            if "ignores" in BEHAVIOUR:
                return {}
            return {"error": {"code": -32603, "message": "no log"}} if "refuses" in BEHAVIOUR else {"result": {}}
        answer = super().answer(message)
        if message["method"] == "initialize":
            answer["result"]["capabilities"]["logging"] = {}
        return answer

    def call_say(self, id: Any, arguments: Any, params: Any) -> Any:
        for entry in arguments["entries"]:
            send({"jsonrpc": "2.0", "method": "notifications/message", "params": entry})
        return text("said")

    def call_levels(self, id: Any, arguments: Any, params: Any) -> Any:
        return text(json.dumps(self.levels))


if __name__ == "__main__":
    LoggingPeer().run()
