"""A client's side of a server that speaks over its pipes, whoever has started it."""

import asyncio
import subprocess
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import mcp_types
from mcp.shared.message import SessionMessage

ENDS_S = 10.0
LINE_BYTES = 1 << 26


@asynccontextmanager
async def speaking(process: subprocess.Popen[bytes]) -> AsyncGenerator[Any]:
    """Yield the streams of a client; in the end close the pipe of *process* and wait for it."""
    assert process.stdin is not None
    assert process.stdout is not None
    heard, for_client = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    from_client, to_say = anyio.create_memory_object_stream[SessionMessage](0)
    lines = asyncio.StreamReader(LINE_BYTES)
    loop = asyncio.get_running_loop()
    pipe, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), process.stdout)

    async def hear() -> None:
        async with heard:
            async for line in lines:
                await heard.send(SessionMessage(mcp_types.jsonrpc_message_adapter.validate_json(line, by_name=False)))

    async def say() -> None:
        assert process.stdin is not None
        async for message in to_say:
            text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
            await asyncio.to_thread(process.stdin.write, f"{text}\n".encode())

    try:
        async with heard, for_client, from_client, to_say, anyio.create_task_group() as tasks:
            tasks.start_soon(hear)
            tasks.start_soon(say)
            yield for_client, from_client
            tasks.cancel_scope.cancel()
    finally:
        process.stdin.close()
        await asyncio.to_thread(process.wait, ENDS_S)
        pipe.close()
