"""The cheapest chat completions server: it answers "ok", or first asks for as many tool calls as the model's name says.

As a program it prints its port and serves until its input ends. Model "calls-3": three calls of `add`.
"""

import asyncio
import json
import sys
from typing import Any

OK = {"role": "assistant", "content": "ok"}


def reply(request: dict[str, Any]) -> dict[str, Any]:
    """Return the answer to *request*: calls after what a person said, else the text."""
    count = int(request["model"].partition("calls-")[2] or 0)
    message: dict[str, Any] = OK
    if count and request["messages"][-1]["role"] == "user":
        message = {"role": "assistant", "content": None, "tool_calls": [call(number) for number in range(count)]}
    why = "stop" if message is OK else "tool_calls"
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 0,
        "model": request["model"],
        "choices": [{"index": 0, "message": message, "finish_reason": why}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
    }


def call(number: int) -> dict[str, Any]:
    """Return one call of `add`, with arguments of its own."""
    arguments = json.dumps({"a": number, "b": 1})
    return {"id": f"call_{number}", "type": "function", "function": {"name": "add", "arguments": arguments}}


async def serve_one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer the requests of one connection until it ends."""
    try:
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            length = int(head.partition(b"content-length:")[2].partition(b"\r\n")[0])
            body = json.dumps(reply(json.loads(await reader.readexactly(length)))).encode()
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body))
            writer.write(body)
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


async def main() -> None:
    """Serve on a free port of loopback until standard input ends."""
    server = await asyncio.start_server(serve_one, "127.0.0.1", 0, limit=2**24)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main())
