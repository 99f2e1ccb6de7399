from __future__ import annotations

import fnmatch
import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pluggent_guard
import pytest
from each_of import each_of
from hypothesis import given, strategies as st
from pluggent_guard.conditions import condition, values_at
from pluggent_guard.plugin import Guard
from pluggent_guard.settings import GuardSettings, Rule
from pluggent_hookspecs import Allow, Ask, ConfigError, Decision, Deny, HookError, Json, Scope, ToolCallEvent, ToolSpec
from pluggent_plugin_loader.catalog import PluginRecord
from pluggent_plugin_loader.discovery import discover
from pluggent_plugin_loader.loader import load, new_manager

WEATHER = "pluggent-weather:tool/weather"
FORECAST = "pluggent-weather:tool/forecast"


class Context:
    """A host that has the two weather tools."""

    plugin = "pluggent-guard"
    host_version = "0"

    async def tools_named(self, pattern: str) -> tuple[str, ...]:
        found = tuple(id for id in (WEATHER, FORECAST) if fnmatch.fnmatch(id, pattern) or id.endswith(f"/{pattern}"))
        if not found and pattern != "nothing":
            raise ConfigError("tools", [f"no tool is called '{pattern}'"])
        return found

    async def model_named(self, name: str) -> str:
        return name


def call(capability: str = WEATHER, /, **arguments: Json) -> ToolCallEvent:
    tool = ToolSpec(capability.rpartition("/")[2])
    return ToolCallEvent(Scope(), "call", tool, capability, json.dumps(arguments).encode())


async def decided(event: ToolCallEvent, *rules: Rule) -> Decision | None:
    guard = Guard(GuardSettings(rules))
    async with guard.open(Context()):
        return guard.decide_tool_call(event)


async def rewritten(event: ToolCallEvent, *rules: Rule) -> Mapping[str, Json] | None:
    guard = Guard(GuardSettings(rules))
    async with guard.open(Context()):
        return guard.transform_tool_call(event)


def rule(action: str, tool: str = "*", **more: Any) -> Rule:
    return Rule(action, tool, **more)


ATLANTIS = rule("deny", "weather", when={"city": "Atlantis*"})


async def test_without_rules_it_has_no_opinion():
    assert await decided(call(city="Rome")) is None
    assert await rewritten(call(city="Rome")) is None


async def test_a_matching_call_is_denied_and_others_are_not():
    assert await decided(call(city="Atlantis City"), ATLANTIS) == Deny(
        f"{WEATHER} is not allowed with these arguments",
        tell_user=f"{WEATHER} was denied by rule 1 of the guard (city is Atlantis*)",
    )
    assert await decided(call(city="Rome"), ATLANTIS) is None
    assert await decided(call(FORECAST, city="Atlantis"), ATLANTIS) is None


async def test_a_missing_argument_never_matches():
    assert await decided(call(), ATLANTIS) is None
    assert await decided(call(), rule("deny", when={"city": "*"})) is None


async def test_the_words_of_a_rule_replace_the_standard_ones():
    said = rule("deny", tell_model="ask elsewhere", tell_user="not today")

    assert await decided(call(), said) == Deny("ask elsewhere", tell_user="not today")


@pytest.mark.parametrize("tool", ["weather", WEATHER, "pluggent-weather:tool/*", "*"])
async def test_a_tool_is_named_by_id_short_name_or_pattern(tool: str):
    assert await decided(call(), rule("deny", tool, tell_model="no")) == Deny(
        "no", tell_user=f"{WEATHER} was denied by rule 1 of the guard"
    )


async def test_deny_goes_before_ask_before_allow_wherever_they_stand():
    allow, ask, deny = rule("allow"), rule("ask", tell_user="sure?"), rule("deny", tell_model="no", tell_user="no")

    assert await decided(call(), allow, ask, deny) == Deny("no")
    assert await decided(call(), allow, ask) == Ask("sure?")
    assert await decided(call(), allow) == Allow("rule 1 of the guard")


async def test_of_equal_rules_the_first_one_speaks():
    assert await decided(call(), rule("ask", tell_user="first?"), rule("ask", tell_user="second?")) == Ask("first?")


async def test_all_conditions_of_a_rule_must_hold():
    both = rule("deny", when={"city": "Rome", "days": "7"}, tell_model="no")

    assert await decided(call(city="Rome", days=7), both) is not None
    assert await decided(call(city="Rome", days=6), both) is None


async def test_rewriting_sets_arguments_and_keeps_the_others():
    celsius = rule("rewrite", when={"unit": "fahrenheit"}, set={"unit": "celsius"})

    assert await rewritten(call(city="Rome", unit="fahrenheit"), celsius) == {"city": "Rome", "unit": "celsius"}
    assert await rewritten(call(city="Rome", unit="celsius"), celsius) is None
    assert await decided(call(city="Rome", unit="fahrenheit"), celsius) is None


async def test_later_rewrites_see_what_earlier_ones_made():
    first = rule("rewrite", when={"city": "Rom"}, set={"city": "Rome"})
    second = rule("rewrite", when={"city": "Rome"}, set={"days": 3})

    assert await rewritten(call(city="Rom"), first, second) == {"city": "Rome", "days": 3}


