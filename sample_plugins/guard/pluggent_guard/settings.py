"""The settings under ``[plugins.pluggent-guard]``, checked when they are read."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Any, NoReturn, cast

import attrs
from pluggent_hookspecs import EMPTY, Json, freeze_object

from pluggent_guard.conditions import text_of


class Action(StrEnum):
    """What a rule does with a call that it matches."""

    DENY = "deny"
    ASK = "ask"
    REWRITE = "rewrite"
    ALLOW = "allow"

    @classmethod
    def _missing_(cls, value: object) -> NoReturn:
        raise ValueError(f"unknown action {value!r}; a rule can {', '.join(cls)}")


def _patterns(when: object) -> Mapping[str, tuple[str, ...]]:
    if not isinstance(when, Mapping):
        raise ValueError('when: expected argument names with patterns, as in when = {city = "A*"}')
    conditions = cast("Mapping[object, object]", when)
    return MappingProxyType({str(path): _alternatives(str(path), value) for path, value in conditions.items()})


def _alternatives(path: str, value: object) -> tuple[str, ...]:
    given = tuple(cast("list[object]", value)) if isinstance(value, list | tuple) else (value,)
    if not given:
        raise ValueError(f"when.{path}: the list is empty, so it would never match")
    return tuple(_pattern(path, one) for one in given)


def _pattern(path: str, value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool | int | float):
        return text_of(value)
    raise ValueError(f"when.{path}: expected a pattern or a list of them, not {value!r}")


def _arguments(value: object) -> Mapping[str, Json]:
    if not isinstance(value, Mapping):
        raise ValueError('set: expected arguments with values, as in set = {unit = "celsius"}')
    return freeze_object(cast("Mapping[str, Json]", value))


@attrs.frozen
class Rule:
    """One rule.

    ``tool`` is a capability id, a short name, or either with ``*``. ``when`` maps arguments
    (dotted into nested values, ``*`` for any member) to a pattern or several, of which one
    must match; all of ``when`` must hold, and an argument that is missing never matches.
    ``set`` holds the arguments that ``rewrite`` puts in place of what was given.
    ``tell_model`` and ``tell_user`` replace the standard words of ``deny`` and ``ask``.
    """

    action: Action = attrs.field(converter=Action)
    tool: str
    when: Mapping[str, Any] = attrs.field(default=EMPTY, converter=_patterns)
    set: Mapping[str, Any] = attrs.field(default=EMPTY, converter=_arguments)
    tell_model: str = ""
    tell_user: str = ""

    def __attrs_post_init__(self) -> None:
        problems: list[str] = []
        if not self.tool.strip():
            problems.append("tool: empty; name a tool, or all of them with '*'")
        if self.action is Action.REWRITE and not self.set:
            problems.append('a rule that rewrites needs set, as in set = {unit = "celsius"}')
        if self.action is not Action.REWRITE and self.set:
            problems.append(f"set: only a rule that rewrites can set arguments, this one has action {self.action}")
        if self.action not in (Action.DENY, Action.ASK) and (self.tell_model or self.tell_user):
            problems.append(f"tell_model, tell_user: action {self.action} has no message")
        if problems:
            raise ValueError("; ".join(problems))


@attrs.frozen
class GuardSettings:
    """The rules, in their order; none by default."""

    rules: tuple[Rule, ...] = attrs.field(default=(), converter=tuple)
    """The rules, in their order; see the README of pluggent-guard."""
