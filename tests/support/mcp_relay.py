"""What the conformance suite starts as a client: has a test's own process use the server. python mcp_relay.py PORT URL.

A client that imports the SDK takes a second to start, once for each scenario; this one does not.
"""

import json
import os
import socket
import sys

if __name__ == "__main__":
    context = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
    said = {"url": sys.argv[2], "context": context, "scenario": os.environ.get("MCP_CONFORMANCE_SCENARIO", "")}
    with socket.create_connection(("127.0.0.1", int(sys.argv[1])), timeout=60) as connection:
        connection.sendall(json.dumps(said).encode() + b"\n")
        answer = connection.makefile(encoding="utf-8").read()
    sys.exit(answer or None)