@each_of(
    ("path", "pattern", "arguments", "matches"),
    [
        ("a", "x?z", {"a": "xyz"}, True),
        ("a", "x", {"a": "xyz"}, False),
        ("a", "[ab]*", {"a": "beta"}, True),
        ("a", "ATLANTIS", {"a": "atlantis"}, True),
        ("a", "atlantis", {"a": "\uff21\uff54\uff4c\uff41\uff4e\uff54\uff49\uff53"}, True),
        ("a", "straße", {"a": "STRASSE"}, True),
        ("a", "*rm -rf*", {"a": "cd /\nrm -rf ."}, True),
        ("a", "7", {"a": 7}, True),
        ("a", "true", {"a": True}, True),
        ("a", "null", {"a": None}, True),
        ("a", "1.5", {"a": 1.5}, True),
        ("a", '{"b":1,"c":?北京?}', {"a": {"c": "北京", "b": 1}}, True),
        ("a.b", "x", {"a": {"b": "x"}}, True),
        ("a.b", "x", {"a.b": "x"}, True),
        ("a.b.c", "x", {"a.b": {"c": "x"}}, True),
        ("a.1", "x", {"a": ["y", "x"]}, True),
        ("a.0", "x", {"a": ["y", "x"]}, False),
        ("a.*", "x", {"a": ["y", "x"]}, True),
        ("a.*.b", "x", {"a": [{"b": "y"}, {"b": "x"}]}, True),
        ("*", "x", {"p": 1, "q": "x"}, True),
        ("a.b", "*", {"a": "b"}, False),
        ("a.b", "*", {"a": {}}, False),
    ],
)
def test_patterns_match_as_documented(path: str, pattern: str, arguments: dict[str, Json], matches: bool):
    assert condition(path, (pattern,))(call(**arguments).arguments) is matches


@given(
    st.recursive(st.none() | st.integers() | st.text(), lambda x: st.lists(x) | st.dictionaries(st.text(), x)),
    st.text(),
)
def test_any_path_leads_somewhere_or_nowhere(value: Json, path: str):
    assert all(found is not None or found is None for found in values_at(value, path))


async def test_every_rule_without_a_tool_is_named_when_it_opens():
    guard = Guard(GuardSettings((rule("deny", "wether"), ATLANTIS, rule("ask", "nothing"))))

    with pytest.raises(ConfigError) as caught:
        await guard.open(Context()).__aenter__()

    assert caught.value.problems == (
        "rules[0].tool: no tool is called 'wether'",
        "rules[2].tool: no tool is called 'nothing'",
    )


async def test_outside_of_its_lifetime_it_raises_which_denies():
    guard = Guard(GuardSettings((ATLANTIS,)))
    async with guard.open(Context()):
        pass

    for asked in (guard, Guard()):
        with pytest.raises(HookError, match="not open"):
            asked.decide_tool_call(call(city="Rome"))
        with pytest.raises(HookError, match="not open"):
            asked.transform_tool_call(call(city="Rome"))


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        ({"action": "forbid"}, "unknown action 'forbid'; a rule can deny, ask, rewrite, allow"),
        ({"tool": " "}, "tool: empty"),
        ({"action": "rewrite"}, "a rule that rewrites needs set"),
        ({"set": {"a": 1}}, "set: only a rule that rewrites can set arguments, this one has action deny"),
        ({"action": "allow", "tell_user": "hi"}, "tell_model, tell_user: action allow has no message"),
        ({"when": {"city": []}}, "when.city: the list is empty, so it would never match"),
        ({"when": {"city": {"a": 1}}}, "when.city: expected a pattern or a list of them, not {'a': 1}"),
        ({"when": {"city": ["a", None]}}, "when.city: expected a pattern or a list of them, not None"),
        ({"when": "city"}, "when: expected argument names with patterns"),
        ({"action": "rewrite", "set": "unit"}, "set: expected arguments with values"),
    ],
)
def test_a_rule_that_makes_no_sense_is_refused(wrong: dict[str, Any], problem: str):
    with pytest.raises(ValueError, match=r"\w") as caught:
        Rule(**{"action": "deny", "tool": "*", **wrong})

    assert problem in str(caught.value)


def record() -> PluginRecord:
    home = next(each for each in discover().distributions if each.name == "pluggent-guard")
    value = "pluggent_guard.plugin:Guard"
    return PluginRecord("pluggent-guard", "0.1.0", "pluggent.hooks", "hooks", "guard", value, "available", "", "", home)


def test_settings_of_a_file_become_rules():
    section = tomllib.loads("""
        [[rules]]
        action = "deny"
        tool = "weather"
        when = { city = ["Atlantis*", "Eldorado"], days = 7 }
        [[rules]]
        action = "rewrite"
        tool = "weather"
        set = { unit = "celsius" }
    """)

    loaded = load(record(), new_manager(), section)

    assert isinstance(loaded.plugin, Guard)
    assert loaded.hooks == ("transform_tool_call", "decide_tool_call")


def test_mistakes_in_a_file_are_all_named_with_their_places():
    section = {"rules": [{"action": "forbid", "tool": "x"}, {"action": "deny", "tool": "x", "wen": {}}, {"tool": "x"}]}

    with pytest.raises(ConfigError) as caught:
        load(record(), new_manager(), section)

    problems = caught.value.problems
    assert len(problems) == 3
    assert "rules[0]" in problems[0]
    assert "unknown action 'forbid'; a rule can deny, ask, rewrite, allow" in problems[0]
    assert "wen" in problems[1]
    assert "rules[2].action" in problems[2]


async def test_the_demonstration_denies_atlantis_and_turns_fahrenheit_into_celsius():
    demo = tomllib.loads((Path(pluggent_guard.__file__).parents[1] / "demo.toml").read_text("utf-8"))
    guard = load(record(), new_manager(), demo["plugins"]["pluggent-guard"]).plugin

    assert isinstance(guard, Guard)
    async with guard.open(Context()):
        assert isinstance(guard.decide_tool_call(call(city="Atlantis")), Deny)
        assert guard.decide_tool_call(call(city="Beijing")) is None
        assert guard.transform_tool_call(call(unit="fahrenheit")) == {"unit": "celsius"}
