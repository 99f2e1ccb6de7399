"""Checks of a request: which tools may be called, and which parameters mean nothing here."""

from __future__ import annotations

from typing import assert_never

import attrs
from pluggent_hookspecs import AllowedTools, ModelRequest, ProviderError, ProviderErrorKind

_MEANINGLESS = {
    "reasoning_effort": "this provider does not think",
    "logprobs": "nothing is drawn by lot here",
    "service_tier": "there is no service here",
    "user": "there is no vendor here",
    "metadata": "there is no vendor here to keep it",
    "extra": "there is no vendor here",
    "headers": "there is no request that could carry them",
}


@attrs.frozen
class Choice:
    """Which tools may be called, None for all; whether one has to be, or none may."""

    names: frozenset[str] | None = None
    required: bool = False
    forbidden: bool = False

    def allows(self, name: str) -> bool:
        """Whether the tool called *name* may be called, should any be."""
        return self.names is None or name in self.names


def refusal(problem: str) -> ProviderError:
    """Return the error of a request that cannot be met here."""
    problem = f"parameters.{problem}; for a real model see --model, such as openai/gpt-5-mini"
    return ProviderError(ProviderErrorKind.BAD_REQUEST, problem, provider="offline")


def checked(request: ModelRequest) -> Choice:
    """Return the choice of tools. Raises ProviderError for a parameter that means nothing here."""
    for name, why in _MEANINGLESS.items():
        if getattr(request.parameters, name) not in (None, {}):
            raise refusal(f"{name}: {why}, leave it out")
    choice = _choice(request)
    offered = {tool.name for tool in request.tools}
    if unknown := sorted((choice.names or frozenset()) - offered):
        raise refusal(f"tool_choice: no tool '{unknown[0]}' is offered")
    if choice.required and not offered:
        raise refusal("tool_choice: a tool has to be called, and none is offered")
    return choice


def _choice(request: ModelRequest) -> Choice:
    choice = request.parameters.tool_choice
    match choice:
        case "auto":
            return Choice()
        case "none":
            return Choice(forbidden=True)
        case "required":
            return Choice(required=True)
        case str(name):
            return Choice(frozenset({name}), required=True)
        case AllowedTools(names, required):
            return Choice(frozenset(names), required)
        case _:
            assert_never(choice)
