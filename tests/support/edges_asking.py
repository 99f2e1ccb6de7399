"""A host whose policy asks about what is said and what the model is asked, and a folder that processes share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import attrs
from pluggent_hookspecs import Ask, Deny, InputEvent, Message, ModelRequest, ModelRequestEvent, hookimpl, tool
from pluggent_host import Host, HostSettings
from pluggent_testing.fakes import ScriptedModel

PAUSING = HostSettings(on_ask="pause")


class Edges:
    """Asks about inputs with the words ``said``, about requests to the model in ``rounds``, about ``tools``."""

    def __init__(
        self, *, said: str = "", rounds: tuple[int, ...] = (), tools: tuple[str, ...] = (), changes: bool = True
    ) -> None:
        self.said = said
        self.rounds = rounds
        self.tools = tools
        self.changes = changes
        self.words = "it goes out"
        self.deny = ""
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
        if self.deny:
            return Deny(self.deny)
        return Ask(self.said) if self.said else None

    @hookimpl
    def transform_model_request(self, event: ModelRequestEvent) -> ModelRequest:
        self.transformed.append("request")
        number = self.transformed.count("request")
        return attrs.evolve(event.request, messages=(*event.request.messages, Message.user(f"request {number}")))

    @hookimpl
    def decide_model_request(self, event: ModelRequestEvent) -> Ask | Deny | None:
        if self.deny:
            return Deny(self.deny)
        return Ask(self.words) if event.round in self.rounds else None

    @hookimpl
    def decide_tool_call(self, event: Any) -> Ask | None:
        return Ask("it writes") if event.tool.name in self.tools else None


class Shared:
    """Hosts that share a folder, as processes one after the other do. ``done`` is what tools did."""

    def __init__(self, folder: Path, edges: Edges) -> None:
        self.folder = folder
        self.edges = edges
        self.done: list[str] = []
        self.more: list[Any] = []

    def host(self, *replies: Any, plugins: tuple[object, ...] = (), **options: Any) -> Any:
        """Return a host whose model says *replies*."""

        @tool(effects=("filesystem_write",))
        def write(text: str) -> str:
            """Write."""
            self.done.append(text)
            return f"wrote {text}"

        @tool(effects=())
        def look() -> str:
            """Look."""
            self.done.append("look")
            return "seen"

        self.model = ScriptedModel(*replies)
        given: dict[str, Any] = {"config": PAUSING, "model": "scripted/m", **options}
        return Host.open(
            plugins=[self.model, self.edges, *plugins], tools=[write, look, *self.more], installed=False,
            state_dir=self.folder, **given,
        )  # fmt: skip

    def asked(self) -> list[str]:
        """Return the last words of each request that the model got of the host that was opened last."""
        return [request.messages[-1].text for request in self.model.requests]
