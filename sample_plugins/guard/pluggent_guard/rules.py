"""What the rules make of a call. Pure: no clock, no network, the same call gets the same answer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import assert_never

import attrs
from pluggent_hookspecs import Allow, Ask, Decision, Deny, Json

from pluggent_guard.conditions import Condition, condition
from pluggent_guard.settings import Action, Rule

_RANK = (Action.DENY, Action.ASK, Action.ALLOW)


@attrs.frozen
class BoundRule:
    """A rule with the ids of the tools that it names; ``index`` is its place in the settings."""

    rule: Rule
    index: int
    tools: frozenset[str]
    conditions: tuple[Condition, ...]

    def matches(self, capability: str, arguments: Mapping[str, Json]) -> bool:
        """Return whether the rule speaks about this call."""
        return capability in self.tools and all(holds(arguments) for holds in self.conditions)


def bind(rule: Rule, index: int, tools: Iterable[str]) -> BoundRule:
    """Return *rule* for the *tools* that its name stands for."""
    # To deny or to ask, one bad value among several is enough; to allow, every one has to be good.
    every = rule.action is Action.ALLOW
    conditions = tuple(condition(path, patterns, every=every) for path, patterns in rule.when.items())
    return BoundRule(rule, index, frozenset(tools), conditions)


def rewrite(rules: Sequence[BoundRule], capability: str, arguments: Mapping[str, Json]) -> Mapping[str, Json] | None:
    """Return what the ``rewrite`` rules make of *arguments*, each seeing the last one's; None if nothing."""
    result = arguments
    for bound in rules:
        if bound.rule.action is Action.REWRITE and bound.matches(capability, result):
            result = {**result, **bound.rule.set}
    return None if result is arguments else result


def decide(rules: Sequence[BoundRule], capability: str, arguments: Mapping[str, Json]) -> Decision | None:
    """Return the strictest answer of the matching rules, of equally strict ones the first."""
    matching = [bound for bound in rules if bound.rule.action in _RANK and bound.matches(capability, arguments)]
    if not matching:
        return None
    return _decision(min(matching, key=lambda bound: _RANK.index(bound.rule.action)), capability)


def _decision(bound: BoundRule, capability: str) -> Decision | None:
    rule = bound.rule
    where = f"rule {bound.index + 1} of the guard{_because(rule)}"
    match rule.action:
        case Action.DENY:
            said = rule.tell_model or f"{capability} is not allowed with these arguments"
            return Deny(said, tell_user=rule.tell_user or f"{capability} was denied by {where}")
        case Action.ASK:
            question = rule.tell_user or f"May {capability} be called? ({where})"
            return Ask(question, tell_model=rule.tell_model) if rule.tell_model else Ask(question)
        case Action.ALLOW:
            return Allow(where)
        case Action.REWRITE:
            return None
        case _:
            assert_never(rule.action)


def _because(rule: Rule) -> str:
    conditions = [f"{path} is {' or '.join(patterns)}" for path, patterns in rule.when.items()]
    return f" ({', '.join(conditions)})" if conditions else ""
