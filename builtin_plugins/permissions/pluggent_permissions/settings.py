"""The settings under ``[plugins.pluggent-permissions]``, checked when they are read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Any, NoReturn, cast

import attrs
from pluggent_hookspecs import EMPTY, Effect

from pluggent_permissions.argument_settings import NO_URL, ArgumentTest, UrlTest, a_text, one_or_several

PURE = "pure"
UNDECLARED = "undeclared"
OTHER = "other"
OPERATIONS = ("model_request", "memory_read", "memory_write", "embedding")
"""What besides tool calls is decided about; each can have a default."""

_LOOKS = (Effect.FILESYSTEM_READ, Effect.NETWORK_READ, Effect.MEMORY, PURE)
_CHANGES = (Effect.FILESYSTEM_WRITE, Effect.NETWORK_WRITE, Effect.MESSAGING)
_CANNOT_BE_UNDONE = (Effect.SHELL, Effect.HARDWARE, Effect.DESTRUCTIVE, Effect.SPEND, UNDECLARED, OTHER)


def _table(looks: str, changes: str, cannot_be_undone: str) -> Mapping[str, str]:
    groups = ((_LOOKS, looks), (_CHANGES, changes), (_CANNOT_BE_UNDONE, cannot_be_undone))
    return MappingProxyType({str(effect): decision for effects, decision in groups for effect in effects})


MODES: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "observer": _table("allow", "deny", "deny"),
        "assistant": _table("allow", "allow", "ask"),
        "autonomous": _table("allow", "allow", "allow"),
    }
)
"""Defaults by mode; names are read without regard to case, and an unknown one is an error."""

TOOL_CALL = "tool_call"
MODEL_REQUEST, MEMORY_READ, MEMORY_WRITE, EMBEDDING = OPERATIONS

_SCOPE = ("session", "agent", "channel", "chat", "principal", "origin", "caller")
_GLOBS = ("tool", "provider", "model", "store", "namespace", "key")
_OWN_FIELDS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        TOOL_CALL: ("tool", "effects", "arguments"),
        MODEL_REQUEST: ("provider", "model", "target"),
        MEMORY_READ: ("store", "namespace", "key"),
        MEMORY_WRITE: ("store", "namespace", "key"),
        EMBEDDING: ("provider", "model", "target"),
    }
)
"""Which conditions each kind of operation knows, besides where it happens."""


class Ruling(StrEnum):
    """What a rule or a default says."""

    DENY = "deny"
    ASK = "ask"
    ALLOW = "allow"

    @classmethod
    def _missing_(cls, value: object) -> NoReturn:
        raise ValueError(f"unknown decision {value!r}; it is {', '.join(cls)}")


def _effect(value: object) -> str:
    text = a_text(value)
    if text not in (PURE, UNDECLARED) and not text.startswith("x:") and text not in Effect.__members__.values():
        known = ", ".join((*Effect, PURE, UNDECLARED))
        raise ValueError(f"unknown effect {text!r}; known are {known}, and x:… for your own")
    return text


def _operation(value: object) -> str:
    text = a_text(value)
    if text not in _OWN_FIELDS:
        raise ValueError(f"unknown operation {text!r}; known are {', '.join(_OWN_FIELDS)}")
    return text


def _tests(value: object) -> Mapping[str, ArgumentTest]:
    tests = MappingProxyType(dict(cast("Mapping[str, ArgumentTest]", value)))
    for path in tests:
        parts = path.split(".")
        if "" in parts or "**" in parts[:-1]:
            raise ValueError(
                f"arguments: {path!r} is not a path: names and indexes with dots between, * for any, ** last"
            )
    return tests


@attrs.frozen(
    field_transformer=one_or_several(effects=_effect, **dict.fromkeys((*_GLOBS, *_SCOPE), a_text)),
)
class Conditions:
    """What an operation has to be; all that is given. Of several values of one field, one will do.

    ``tool`` ids, short names, or either with ``*``; ``effects`` names, ``pure``, ``undeclared``;
    ``arguments`` maps paths to tests. ``provider`` capability ids or names (of an embedding
    those of the embedder), ``model`` as ``openai/gpt-5*``, ``target`` where requests go.
    ``store``, ``namespace``, ``key`` of memory; ``{principal}``, ``{agent}``, ``{session}`` and
    ``{channel}`` in a namespace or key are whose
    operation it is. The others say where it happens. All but ``effects`` are globs.
    """

    tool: Any = ()
    effects: Any = ()
    arguments: Mapping[str, ArgumentTest] = attrs.field(
        default=cast("Mapping[str, ArgumentTest]", EMPTY), converter=_tests
    )
    provider: Any = ()
    model: Any = ()
    target: UrlTest = NO_URL
    store: Any = ()
    namespace: Any = ()
    key: Any = ()
    session: Any = ()
    agent: Any = ()
    channel: Any = ()
    chat: Any = ()
    principal: Any = ()
    origin: Any = ()
    caller: Any = ()

    def given(self) -> frozenset[str]:
        """Return the names of the fields that say something."""
        return frozenset(
            field.name for field in attrs.fields(Conditions) if getattr(self, field.name) not in ((), EMPTY, NO_URL)
        )


NO_CONDITIONS = Conditions()


@attrs.frozen(field_transformer=one_or_several(on=_operation))
class Rule:
    """One rule: where ``when`` holds and ``unless`` does not, the ``decision``.

    ``on`` are the operations that it is about. ``tell_user`` and ``tell_model`` replace the
    standard words of deny and ask; ``ends_turn`` lets a denied call end the turn. With
    ``tools_may_be_missing`` the tools that it names (by id, or with ``*``) need not be installed.
    """

    id: str
    decision: Ruling = attrs.field(converter=Ruling)
    on: Any = (TOOL_CALL,)
    when: Conditions = NO_CONDITIONS
    unless: Conditions = NO_CONDITIONS
    tell_user: str = ""
    tell_model: str = ""
    ends_turn: bool = False
    tools_may_be_missing: bool = False

    def __attrs_post_init__(self) -> None:
        if problems := list(self._problems()):
            raise ValueError(f"rule {self.id!r}: {'; '.join(problems)}")

    def _problems(self) -> Iterator[str]:
        if not self.id.strip():
            yield "id: empty; a name for messages and records"
        given = self.when.given() | self.unless.given()
        if not given:
            yield 'it has no condition; for every call write when = { tool = "*" }'
        for operation in self.on:
            if unknown := sorted(given - {*_SCOPE, *_OWN_FIELDS[operation]}):
                yield f"{', '.join(unknown)}: not known of {operation}; it has {', '.join(_OWN_FIELDS[operation])}"
        if self.decision is Ruling.ALLOW and (self.tell_user or self.tell_model):
            yield "tell_user, tell_model: decision allow has no message"
        if self.ends_turn and (self.decision is not Ruling.DENY or tuple(self.on) != (TOOL_CALL,)):
            yield "ends_turn: for tool calls that are denied"
        short = [name for name in (*self.when.tool, *self.unless.tool) if ":" not in name and "*" not in name]
        if self.tools_may_be_missing and short:
            yield f"tools_may_be_missing: write {', '.join(short)} as a full id, such as acme-tools:tool/search"


def _mode(value: str) -> str:
    mode = value.strip().lower()
    if mode and mode not in MODES:
        raise ValueError(f"mode: unknown {value!r}; it is {', '.join(MODES)}")
    return mode


def _defaults(value: Mapping[str, Any]) -> Mapping[str, Ruling]:
    problems: list[str] = []
    found: dict[str, Ruling] = {}
    for name, ruling in value.items():
        try:
            found[name if name in (OTHER, *OPERATIONS) else _effect(name)] = Ruling(ruling)
        except ValueError as error:
            problems.append(f"defaults.{name}: {error}")
    if problems:
        raise ValueError("; ".join(problems))
    return MappingProxyType(found)


@attrs.frozen
class PermissionSettings:
    """Rules, and what holds where none allows; nothing by default.

    ``mode`` is a ready table of defaults (``MODES``), ``defaults`` stand above it: by
    effect, ``pure``, ``undeclared``, ``other`` (effects that have none), and by operation.
    """

    mode: str = attrs.field(default="", converter=_mode)
    """A set of defaults: observer, assistant or autonomous; empty: the host's own."""
    defaults: Mapping[str, Any] = attrs.field(default=EMPTY, converter=_defaults)
    """What holds for an effect, or another kind of operation, where no rule does: allow, ask or deny."""
    rules: tuple[Rule, ...] = attrs.field(default=(), converter=tuple)
    """The rules; see the README of pluggent-permissions."""

    def __attrs_post_init__(self) -> None:
        twice = sorted(id for id, count in Counter(rule.id for rule in self.rules).items() if count > 1)
        if twice:
            raise ValueError(f"rules: two are called {', '.join(map(repr, twice))}")

    def in_force(self) -> Mapping[str, Ruling]:
        """Return the defaults: those of the mode, with what is written above them."""
        ready = {name: Ruling(ruling) for name, ruling in MODES.get(self.mode, {}).items()}
        return MappingProxyType({**ready, **self.defaults})


NO_SETTINGS = PermissionSettings()
