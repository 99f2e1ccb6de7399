"""``pluggent mcp serve`` in front of tools that ask, log, promise and change; and clients with a person."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
from cli_support import Cli
from fake_distributions import install
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp_serving import BLOCKED, WAIT_S, over_http, over_stdio
from mcp_types import ElicitRequestFormParams, ElicitResult, Implementation

GRANT = '[grants]\napprovers = ["pluggent-mcp"]\n'
TOOLS = '''
from pathlib import Path
from pluggent_hookspecs import Accepted, ToolContext, ToolOutput, ToolSpec, hookimpl, tool

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
        return [reboot, travel, both, chatter, counted, silent, Changing()]
'''


def made(folder: Path, config: str = GRANT) -> Cli:
    """Return a command beside which that plugin is installed, with *config*."""
    cli = Cli(folder)
    install(cli.site, "acme", {"tools/acme": "acme_asking:Tools"}, modules={"acme_asking": TOOLS})
    (cli.work / "mine.toml").write_text(config, encoding="utf-8")
    plain = cli.environ
    # While results are filtered nobody is told of logs.
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
