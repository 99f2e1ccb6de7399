"""``pluggent permissions``: what the configured rules are, and what they say to one operation.

It is given the settings and no host: what an id means is known, which tools are installed is
not. A short name in a rule is taken here for every tool that is called so.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import attrs
from pluggent_hookspecs import (
    Ask,
    Command,
    ConfigError,
    Deny,
    EmbeddingRequest,
    EmbeddingRequestEvent,
    MemoryItem,
    MemoryReadEvent,
    MemoryWriteEvent,
    ModelRequest,
    ModelRequestEvent,
    ProvideEvent,
    Scope,
    ToolCallEvent,
    ToolSpec,
    hookimpl,
)

from pluggent_permissions.argument_settings import ArgumentTest, HostTest, UrlTest
from pluggent_permissions.conditions import TOOL_MARK
from pluggent_permissions.policy import Answer, Policy
from pluggent_permissions.settings import NO_SETTINGS, PURE, UNDECLARED, Conditions, PermissionSettings, Rule, Ruling

ALLOWED = 0
NOT_ALLOWED = 3
"""As for ``pluggent`` itself: denied, or a missing approval."""

_ONE_OF = ("tool", "model", "embedding", "read", "write")


class PermissionsCommand:
    """The plugin behind the command ``permissions``; its settings are those of the policy."""

    Settings = PermissionSettings

    def __init__(self, settings: PermissionSettings = NO_SETTINGS) -> None:
        self._settings = settings

    @hookimpl
    def provide_commands(self, event: ProvideEvent) -> list[Command]:
        """Return the one command."""
        return [Command("permissions", "which rules there are, and what they say", self._run, _configure)]

    def _run(self, options: argparse.Namespace) -> int:
        if options.what == "show":
            return _show(self._settings, in_json=options.json)
        return _check(Policy(self._settings), options)


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("what", choices=("show", "check"), help="show every rule, or check one operation:")
    add = parser.add_argument
    add("--tool", metavar="ID", help="a call of this tool, such as acme-tools:tool/search")
    add("--args", metavar="JSON", default="{}", help="its arguments, defaults included")
    add("--effects", metavar="NAMES", default="undeclared", help="its effects, commas between; pure for none")
    add("--model", metavar="MODEL", help="asking this model, such as openai/gpt-5-mini")
    add("--embedding", metavar="MODEL", help="sending texts to this model, such as openai/text-embedding-3-small")
    add("--provider", metavar="ID", default="", help="capability id of the provider, or of the embedder")
    add("--target", metavar="URL", default="", help="where the provider or embedder is")
    add("--read", metavar="NAMESPACE", help="reading this memory")
    add("--write", metavar="NAMESPACE", help="writing this memory")
    add("--store", metavar="ID", default="", help="capability id of the memory store")
    add("--key", metavar="KEY", help="key of the memory item")
    add("--workspace", metavar="FOLDER", default="", help="the session's folder")
    for name in CONDITIONS_OF_SCOPE:
        add(f"--{name}", metavar="NAME", default=_USUAL.get(name, ""), help="who asks, and where")
    add("--json", action="store_true", help="print one JSON document")


# ---- check -----------------------------------------------------------------------------


def _check(policy: Policy, options: argparse.Namespace) -> int:
    given = [name for name in _ONE_OF if getattr(options, name) is not None]
    if len(given) != 1:
        raise ConfigError("pluggent permissions check", ["say one of --tool, --model, --embedding, --read and --write"])
    workspace = str(Path(options.workspace).expanduser().resolve()) if options.workspace else ""
    where = {name: getattr(options, name) for name in CONDITIONS_OF_SCOPE} | {"workspace": workspace}
    match given[0]:
        case "tool":
            arguments = _arguments(options.args)
            answer = ask_tool(policy, options.tool, options.effects.split(","), arguments, where)
        case "model":
            answer = ask_model(policy, options.model, options.provider, options.target, where)
        case "embedding":
            answer = ask_embedding(policy, options.embedding, options.provider, options.target, where)
        case kind:
            namespace = getattr(options, kind)
            answer = ask_memory(policy, kind, options.store, namespace, options.key, where)
    asked = str(getattr(options, given[0]))
    if options.json:
        _write(json.dumps(_facts(answer, asked), indent=2, ensure_ascii=False))
    else:
        _write("\n".join(_told(answer, asked)))
    return ALLOWED if answer.ruling in (None, Ruling.ALLOW) else NOT_ALLOWED


def _arguments(text: str) -> Mapping[str, Any]:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise ConfigError("--args", [f"is not JSON: {error}"]) from error
    if not isinstance(value, dict):
        raise ConfigError("--args", ['expected an object, such as {"path": "notes.md"}'])
    return cast("dict[str, Any]", value)


def _facts(answer: Answer, asked: str) -> Mapping[str, object]:
    decision = answer.decision(asked)
    return {
        "decision": answer.ruling,
        "rules": [{"id": rule.id, "decision": rule.decision} for rule in answer.rules],
        "default": None if answer.default is None else attrs.asdict(answer.default),
        "tell_user": decision.tell_user if isinstance(decision, Deny | Ask) else "",
        "tell_model": decision.tell_model if isinstance(decision, Deny | Ask) else "",
    }


def _told(answer: Answer, asked: str) -> Iterator[str]:
    decision = answer.decision(asked)
    yield str(answer.ruling or "no opinion: the host's own default holds")
    for rule in answer.rules:
        yield f"  rule '{rule.id}': {rule.decision}"
    if answer.default is not None:
        yield f"  default for {answer.default.of}: {answer.default.ruling}"
    if isinstance(decision, Deny | Ask):
        yield f"  the person reads: {decision.tell_user}"
        yield f"  the model reads: {decision.tell_model}"
    if answer.ruling is Ruling.ALLOW:
        yield "  what the host itself would ask about runs only if [grants] may_allow lists pluggent-permissions"


# ---- show ------------------------------------------------------------------------------


def _show(settings: PermissionSettings, *, in_json: bool) -> int:
    defaults = {name: str(ruling) for name, ruling in settings.in_force().items()}
    rules = [_written(rule) for rule in sorted(settings.rules, key=lambda rule: rule.id)]
    if in_json:
        _write(json.dumps({"mode": settings.mode, "defaults": defaults, "rules": rules}, indent=2, ensure_ascii=False))
        return ALLOWED
    if settings.mode:
        _write(f"mode {settings.mode}")
    for name, ruling in defaults.items():
        _write(f"default  {ruling:<6} {name}")
    for rule in rules:
        _write(f"rule     {rule['decision']:<6} {rule['id']}: {_conditions(rule)}")
    if not rules and not defaults:
        _write("no rules and no defaults: this policy has no opinion. Write some under [plugins.pluggent-permissions]")
    return ALLOWED


def _written(rule: Rule) -> dict[str, Any]:
    """Return *rule* as it can be written, without what it leaves at its default."""
    return cast("dict[str, Any]", _plain(rule))


def _plain(value: object) -> Any:
    if isinstance(value, Rule | Conditions | ArgumentTest | UrlTest | HostTest):
        held = ((field, getattr(value, field.name)) for field in attrs.fields(type(value)))
        return {field.name: _plain(one) for field, one in held if one != field.default and one not in ((), {})}
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in cast("Mapping[object, object]", value).items()}
    if isinstance(value, range):
        return value.start if len(value) == 1 else f"{value.start}-{value.stop - 1}"
    if isinstance(value, tuple):
        several = [_plain(one) for one in cast("tuple[object, ...]", value)]
        return several[0] if len(several) == 1 else several
    return value


def _conditions(rule: Mapping[str, Any]) -> str:
    return "  ".join(
        f"{name} {json.dumps(rule[name], ensure_ascii=False)}" for name in ("on", "when", "unless") if name in rule
    )


def _write(text: str) -> None:
    """Write *text*, with every character escaped that could do something to a terminal."""
    shown = "".join(letter if letter.isprintable() or letter == "\n" else f"\\x{ord(letter):02x}" for letter in text)
    sys.stdout.write(f"{shown}\n")


CONDITIONS_OF_SCOPE = ("session", "agent", "channel", "chat", "principal", "origin", "caller")
_USUAL = {"origin": "cli", "caller": "model"}


def ask_tool(
    policy: Policy, capability: str, effects: Iterable[str], arguments: Mapping[str, Any], where: Mapping[str, str]
) -> Answer:
    """Return what holds for a call. *effects* may be ``pure`` or ``undeclared``. Raises ConfigError."""
    _, mark, name = capability.partition(TOOL_MARK)
    if not mark or not name:
        raise ConfigError("--tool", [f"{capability!r} is not a capability id: write acme-tools:tool/search"])
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
    name, own = _parted("--model", model, "provider/model, such as openai/gpt-5-mini")
    capability = provider or f"pluggent-{name}:provider/{name}"
    return policy.of_model_request(ModelRequestEvent(_scope(where), ModelRequest(own, ()), capability, target))


def ask_embedding(policy: Policy, model: str, embedder: str, target: str, where: Mapping[str, str]) -> Answer:
    """Return what holds for sending texts to ``embedder/model``. Raises ConfigError."""
    name, own = _parted("--embedding", model, "embedder/model, such as openai/text-embedding-3-small")
    capability = embedder or f"pluggent-{name}:embedder/{name}"
    return policy.of_embedding(EmbeddingRequestEvent(_scope(where), EmbeddingRequest(own, ()), capability, target))


def _parted(option: str, model: str, expected: str) -> tuple[str, str]:
    name, _, own = model.partition("/")
    if not name or not own:
        raise ConfigError(option, [f"{model!r} is not a model: write {expected}"])
    return name, own


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
        caller="application" if where["caller"] == "application" else "model",
    )  # fmt: skip
