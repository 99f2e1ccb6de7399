"""Every mistake in the settings is told when they are read, with its place."""

from typing import Any

import pytest
from permitting import rule, settings
from pluggent_hookspecs import ConfigError
from pluggent_permissions.settings import PermissionSettings, Ruling


def problems(written: str | dict[str, Any]) -> str:
    with pytest.raises(ConfigError) as caught:
        settings(written)
    return str(caught.value)


def test_nothing_is_a_policy_without_opinion():
    assert settings({}) == PermissionSettings()
    assert dict(PermissionSettings().in_force()) == {}


@pytest.mark.parametrize(
    ("written", "problem"),
    [
        ({"mode": "asistant"}, "mode: unknown 'asistant'; it is observer, assistant, autonomous"),
        ({"moed": "assistant"}, "moed: unknown; did you mean 'mode'?"),
        ({"defaults": {"shel": "deny"}}, "defaults.shel: unknown effect 'shel'; known are filesystem_read"),
        ({"defaults": {"shell": "no"}}, "defaults.shell: unknown decision 'no'; it is deny, ask, allow"),
        ({"rules": [{"decision": "deny"}]}, "rules[0].id: is required"),
        ({"rules": [{"id": "a"}]}, "rules[0].decision: is required"),
        ({"rules": [rule("a", "deny"), rule("a", "ask")]}, "rules: two are called 'a'"),
        ({"rules": [rule(" ", "deny")]}, "id: empty"),
        ({"rules": [rule("a", "forbid")]}, "unknown decision 'forbid'"),
        ({"rules": [{"id": "a", "decision": "deny"}]}, "it has no condition; for every call write"),
        ({"rules": [rule("a", "deny", when={"tol": "x"})]}, "rules[0].when.tol: unknown; did you mean 'tool'?"),
        ({"rules": [rule("a", "deny", when={"tool": []})]}, "tool: the list is empty, so it would fit nothing"),
        ({"rules": [rule("a", "deny", when={"tool": 5})]}, "tool: expected a text, got 5"),
        ({"rules": [rule("a", "deny", when={"effects": "shel"})]}, "effects: unknown effect 'shel'"),
        ({"rules": [rule("a", "deny", on="tool")]}, "on: unknown operation 'tool'; known are tool_call, model_request"),
        (
            {"rules": [rule("a", "deny", on="model_request")]},
            "tool: not known of model_request; it has provider, model",
        ),
        ({"rules": [rule("a", "deny", when={"key": "x"})]}, "key: not known of tool_call"),
        ({"rules": [rule("a", "allow", tell_user="hi")]}, "tell_user, tell_model: decision allow has no message"),
        ({"rules": [rule("a", "ask", ends_turn=True)]}, "ends_turn: for tool calls that are denied"),
        (
            {"rules": [rule("a", "deny", when={"tool": "search"}, tools_may_be_missing=True)]},
            "tools_may_be_missing: write search as a full id",
        ),
        ({"rules": [rule("a", "deny", when={"arguments": {"p": {}}})]}, "nothing is wanted of it"),
        ({"rules": [rule("a", "deny", when={"arguments": {"p": {"optional": True}}})]}, "nothing is wanted of it"),
        (
            {"rules": [rule("a", "deny", when={"arguments": {"p": {"globb": "x"}}})]},
            "rules[0].when.arguments.p.globb: unknown; did you mean 'glob'?",
        ),
        ({"rules": [rule("a", "deny", when={"arguments": {"p": {"ge": "1"}}})]}, "p.ge"),
        ({"rules": [rule("a", "deny", when={"arguments": {"p": {"gt": True}}})]}, "expected numbers"),
        (
            {"rules": [rule("a", "deny", when={"arguments": {"p": {"equals": [[1]]}}})]},
            "equals: expected a text, a number",
        ),
        ({"rules": [rule("a", "deny", when={"arguments": {"p": {"inside": ""}}})]}, "inside: '' is not a folder"),
        ({"rules": [rule("a", "deny", when={"arguments": {"p": {"url": {"scheme": "HTTP"}}}})]}, "is not a scheme"),
        ({"rules": [rule("a", "deny", when={"arguments": {"p": {"url": {"port": "http"}}}})]}, "is not a port"),
        ({"rules": [rule("a", "deny", when={"arguments": {"p": {"url": {"port": "9-1"}}}})]}, "is not a port"),
        ({"rules": [rule("a", "deny", when={"arguments": {"p": {"url": {"port": 70000}}}})]}, "is not a port"),
        ({"rules": [rule("a", "deny", when={"arguments": {"p": {"url": {"port": True}}}})]}, "is not a port"),
        ({"rules": [rule("a", "deny", when={"arguments": {"p": {"url": {"hosts": "x"}}}})]}, "did you mean 'host'?"),
    ],
)
def test_a_mistake_is_told_with_its_place(written: dict[str, Any], problem: str):
    assert problem in problems(written)


def test_all_mistakes_are_told_at_once():
    told = problems({"rules": [rule("a", "forbid"), rule("b", "deny", when={"tol": "x"})], "moed": ""})

    assert "forbid" in told
    assert "tol" in told
    assert "moed" in told


@pytest.mark.parametrize("name", ["Assistant", "ASSISTANT", " assistant "])
def test_modes_are_read_without_regard_to_case(name: str):
    assert settings({"mode": name}).in_force()["shell"] is Ruling.ASK


def test_defaults_stand_above_the_mode():
    made = settings({"mode": "assistant", "defaults": {"shell": "deny", "x:rocket": "ask"}})

    assert made.in_force()["shell"] is Ruling.DENY
    assert made.in_force()["x:rocket"] is Ruling.ASK
    assert made.in_force()["messaging"] is Ruling.ALLOW


def test_one_value_or_several_may_be_written():
    one = settings({"rules": [rule("a", "deny", when={"tool": "a:tool/x"})]})
    several = settings({"rules": [rule("a", "deny", when={"tool": ["a:tool/x"]})]})

    assert one == several
