"""``pluggent mcp serve`` in front of two sorts of tools; clients with a person, and raw requests.

Some ask, log, promise and change; some return what no wire can carry, talk much or never end.
"""

import json
import socket
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2
from cli_support import Cli
from fake_distributions import install
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp_serving import BLOCKED, WAIT_S, Served, Spoken, over_http, over_stdio
from mcp_types import (
    CreateMessageRequestParams,
    CreateMessageResult,
    ElicitRequestFormParams,
    ElicitResult,
    ErrorData,
    Implementation,
)

GRANT = '[grants]\napprovers = ["pluggent-mcp"]\n'
ASKING_TOOLS = '''
from pathlib import Path
from pluggent_hookspecs import Accepted, ModelParameters, ToolContext, ToolOutput, ToolSpec, hookimpl, tool

TOWN = {"type": "object", "properties": {"town": {"type": "string", "title": "Town"}}, "required": ["town"]}
COUNT = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}

@tool(effects=("shell",))
def reboot(when: str = "now") -> str:
    """Reboot."""
    with Path("rebooted.txt").open("a") as file:
        file.write(when + "\\n")
    return f"rebooted {when}"

@tool(effects=())
async def travel(context: ToolContext) -> str:
    """Ask where to."""
    answer = await context.elicit("Where to?", TOWN)
    return answer.content["town"] if isinstance(answer, Accepted) else type(answer).__name__

@tool(effects=("shell",))
async def both(context: ToolContext) -> str:
    """Ask twice: to be approved, and where to."""
    context.log("warning", "it begins")
    return await travel(context)

@tool(effects=())
async def think(context: ToolContext, about: str = "rain", system: str = "", most: int = 0, top_p: float = 0) -> str:
    """Ask the model."""
    how = ModelParameters(max_output_tokens=most or None, top_p=top_p or None)
    reply = await context.call_model(about, system=system, parameters=how)
    return f"{reply.model}/{reply.finish_reason}: {reply.message.text}"

@tool(effects=())
def chatter(context: ToolContext) -> str:
    """Log at every level."""
    for level in ("debug", "info", "error"):
        context.log(level, f"as {level}", logger="oven", data={"degrees": 250} if level == "error" else None)
    return "done"

@tool(effects=(), result_schema=COUNT)
def counted() -> ToolOutput:
    """Return what was promised."""
    return ToolOutput("one", data={"n": 1})

@tool(effects=(), result_schema=COUNT)
def silent() -> ToolOutput:
    """Return nothing of what was promised."""
    return ToolOutput("nothing")

class Named:
    def __init__(self, name):
        self.spec = ToolSpec(name, effects=())
    async def call(self, arguments, context):
        return f"{self.spec.name} is fine"

class Changing:
    """Has the tools whose names stand in a file."""
    prefix = "seasonal_"
    @property
    def revision(self):
        return Path("season.txt").stat().st_mtime_ns if Path("season.txt").exists() else 0
    async def tools(self):
        names = Path("season.txt").read_text().split() if Path("season.txt").exists() else []
        return [Named(name) for name in names]

class Tools:
    @hookimpl
    def provide_tools(self, event):
        return [reboot, travel, both, think, chatter, counted, silent, Changing()]
'''


def asking_site(folder: Path, config: str = GRANT) -> Cli:
    """Return a command beside which that plugin is installed, with *config*."""
    return _site(folder, "acme_asking", ASKING_TOOLS, config)


def _site(folder: Path, module: str, source: str, config: str) -> Cli:
    cli = Cli(folder)
    install(cli.site, "acme", {"tools/acme": f"{module}:Tools"}, modules={module: source})
    (cli.work / "mine.toml").write_text(config, encoding="utf-8")
    plain = cli.environ
    # While results are filtered the words of progress and logs are held back.
    cli.environ = lambda **more: {**plain(**more), "PLUGGENT_BLOCK": f"{BLOCKED},pluggent-redact"}  # type: ignore[method-assign]
    return cli


class Person:
    """Answers in order what is asked; keeps what was asked."""

    def __init__(self, *answers: ElicitResult) -> None:
        self._answers = [*answers]
        self.asked: list[ElicitRequestFormParams] = []

    async def __call__(self, context: Any, params: Any) -> ElicitResult:
        self.asked.append(params)
        return self._answers.pop(0)


class Model:
    """The model of a client: answers in order; keeps what was asked."""

    def __init__(self, *answers: CreateMessageResult | ErrorData) -> None:
        self._answers = [*answers]
        self.asked: list[CreateMessageRequestParams] = []

    async def __call__(self, context: Any, params: CreateMessageRequestParams) -> CreateMessageResult | ErrorData:
        self.asked.append(params)
        return self._answers.pop(0)


YES = ElicitResult(action="accept", content={"approve": True})
NO = ElicitResult(action="accept", content={"approve": False})
DECLINED = ElicitResult(action="decline")
LEFT = ElicitResult(action="cancel")


