"""The rule of what contexts and hosts hand out: rule 31."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pluggent_hookspecs import PluginContext, Provider, Tool, ToolContext, hookimpl, tool
from pluggent_hookspecs.memory import MemoryStore
from pluggent_testing.fakes import ScriptedModel, call
from policy_stage import stage

# ---- rule 31: what contexts and hosts hand out


FORBIDDEN = (Provider, Tool, MemoryStore)
OPAQUE = (str, bytes, int, float, bool, type(None), type, Path)


def reachable(thing: object, depth: int = 4) -> list[tuple[str, object]]:
    """Return everything that public attributes lead to from *thing*, with the way there."""
    found: list[tuple[str, object]] = []
    seen: set[int] = set()
    waiting = [("", thing, depth)]
    while waiting:
        path, item, left = waiting.pop()
        if id(item) in seen or isinstance(item, OPAQUE):
            continue
        seen.add(id(item))
        found.append((path, item))
        if left == 0:
            continue
        if isinstance(item, Mapping):
            waiting += [(f"{path}[{key!r}]", value, left - 1) for key, value in list(item.items())]
        elif isinstance(item, tuple | list | set | frozenset):
            waiting += [(f"{path}[{number}]", value, left - 1) for number, value in enumerate(item)]
        for name in dir(item):
            if not name.startswith("_"):
                try:
                    waiting.append((f"{path}.{name}", getattr(item, name), left - 1))
                except Exception:  # noqa: BLE001, S112 (an attribute that cannot be read leads nowhere)
                    continue
    return found


def leaks(thing: object) -> list[str]:
    return [path for path, item in reachable(thing) if isinstance(item, FORBIDDEN) and not isinstance(item, type)]


async def test_contexts_and_hosts_hand_out_no_provider_tool_or_store() -> None:
    leaked: dict[str, list[str]] = {}

    class Nosy:
        def open(self, context: PluginContext) -> Any:
            leaked["plugin context"] = leaks(context)
            return asyncio.timeout(None)

        @hookimpl
        def decide_tool_call(self, event):
            leaked["event"] = leaks(event)

        @hookimpl
        async def around_tool_call(self, event, call_next):
            leaked["call_next"] = leaks(call_next)
            return await call_next()

        @hookimpl
        async def around_model_call(self, event, call_next):
            leaked["model call"] = leaks((event, call_next))
            return await call_next()

    @tool(effects=())
    async def look(context: ToolContext) -> str:
        """Look around."""
        leaked["context"] = leaks(context)
        leaked["memory"] = leaks(context.memory("inmemory"))
        return "seen"

    async with stage(call("look"), plugins=[Nosy()], tools=[look], installed=True) as on:
        await on.session.say("go")
        leaked["host"] = leaks(on.host)
        leaked["session"] = leaks(on.session)
        leaked["host memory"] = leaks(on.host.memory("inmemory"))
        async with on.session.stream("go") as events:
            leaked["stream"] = leaks(events)
            _ = [event async for event in events]

    assert set(leaked) >= {"plugin context", "event", "call_next", "model call", "context", "memory", "host", "session"}
    assert {place: paths for place, paths in leaked.items() if paths} == {}


def test_the_walk_finds_what_it_looks_for() -> None:
    class Holder:
        def __init__(self) -> None:
            self.inner = {"list": [ScriptedModel()]}

    assert leaks(Holder()) == [".inner['list'][0]"]
