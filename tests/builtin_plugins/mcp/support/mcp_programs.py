"""Programs that others start in a test.

python mcp_programs.py relay PORT URL    a client of the conformance suite: has a test's own process use the server
python mcp_programs.py browse URL        a browser for a person who is logged in everywhere
python mcp_programs.py renew URL         a process that sends a server a request under a kept login
"""

import asyncio
import json
import os
import socket
import sys
from collections.abc import Callable
from urllib.request import urlopen


def relay(port: str, url: str) -> None:
    """Return what the test on *port* says of *url* as the exit code.

    A client that imports the SDK takes a second to start, once for each scenario; this one does not.
    """
    context = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
    said = {"url": url, "context": context, "scenario": os.environ.get("MCP_CONFORMANCE_SCENARIO", "")}
    with socket.create_connection(("127.0.0.1", int(port)), timeout=60) as connection:
        connection.sendall(json.dumps(said).encode() + b"\n")
        with connection.makefile(encoding="utf-8") as file:
            answer = file.read()
    sys.exit(answer or None)


def browse(url: str) -> None:
    """Load a page and what it leads to."""
    with urlopen(url, timeout=20) as page:  # noqa: S310 (an address of our own test)
        page.read()


def renew(url: str) -> None:
    """Send one request, and print how it was answered."""
    # The other programs run without the installed packages, and start at once.
    import httpx2
    from pluggent_mcp.client.status import ServerStatus
    from pluggent_mcp.oauth.settings import OAuth
    from pluggent_mcp.oauth.tokens import Tokens
    from pluggent_mcp.settings import Server

    async def status() -> int:
        server = Server(url=url, oauth=True)
        body = b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}'
        headers = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
        async with httpx2.AsyncClient() as client:
            request = client.build_request("POST", url, content=body, headers=headers)
            tokens = Tokens(server, OAuth(), ServerStatus("web", server), os.environ)
            return (await tokens.sent(request, lambda: client.send(request))).status_code

    sys.stdout.write(f"{asyncio.run(status())}\n")


if __name__ == "__main__":
    programs: dict[str, Callable[..., None]] = {"relay": relay, "browse": browse, "renew": renew}
    programs[sys.argv[1]](*sys.argv[2:])