@asynccontextmanager
async def client(
    wire: str, cli: Cli, mode: str, person: Person | None = None, tools: str = "acme", **more: Any
) -> AsyncGenerator[Client]:
    """Serve over *wire*, stdio or http, to a client at which *person* sits, if anybody does."""
    own: dict[str, Any] = {"elicitation_callback": person, **more}
    if wire == "stdio":
        async with over_stdio(cli, "--tools", tools, mode=mode, name="desk", **own) as connected:
            yield connected
        return
    options: dict[str, Any] = {"mode": mode, "client_info": Implementation(name="desk", version="1"), **own}
    with over_http(cli, "--tools", tools) as served:
        async with (
            httpx2.AsyncClient(headers={"Authorization": f"Bearer {served.token}"}, timeout=WAIT_S) as http,
            Client(streamable_http_client(served.url, http_client=http), **options) as connected,
        ):
            yield connected


HOSTILE_TOOLS = '''
import asyncio, os
from pluggent_hookspecs import ToolContext, ToolError, hookimpl, tool

pure = tool(effects=())
NAME = os.fsdecode(b"caf\\xe9.txt")

@pure
def fails() -> str:
    """Fail with the name of a file."""
    raise ToolError(f"cannot read {NAME}")

@pure
def breaks() -> str:
    """Fail with no error of a tool's own."""
    raise OSError(NAME)

@pure
def tells(context: ToolContext) -> str:
    """Tell what no wire can carry, and then what one can."""
    for done in (float("nan"), float("inf"), object(), "many", 10**400, None):
        context.progress(done, 2, "never")
    context.progress(1, float("nan"), NAME)
    context.log("error", NAME, logger=NAME, data={NAME: [NAME]})
    context.log("error", "no JSON", data={1: [object(), float("nan")]})
    return "told"

@pure
async def strange(context: ToolContext) -> str:
    """Log what is no text, and then much."""
    context.log("error", "x", logger=9)
    await asyncio.sleep(0)
    for number in range(200):
        context.log("error", str(number))
    return "done"

@pure
async def chatty(context: ToolContext) -> str:
    """Tell much more than anybody reads."""
    for number in range(100):
        context.progress(number, 100, "x" * 500_000)
        await asyncio.sleep(0.001)
    return "done"

@pure
async def stubborn(context: ToolContext) -> str:
    """Never end, cancelled or not."""
    context.progress(1)
    while True:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            continue

@pure
def ok() -> str:
    """Do."""
    return "ok"

class Tools:
    @hookimpl
    def provide_tools(self, event):
        return [fails, breaks, tells, strange, chatty, stubborn, ok]
'''

UNWRITABLE = """
import asyncio
from mcp.server.lowlevel.server import Server
from mcp_types import CallToolResult, TextContent
from pluggent_mcp.serving import stdio_server as serving_stdio

async def called(context, params):
    if params.name == "odd":
        await context.session.report_progress(1, 2, chr(0xDCE9))
    return CallToolResult(content=[TextContent(type="text", text=chr(0xDCE9) if params.name == "odd" else "fine")])

asyncio.run(serving_stdio.serve(Server("raw", on_call_tool=called), serving_stdio.claim(), 10_000))
"""


def hostile_site(folder: Path, config: str = "") -> Cli:
    """Return a command beside which that plugin is installed, with *config*."""
    return _site(folder, "acme_hostile", HOSTILE_TOOLS, config)


def raw_server(folder: Path) -> "subprocess.Popen[str]":
    """Start a server of the SDK over our pipes whose tool ``odd`` says what cannot be written."""
    return subprocess.Popen(
        [sys.executable, "-c", UNWRITABLE], cwd=folder, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def request(id: int, method: str, *, client: str = "desk", **params: Any) -> dict[str, Any]:
    """Return a request of the newest protocol that wants progress and all logs."""
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": client, "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/logLevel": "debug",
        "progressToken": id,
    }
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": {**params, "_meta": meta}}


def call(id: int, name: str, *, client: str = "desk") -> dict[str, Any]:
    """Return a request to call *name*."""
    return request(id, "tools/call", client=client, name=name, arguments={})


def heard(spoken: Spoken, id: int) -> tuple[list[Any], Any]:
    """Read until the answer to *id*; return what came before it too."""
    before: list[Any] = []
    while (message := spoken.hear(1)[0]).get("id") != id:
        before.append(message)
    return before, message


def text_of(answer: Any) -> str:
    """Return the text of the result of a call."""
    return "".join(block["text"] for block in answer["result"]["content"])


def connected(served: Served, buffer: int = 0) -> socket.socket:
    """Connect to a server over HTTP and say nothing; *buffer* is how much of its answers is taken unread."""
    parts = urlsplit(served.url)
    made = socket.socket()
    if buffer:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
    made.settimeout(WAIT_S)
    made.connect((parts.hostname, parts.port))
    return made


def posted(connection: socket.socket, served: Served, message: dict[str, Any], *, keep: bool = False) -> None:
    """Send *message* as a request over HTTP."""
    body = json.dumps(message).encode()
    head = (
        "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: application/json, text/event-stream\r\n"
        "Content-Type: application/json\r\nMCP-Protocol-Version: 2026-07-28\r\n"
        f"Connection: {'keep-alive' if keep else 'close'}\r\n"
        f"Mcp-Method: {message['method']}\r\nMcp-Name: {message['params'].get('name', '')}\r\n"
        f"Authorization: Bearer {served.token}\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    connection.sendall(head.encode() + body)


def asked(served: Served, message: dict[str, Any]) -> str:
    """Send *message*, and return all that came back."""
    with connected(served) as connection:
        posted(connection, served, message)
        with connection.makefile("rb") as file:
            return file.read().decode()
