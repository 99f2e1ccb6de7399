"""A host whose policy asks about inputs, requests to the model and calls, and a folder that processes share."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
from pluggent_hookspecs import Ask, Deny, InputEvent, Message, ModelRequest, ModelRequestEvent, hookimpl, tool
from pluggent_host import Host, HostSettings, Session
from pluggent_testing.fakes import ScriptedModel

PAUSING = HostSettings(on_ask="pause")


class Edges:
    """Asks about inputs with the words ``said``, about requests to the model in ``rounds``, about ``tools``.

    It adds the words ``more`` to what it asks, denies all of it instead where it has a ``deny``, and lets it pass
    where it no longer ``asks``.
    """

    def __init__(
        self, *, said: str = "", rounds: tuple[int, ...] = (), tools: tuple[str, ...] = (), changes: bool = True
    ) -> None:
        self.said = said
        self.rounds = rounds
        self.tools = tools
        self.changes = changes
        self.more = ""
        self.deny = ""
        self.asks = True
        self.transformed: list[str] = []

    def anew(self) -> Edges:
        """Return one that asks about the same, and has seen nothing."""
        return Edges(said=self.said, rounds=self.rounds, tools=self.tools)

    @hookimpl
    def transform_input(self, event: InputEvent) -> Message | None:
        if not self.changes:
            return None
        self.transformed.append("input")
        return Message.user(event.message.text.replace("secret", f"[{len(self.transformed)}]"))

    @hookimpl
    def decide_input(self, event: InputEvent) -> Ask | Deny | None:
        return self._about(self.said, bool(self.said))

    @hookimpl
    def transform_model_request(self, event: ModelRequestEvent) -> ModelRequest:
        self.transformed.append("request")
        number = self.transformed.count("request")
        return attrs.evolve(event.request, messages=(*event.request.messages, Message.user(f"request {number}")))

    @hookimpl
    def decide_model_request(self, event: ModelRequestEvent) -> Ask | Deny | None:
        return self._about("it goes out", event.round in self.rounds)

    @hookimpl
    def decide_tool_call(self, event: Any) -> Ask | Deny | None:
        return self._about("it writes", event.tool.name in self.tools)

    def _about(self, words: str, concerned: bool) -> Ask | Deny | None:
        if not (concerned and self.asks):
            return None
        return Deny(self.deny) if self.deny else Ask(words + self.more)


class Shared:
    """Hosts that share a folder, as processes one after the other do. ``done`` is what tools did."""

    def __init__(self, folder: Path, edges: Edges) -> None:
        self.folder = folder
        self.edges = edges
        self.done: list[str] = []
        self.more: list[Any] = []

    def host(self, *replies: Any, plugins: tuple[object, ...] = (), **options: Any) -> Any:
        """Return a host whose model says *replies*."""

        @tool
        def write(text: str) -> str:
            """Write."""
            self.done.append(text)
            return f"wrote {text}"

        @tool(effects=())
        def look() -> str:
            """Look."""
            self.done.append("look")
            return "seen"

        @tool(exclusive=True)
        def write_alone(text: str) -> str:
            """Write alone."""
            self.done.append(text)
            return f"wrote {text}"

        self.model = ScriptedModel(*replies)
        given: dict[str, Any] = {"config": PAUSING, "model": "scripted/m", "state_dir": self.folder, **options}
        tools = [write, look, write_alone, *self.more]
        return Host.open(plugins=[self.model, self.edges, *plugins], tools=tools, installed=False, **given)

    @asynccontextmanager
    async def session(self, *replies: Any, name: str = "s", **options: Any) -> AsyncGenerator[Session]:
        """Open the session called *name* on such a host."""
        async with self.host(*replies, **options) as host, await host.session(name) as session:
            yield session

    @property
    def file(self) -> Path:
        """The file of the session ``s``."""
        return self.folder / "sessions" / "s.jsonl"

    def asked(self) -> list[str]:
        """Return the last words of each request that the model got of the host that was opened last."""
        return [request.messages[-1].text for request in self.model.requests]


STAGES: dict[str, Edges] = {
    "input": Edges(said="it is said"),
    "model_call": Edges(rounds=(0,)),
    "tool_call": Edges(tools=("write", "write_alone")),
}
"""What asks about each kind of operation that can wait."""
