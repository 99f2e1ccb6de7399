"""What all rules and defaults together answer. Pure but for links in paths: same event, same answer.

    answer = the strictest of: every deny and ask rule that applies,
                               the default, unless an allow rule applies

The order of rules never matters, and a further deny or ask rule never makes an answer milder.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import TypeAlias

import attrs
from pluggent_hookspecs import (
    Allow,
    Ask,
    Decision,
    Deny,
    EmbeddingRequestEvent,
    HostedTool,
    MemoryReadEvent,
    MemoryWriteEvent,
    ModelRequestEvent,
    ToolCallEvent,
)

from pluggent_permissions.conditions import Effects, Event, Names, Side, needs_name, side
from pluggent_permissions.settings import (
    EMBEDDING,
    MEMORY_READ,
    MEMORY_WRITE,
    MODEL_REQUEST,
    NO_CONDITIONS,
    OPERATIONS,
    OTHER,
    PURE,
    TOOL_CALL,
    UNDECLARED,
    PermissionSettings,
    Rule,
    Ruling,
)
from pluggent_permissions.text_patterns import Reading

_STRICTEST_FIRST = (Ruling.DENY, Ruling.ASK, Ruling.ALLOW)
_MOST_TOOLS = 4096
NO_NAMES: Names = MappingProxyType({})


@attrs.frozen(eq=False)
class BoundRule:
    """A rule and its compiled conditions."""

    rule: Rule
    when: Side
    unless: Side | None

    def may_apply(self, capability: str, effects: Effects, names: Names) -> bool:
        """Say whether it can apply to calls of this tool."""
        return self.when.may_hold(capability, effects, names)

    def excepts(self, capability: str, effects: Effects, names: Names) -> bool:
        """Say whether calls of this tool can be the exception to it."""
        return self.unless is not None and self.unless.may_hold(capability, effects, names)


RulesByOperation: TypeAlias = Mapping[str, tuple[BoundRule, ...]]


@attrs.frozen
class Default:
    """What holds where no rule allows, and the effect or operation that it is the default of."""

    ruling: Ruling
    of: str


@attrs.frozen
class Answer:
    """What rules and defaults come to. ``rules`` are all that apply, the strictest first, then by id."""

    ruling: Ruling | None = None
    rules: tuple[Rule, ...] = ()
    default: Default | None = None

    def decision(self, what: str) -> Decision | None:
        """Return it as a decision of the contract about *what*; None decides nothing."""
        speaking = tuple(rule for rule in self.rules if rule.decision is self.ruling)
        match self.ruling:
            case Ruling.DENY:
                return Deny(
                    self._told_model(speaking, "this is not allowed here"),
                    tell_user=self._told_user(speaking, f"{what} is denied"),
                    ends_turn=any(rule.ends_turn for rule in speaking),
                )
            case Ruling.ASK:
                question = self._told_user(speaking, f"{what} needs a person's approval")
                return Ask(question, tell_model=self._told_model(speaking, "a person has to approve this first"))
            case Ruling.ALLOW:
                return Allow(", ".join(self._reasons(speaking)))
            case None:
                return None

    def _reasons(self, speaking: Iterable[Rule]) -> list[str]:
        own = [f"rule '{rule.id}'" for rule in speaking]
        by_default = self.default is not None and self.default.ruling is self.ruling
        return [*own, f"default for {self.default.of}"] if by_default and self.default else own

    def _told_user(self, speaking: tuple[Rule, ...], standard: str) -> str:
        told = [f"{rule.tell_user} (rule '{rule.id}')" for rule in speaking if rule.tell_user]
        silent = self._reasons(rule for rule in speaking if not rule.tell_user)
        return "; ".join([*told, *([f"{standard} ({', '.join(silent)})"] if silent else [])])

    def _told_model(self, speaking: tuple[Rule, ...], standard: str) -> str:
        told = dict.fromkeys(rule.tell_model for rule in speaking if rule.tell_model)
        return "; ".join(told) or standard


@attrs.frozen(eq=False)
class Relevant:
    """What can matter for the calls of one tool: each rule, and whether its exception can hold."""

    rules: tuple[tuple[BoundRule, bool], ...]
    default: Default | None


class Policy:
    """Settings, compiled. Tools that rules call by a short name mean nothing before ``with_names``."""

    def __init__(
        self, settings: PermissionSettings, rules: RulesByOperation | None = None, names: Names = NO_NAMES
    ) -> None:
        self.settings = settings
        self._defaults = settings.in_force()
        self._rules = _compiled(settings) if rules is None else rules
        self._names = names
        self._others = {
            name: Relevant(tuple((each, each.unless is not None) for each in self._rules[name]), self._default(name))
            for name in OPERATIONS
        }
        self._tools: dict[tuple[str, Effects], Relevant] = {}

    def with_names(self, names: Names) -> Policy:
        """Return the same policy, in which short names mean the ids in *names*."""
        return Policy(self.settings, self._rules, names)

    def of_tool_call(self, event: ToolCallEvent) -> Answer:
        """Return what holds for one call of a tool."""
        return _answer(self._of_tool(event.capability, event.effects), event)

    def _of_tool(self, capability: str, effects: Effects) -> Relevant:
        key = (capability, effects)
        relevant = self._tools.get(key)
        if relevant is None:
            if len(self._tools) >= _MOST_TOOLS:
                self._tools.clear()
            relevant = self._tools[key] = self._relevant(*key)
        return relevant

    def of_model_request(self, event: ModelRequestEvent) -> Answer:
        """Return what holds for asking a model."""
        return _answer(self._others[MODEL_REQUEST], event)

    def of_hosted(self, tool: HostedTool, event: ModelRequestEvent) -> Answer:
        """Return what holds for *tool*, which may run at the vendor meanwhile: what does for calls of tools.

        Its arguments are not known: a test of them is in doubt, as it is for one that is missing.
        """
        return _answer(self._of_tool(tool.capability, tool.effects), event)

    def of_embedding(self, event: EmbeddingRequestEvent) -> Answer:
        """Return what holds for sending texts to an embedder."""
        return _answer(self._others[EMBEDDING], event)

    def of_memory_read(self, event: MemoryReadEvent) -> Answer:
        """Return what holds for reading memory."""
        return _answer(self._others[MEMORY_READ], event)

    def of_memory_write(self, event: MemoryWriteEvent) -> Answer:
        """Return what holds for saving or forgetting."""
        return _answer(self._others[MEMORY_WRITE], event)

    def named_tools(self) -> Iterator[tuple[Rule, str]]:
        """Yield each rule with a tool that it names and that only a host can find."""
        for rule in self.settings.rules:
            for pattern in (*rule.when.tool, *rule.unless.tool):
                if needs_name(pattern):
                    yield rule, pattern

    def _relevant(self, capability: str, effects: Effects) -> Relevant:
        rules = tuple(
            (each, each.excepts(capability, effects, self._names))
            for each in self._rules[TOOL_CALL]
            if each.may_apply(capability, effects, self._names)
        )
        return Relevant(rules, self._default_by_effect(effects))

    def _default(self, name: str) -> Default | None:
        ruling = self._defaults.get(name)
        return None if ruling is None else Default(ruling, name)

    def _default_by_effect(self, effects: Effects) -> Default | None:
        """Return the strictest default of *effects*; allow only if every one of them has it."""
        if effects is None:
            return self._default(UNDECLARED) or self._worst()
        if not effects:
            return self._default(PURE)
        found = [self._default(effect) or self._other(effect) for effect in sorted(effects)]
        known = [default for default in found if default is not None]
        strictest = min(known, key=lambda default: _STRICTEST_FIRST.index(default.ruling), default=None)
        if strictest is not None and strictest.ruling is Ruling.ALLOW and len(known) < len(found):
            return None
        return strictest

    def _other(self, effect: str) -> Default | None:
        ruling = self._defaults.get(OTHER)
        return None if ruling is None else Default(ruling, effect)

    def _worst(self) -> Default | None:
        """Undeclared effects may be any: the strictest default counts, and none of them allows."""
        rulings = [ruling for name, ruling in self._defaults.items() if name not in (PURE, *OPERATIONS)]
        strictest = min(rulings, key=_STRICTEST_FIRST.index, default=Ruling.ALLOW)
        return None if strictest is Ruling.ALLOW else Default(strictest, UNDECLARED)


def _compiled(settings: PermissionSettings) -> RulesByOperation:
    bound = sorted((_bind(rule) for rule in settings.rules), key=_rank)
    return {name: tuple(each for each in bound if name in each.rule.on) for name in (TOOL_CALL, *OPERATIONS)}


def _bind(rule: Rule) -> BoundRule:
    reading = Reading.EXACT if rule.decision is Ruling.ALLOW else Reading.WIDE
    unless = None if rule.unless == NO_CONDITIONS else side(rule.unless, reading.other)
    return BoundRule(rule, side(rule.when, reading), unless)


def _rank(bound: BoundRule) -> tuple[int, str]:
    return _STRICTEST_FIRST.index(bound.rule.decision), bound.rule.id


def _answer(relevant: Relevant, event: Event) -> Answer:
    default = relevant.default
    applying = tuple(
        bound.rule
        for bound, excepting in relevant.rules
        if bound.when.holds(event) and not (excepting and bound.unless is not None and bound.unless.holds(event))
    )
    if not applying:
        return Answer(default.ruling, (), default) if default is not None else Answer()
    # An allow rule lifts the default. Sorted, so it is the last where there is one.
    standing = None if applying[-1].decision is Ruling.ALLOW else default
    strictest = applying[0].decision
    if standing is not None and _STRICTEST_FIRST.index(standing.ruling) < _STRICTEST_FIRST.index(strictest):
        strictest = standing.ruling
    return Answer(strictest, applying, standing)
