"""Servers for tests of the MCP plugin; its sources without a host, its sessions with one, and its command."""

import asyncio
import os
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from pluggent_cli.main import main
from pluggent_hookspecs import ProvideEvent, Tool, ToolOutput
from pluggent_host import Host
from pluggent_host.session import Session
from pluggent_mcp.plugin import Mcp
from pluggent_mcp.settings import Server, Settings

PEER = Path(__file__).with_name("mcp_peer.py")
WAIT_S = 20.0
OPENED: Any = None
"""The context with which the plugin is opened: it wants nothing of it."""


def peer(*behaviour: str, **settings: Any) -> Server:
    """Return the settings of mcp_peer.py."""
    return Server(command=sys.executable, args=(str(PEER), *behaviour), **settings)


class Context:
    """What a tool is lent, with no host behind it: what is asked of it is kept, and answered as told."""

    session_id = "s1"
    turn_id = "t1"
    call_id = "c1"
    idempotency_key = "k1"
    approved_state = ""
    private_folders = ()
    channel = chat_id = ""
    cancelled = False

    def __init__(self, workspace: Path | None = None, answer: Any = None) -> None:
        self.workspace = workspace
        self.answer = answer
        self.progressed: list[tuple[float, float | None, str]] = []
        self.moved = asyncio.Event()
        self.asked: list[Any] = []
        self.logged: list[tuple[str, str, str, Any]] = []

    def remaining_s(self) -> float:
        return WAIT_S

    def progress(self, done: float, total: float | None = None, message: str = "") -> None:
        self.progressed.append((done, total, message))
        self.moved.set()

    def log(self, level: str, message: str, *, logger: str = "", data: Any = None) -> None:
        self.logged.append((level, message, logger, data))

    async def call_tool(self, name: str, arguments: Mapping[str, Any]) -> ToolOutput:
        raise AssertionError(f"a tool of an MCP server called {name!r} of the host, which no server can ask for")

    async def call_model(self, prompt: Any, **options: Any) -> Any:
        return self._answered((prompt, options))

    async def count(self, prompt: Any, **options: Any) -> int:
        raise AssertionError("a tool of an MCP server let tokens be counted, which no server can ask for")

    async def embed(self, model: str, texts: Any, **options: Any) -> Any:
        raise AssertionError("a tool of an MCP server embedded texts, which no server can ask for")

    async def elicit(self, message: str, schema: Mapping[str, Any], *, source: str = "") -> Any:
        return self._answered((message, schema, source))

    def memory(self, store: str = "") -> Any:
        raise AssertionError("a tool of an MCP server took memory of the host, which no server can ask for")

    def _answered(self, asked: Any) -> Any:
        self.asked.append(asked)
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer


class Used:
    """The tools of an open plugin, by the names that the model sees, and what became of each source."""

    def __init__(self, plugin: Mcp) -> None:
        sources = plugin.provide_tools(ProvideEvent("0"))
        self.sources = {source.prefix.removesuffix("__"): source for source in sources}
        self.tools: dict[str, Tool] = {}
        self.failures: dict[str, str] = {}

    async def ask(self) -> None:
        """Ask all sources side by side, as the host does."""
        found = await asyncio.gather(*(source.tools() for source in self.sources.values()), return_exceptions=True)
        self.tools, self.failures = {}, {}
        for name, tools in zip(self.sources, found, strict=True):
            if isinstance(tools, BaseException):
                self.failures[name] = str(tools)
            else:
                self.tools |= {tool.spec.name: tool for tool in tools}

    async def call(self, name: str, context: Context | None = None, /, **arguments: Any) -> Any:
        """Return the output of a call."""
        output = await self.tools[name].call(arguments, context or Context())
        assert isinstance(output, ToolOutput)
        return output

    async def revised(self, name: str, before: int | None) -> None:
        """Wait until the tools of *name* have changed since revision *before*, and ask anew."""
        async with asyncio.timeout(WAIT_S):
            while self.sources[name].revision == before:  # noqa: ASYNC110 (no event says that a number grows)
                await asyncio.sleep(0)
        await self.ask()


@asynccontextmanager
async def using(**servers: Server) -> AsyncGenerator[Used]:
    """Open a plugin with *servers*, ask it for its tools, and close it."""
    plugin = Mcp(Settings(mcpServers=servers))
    async with plugin.open(OPENED):
        used = Used(plugin)
        await asyncio.wait_for(used.ask(), WAIT_S)
        yield used


def runs(pid: int) -> bool:
    """Say whether *pid* is a process that is not a zombie: the process that inherits those may be slow to reap them."""
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()[0] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False


def told(*behaviour: str, **settings: Any) -> dict[str, Any]:
    """Return the settings of mcp_peer.py as a file would hold them."""
    return {"command": sys.executable, "args": [str(PEER), *behaviour], **settings}


BLOCKED = "pluggent-audit,pluggent-budget,pluggent-office-hours,pluggent-permissions,pluggent-redact"


class Said(NamedTuple):
    """What came of a command."""

    code: int
    out: str
    err: str


class McpCommand:
    """Runs the command; ``file`` is the user's settings file."""

    def __init__(self, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.file = home / ".config" / "pluggent" / "pluggent.toml"
        self._capsys = capsys

    @classmethod
    def alone(
        cls, home: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> "McpCommand":
        """Return the command in *folder*, with state of its own and no policies."""
        monkeypatch.setenv("PLUGGENT_STATE_DIR", str(folder / "state"))
        monkeypatch.setenv("PLUGGENT_BLOCK", BLOCKED)
        monkeypatch.chdir(folder)
        return cls(home, capsys)

    def __call__(self, *words: str) -> Said:
        code = main(["mcp", *words])
        said = self._capsys.readouterr()
        return Said(code, said.out, said.err)

    def settings(self, text: str) -> None:
        """Write the user's settings."""
        self.file.parent.mkdir(parents=True, exist_ok=True)
        self.file.write_text(text, encoding="utf-8")


def server(name: str, *behaviour: str, more: str = "") -> str:
    """Return the table of a server that behaves so, as TOML."""
    return (
        f"[plugins.pluggent-mcp.mcpServers.{name}]\ncommand = {sys.executable!r}\n"
        f"args = {[str(PEER), *behaviour]!r}\n{more}\n"
    )


@asynccontextmanager
async def talking(
    servers: Mapping[str, Mapping[str, Any]], tool: str = "mcp", *, id: str = "", **options: Any
) -> AsyncGenerator[Session]:
    """Open a host in which the installed plugin has *servers*, and a session with their tools."""
    settings = {"pluggent-mcp": {"mcpServers": servers}}
    async with Host.open(settings=settings, tools=[tool], **options) as host, await host.session(id) as session:
        yield session
