"""The rule of what contexts and hosts hand out: rule 31."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pluggent_hookspecs import PluginContext, Provider, Tool, ToolContext, tool
from pluggent_hookspecs.memory import MemoryStore
from pluggent_testing.fakes import ScriptedModel, call
from policy_rules import hooked
from policy_stage import stage

FORBIDDEN = (Provider, Tool, MemoryStore)
OPAQUE = (str, bytes, int, float, bool, type(None), type, Path)


def leaks(thing: object, depth: int = 4) -> list[str]:
    """Return the ways on which public attributes lead from *thing* to what is not handed out."""
    found: list[str] = []
    seen: set[int] = set()
    waiting = [("", thing, depth)]
    while waiting:
        path, item, left = waiting.pop()
        if id(item) in seen or isinstance(item, OPAQUE):
            continue
        seen.add(id(item))
        if isinstance(item, FORBIDDEN):
            found.append(path)
        if left == 0:
            continue
        if isinstance(item, Mapping):
            waiting += [(f"{path}[{key!r}]", value, left - 1) for key, value in [*item.items()]]
        elif isinstance(item, tuple | list | set | frozenset):
            waiting += [(f"{path}[{number}]", value, left - 1) for number, value in enumerate(item)]
        for name in dir(item):
            if not name.startswith("_"):
                try:
                    waiting.append((f"{path}.{name}", getattr(item, name), left - 1))
                except Exception:  # noqa: BLE001, S112 (an attribute that cannot be read leads nowhere)
                    continue
    return found


async def test_contexts_and_hosts_hand_out_no_provider_tool_or_store():
    leaked: dict[str, list[str]] = {}

    def looking(place: str) -> Any:
        async def around(event: object, call_next: Any) -> Any:
            leaked[place] = leaks((event, call_next))
            return await call_next()

        return around

    def opened(self: object, context: PluginContext) -> Any:
        leaked["plugin context"] = leaks(context)
        return asyncio.timeout(None)

    nosy = hooked(
        decide_tool_call=lambda event: leaked.update(event=leaks(event)),
        around_tool_call=looking("call_next"), around_model_call=looking("model call"),
    )  # fmt: skip
    type(nosy).open = opened

    @tool(effects=())
    async def look(context: ToolContext) -> str:
        """Look around."""
        leaked["context"] = leaks(context)
        leaked["memory"] = leaks(context.memory("inmemory"))
        return "seen"

    async with stage(call("look"), plugins=[nosy], tools=[look], installed=True) as on:
        await on.session.say("go")
        leaked |= {"host": leaks(on.host), "session": leaks(on.session), "store": leaks(on.host.memory("inmemory"))}
        async with on.session.stream("go") as events:
            leaked["stream"] = leaks(events)
            _ = [event async for event in events]

    places = {"plugin context", "event", "call_next", "model call", "context", "memory", "host", "session", "store"}
    assert leaked == {place: [] for place in (*places, "stream")}


def test_the_walk_finds_what_it_looks_for():
    class Holder:
        inner = {"list": [ScriptedModel()]}  # noqa: RUF012 (only to be looked at)

    assert leaks(Holder()) == [".inner['list'][0]"]
