"""What all cases of the provider suite share: what the author says, and how a story is run."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, TypeAlias

import attrs
import pytest
from pluggent_hookspecs import Json, Message, ModelParameters, ModelRequest, Provider, ToolSpec

from pluggent_testing.providers.asking import TOOLS, Made, Story, Tell, Wanted, provided

Maker: TypeAlias = Callable[[], Made]

SCHEMA: Mapping[str, Json] = {
    "title": "town",
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 2},
        "size": {"type": "integer", "minimum": 7},
        "kind": {"enum": ["city", "village"]},
        "tags": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["name", "size", "kind", "tags"],
    "additionalProperties": False,
}
"""What a reply is asked to follow."""

CALLS_WANTED = (
    "Make exactly these tool calls: those of one list side by side in one reply, the next list when the results of"
    " the one before are there. Then say in one sentence that you are done. The calls: "
)


class Suite:
    """What the author of a provider may say of it and of the model at its other end.

    ``model`` is the name to ask for, ``parameters`` go with every request. ``tools``: the model can
    be offered tools, and ``ask_for_calls`` gets it to make calls. ``parallel``: several in one
    reply. ``deterministic``: the same request gets the same reply. ``obedient``: it keeps to
    parameters, such as a schema. ``any_model``: every name is that of a model. ``many_loops``: the
    provider can be used in one event loop after the other. ``long_history`` is the number of
    messages of a long conversation. ``secrets`` are texts that nothing may show. ``limit_s``
    bounds each test.
    """

    model: str = "demo"
    parameters: ModelParameters = ModelParameters()
    tools: bool = True
    parallel: bool = True
    deterministic: bool = False
    any_model: bool = False
    obedient: bool = True
    many_loops: bool = True
    long_history: int = 400
    secrets: tuple[str, ...] = ()
    limit_s: float = 60.0

    some_tools: ClassVar[tuple[ToolSpec, ...]] = TOOLS

    def ask_for_calls(self, *rounds: Sequence[Wanted]) -> Message:
        """Return what a person says to get exactly these calls, round by round, and then some words.

        A *round* are calls to be made side by side; the next follows when their results are there.
        """
        wanted = [[{"name": name, "arguments": dict(arguments)} for name, arguments in calls] for calls in rounds]
        return Message.user(CALLS_WANTED + json.dumps(wanted))

    def request(self, *messages: Message | str, tools: Sequence[ToolSpec] = (), **fields: Any) -> ModelRequest:
        """Return a request of *messages*; without one, a user says hello."""
        said = tuple(Message.user(each) if isinstance(each, str) else each for each in messages or ("Say hello.",))
        fields.setdefault("parameters", self.parameters)
        return ModelRequest(fields.pop("model", self.model), said, tuple(tools), **fields)

    def request_for_calls(self, *rounds: Sequence[Wanted]) -> ModelRequest:
        """Return a request that gets these calls, or skip a model that cannot be offered tools."""
        if not self.tools:
            pytest.skip("this model cannot be offered tools")
        if not self.parallel and any(len(calls) > 1 for calls in rounds):
            pytest.skip("this model makes one call at a time")
        return self.request(self.ask_for_calls(*rounds), tools=self.some_tools)

    def request_with(self, **parameters: Any) -> ModelRequest:
        """Return a request that says hello with these parameters, tools being offered."""
        offered = self.some_tools if self.tools else ()
        return self.request("Say hello.", tools=offered, parameters=attrs.evolve(self.parameters, **parameters))

    @pytest.fixture
    def maker(self) -> Maker:
        """Return what makes a provider; who inherits says how."""
        raise TypeError(f"{type(self).__name__} is a part of the suite: inherit ProviderConformance or WireConformance")

    @pytest.fixture
    def told(self, maker: Maker) -> Tell:
        """Return what runs a story with a new provider, from its making to its closing."""

        async def tell(story: Story) -> None:
            async with provided(maker()) as provider:
                await asyncio.wait_for(story(provider), self.limit_s)

        return lambda story: asyncio.run(tell(story))


async def nothing(provider: Provider) -> None:
    """Do nothing: a story for what opening and closing alone leave behind."""
