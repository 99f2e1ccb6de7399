"""Puts operations to a policy that nobody carries out: for ``pluggent permissions check``."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from pluggent_hookspecs import (
    ConfigError,
    MemoryItem,
    MemoryReadEvent,
    MemoryWriteEvent,
    ModelRequest,
    ModelRequestEvent,
    Scope,
    ToolCallEvent,
    ToolSpec,
)

from pluggent_permissions.conditions import TOOL_MARK
from pluggent_permissions.modes import PURE, UNDECLARED
from pluggent_permissions.policy import Answer, Policy

CONDITIONS_OF_SCOPE = ("session", "agent", "channel", "chat", "principal", "origin")


def ask_tool(
    policy: Policy, capability: str, effects: Iterable[str], arguments: Mapping[str, Any], where: Mapping[str, str]
) -> Answer:
    """Return what holds for a call. *effects* may be ``pure`` or ``undeclared``. Raises ConfigError."""
    _, mark, name = capability.partition(TOOL_MARK)
    if not mark or not name:
        raise ConfigError("--tool", [f"{capability!r} is no capability id: write acme-tools:tool/search"])
    given = frozenset(effect.strip() for effect in effects)
    try:
        spec = ToolSpec(name, effects=None if UNDECLARED in given else given - {PURE, ""})
    except ValueError as error:
        raise ConfigError("--effects", [str(error)]) from error
    text = json.dumps(arguments).encode()
    event = ToolCallEvent(_scope(where), "check", spec, capability, text, effects=spec.effects)
    # Any tool of that name: which one a short name means, only a host knows.
    return policy.with_names({name: frozenset({capability})}).of_tool_call(event)


def ask_model(policy: Policy, model: str, provider: str, target: str, where: Mapping[str, str]) -> Answer:
    """Return what holds for asking ``provider/model``. Raises ConfigError."""
    name, _, own = model.partition("/")
    if not name or not own:
        raise ConfigError("--model", [f"{model!r} is no model: write provider/model, such as openai/gpt-5-mini"])
    capability = provider or f"pluggent-{name}:provider/{name}"
    return policy.of_model_request(ModelRequestEvent(_scope(where), ModelRequest(own, ()), capability, target))


def ask_memory(
    policy: Policy, kind: str, store: str, namespace: str, key: str | None, where: Mapping[str, str]
) -> Answer:
    """Return what holds for a ``read`` or ``write`` of one item, without a *key* of a list."""
    if kind == "read":
        return policy.of_memory_read(MemoryReadEvent(_scope(where), store, namespace, key))
    item = MemoryItem(namespace, key or "", "")
    return policy.of_memory_write(MemoryWriteEvent(_scope(where), store, (item,)))


def _scope(where: Mapping[str, str]) -> Scope:
    return Scope(
        session_id=where["session"], agent=where["agent"], channel=where["channel"], chat_id=where["chat"],
        principal=where["principal"], origin=where["origin"], workspace=where["workspace"],
    )  # fmt: skip
