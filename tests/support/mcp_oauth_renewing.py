"""A process that asks a server something under a kept login: python mcp_oauth_renewing.py URL."""

import asyncio
import os
import sys

import httpx2
from pluggent_mcp.client.status import ServerStatus
from pluggent_mcp.oauth.settings import OAuth
from pluggent_mcp.oauth.tokens import Tokens
from pluggent_mcp.settings import Server


async def main(url: str) -> None:
    """Send one request, and print how it was answered."""
    server = Server(url=url, oauth=True)
    body = b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}'
    headers = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
    async with httpx2.AsyncClient() as client:
        request = client.build_request("POST", url, content=body, headers=headers)
        tokens = Tokens(server, OAuth(), ServerStatus("web", server), os.environ)
        response = await tokens.sent(request, lambda: client.send(request))
    sys.stdout.write(f"{response.status_code}\n")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
