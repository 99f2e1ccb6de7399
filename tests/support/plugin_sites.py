"""Sites with installed plugins, for the tests of lifetimes."""

import asyncio
import textwrap
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from fake_distributions import install
from pluggent_hookspecs import PluginContext, hookimpl
from pluggent_host.plugins.discovery import Discovery, discover


class Living:
    """A plugin with a lifetime that writes down when it was opened and left."""

    def __init__(self, name: str, diary: list[str]) -> None:
        self.name = name
        self.diary = diary

    @asynccontextmanager
    async def open(self, context: PluginContext) -> AsyncGenerator[None, None]:
        await asyncio.sleep(0)
        self.diary.append(f"open {self.name}")
        try:
            yield
        finally:
            await asyncio.sleep(0)
            self.diary.append(f"leave {self.name}")

    @hookimpl
    def decide_input(self, event: Any) -> None:
        return None


HEADER = """
import asyncio
from contextlib import asynccontextmanager
from pluggent_hookspecs import Deny, hookimpl, tool
"""
POLICY = (
    HEADER
    + """
class Plugin:
    @hookimpl
    def decide_tool_call(self, event):
        return Deny('no')
"""
)
POLICY_THAT_FAILS_TO_OPEN = (
    POLICY
    + """
    @asynccontextmanager
    async def open(self, context):
        raise ValueError("no connection")
        yield
"""
)
TOOLS = (
    HEADER
    + """
@tool(effects=())
async def ping() -> str:
    "Answer."
    return "pong"

class Plugin:
    @hookimpl
    def provide_tools(self, event):
        return [ping]
"""
)


class Site:
    """A folder of installed distributions."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def add(self, name: str, entry: str, source: str, **more: Any) -> None:
        module = name.replace("-", "_")
        install(self.folder, name, {entry: f"{module}:Plugin"}, modules={module: textwrap.dedent(source)}, **more)

    def found(self) -> Discovery:
        return discover([str(self.folder)])


def states(on: Any) -> Mapping[str, str]:
    return {record.id: state for record, state, _ in on.host.plugins}
