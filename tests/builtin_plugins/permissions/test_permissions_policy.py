"""The algebra: deny before ask before allow, whatever the order; nothing that is added loosens."""

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, strategies as st
from permitting import TOOL, answer, call, policy, rule, ruling
from pluggent_hookspecs import Allow, Ask, Deny, Effect, Scope
from pluggent_permissions.settings import OPERATIONS, OTHER, PURE, UNDECLARED, Ruling

RANK = {None: 0, "allow": 1, "ask": 2, "deny": 3}
ALLOW, ASK, DENY = rule("a", "allow"), rule("b", "ask"), rule("c", "deny")


@pytest.mark.parametrize(
    ("rules", "default", "expected"),
    [
        ([], None, None),
        ([ALLOW], None, "allow"),
        ([ALLOW, ASK], None, "ask"),
        ([ALLOW, ASK, DENY], None, "deny"),
        ([], "deny", "deny"),
        ([], "ask", "ask"),
        ([], "allow", "allow"),
        ([ALLOW], "deny", "allow"),
        ([ALLOW], "ask", "allow"),
        # An ask rule makes nothing milder: what a default denies stays denied, unless it is allowed.
        ([ASK], "deny", "deny"),
        ([ASK, ALLOW], "deny", "ask"),
        ([DENY], "allow", "deny"),
        ([ASK], "allow", "ask"),
        ([DENY], "ask", "deny"),
    ],
)
def test_the_strictest_counts_and_allow_lifts_the_default(rules: list[Any], default: str | None, expected: str | None):
    written = {"rules": rules, "defaults": {PURE: default} if default else {}}

    assert ruling(written) == expected
    assert ruling({**written, "rules": rules[::-1]}) == expected


def test_every_rule_that_applies_is_named_and_every_reason_told():
    rules = [
        rule("z", "deny", tell_user="not on Sundays", tell_model="come back on Monday"),
        rule("b", "deny"),
        rule("a", "deny", tell_model="come back on Monday", ends_turn=True),
        rule("ask", "ask"),
    ]

    said = answer({"rules": rules, "defaults": {PURE: "deny"}})

    assert [each.id for each in said.rules] == ["a", "b", "z", "ask"]
    assert said.decision(TOOL) == Deny(
        "come back on Monday",
        tell_user=f"not on Sundays (rule 'z'); {TOOL} is denied (rule 'a', rule 'b', default for pure)",
        ends_turn=True,
    )


def test_ask_and_allow_say_who_said_so():
    assert answer({"rules": [rule("q", "ask", tell_user="sure?")]}).decision(TOOL) == Ask("sure? (rule 'q')")
    assert answer({"rules": [rule("q", "ask")]}).decision(TOOL) == Ask(f"{TOOL} needs a person's approval (rule 'q')")
    assert answer({"rules": [ALLOW, rule("a2", "allow")]}).decision(TOOL) == Allow("rule 'a', rule 'a2'")
    assert answer({"defaults": {PURE: "allow"}}).decision(TOOL) == Allow("default for pure")
    assert answer({}).decision(TOOL) is None


# ---- effects


@pytest.mark.parametrize(
    ("wanted", "effects", "forbidden", "permitted"),
    [
        ("shell", ["shell"], True, True),
        ("shell", ["shell", "network_read"], True, False),
        (["shell", "network_read"], ["shell", "network_read"], True, True),
        ("shell", ["network_read"], False, False),
        ("shell", [], False, False),
        ("pure", [], True, True),
        ("pure", ["shell"], False, False),
        # What is not declared may be anything.
        ("shell", None, True, False),
        ("undeclared", None, True, True),
        ("undeclared", [], False, False),
        ("x:*", ["x:rocket"], True, True),
        ("x:*", ["x:rocket", "shell"], True, False),
    ],
)
def test_effects_forbid_by_one_and_permit_by_all(wanted: Any, effects: Any, forbidden: bool, permitted: bool):
    when = {"effects": wanted}

    assert (ruling({"rules": [rule("d", "deny", when=when)]}, call(effects=effects)) == "deny") is forbidden
    assert (ruling({"rules": [rule("a", "allow", when=when)]}, call(effects=effects)) == "allow") is permitted


@pytest.mark.parametrize(
    ("defaults", "effects", "expected"),
    [
        ({"shell": "deny", "network_read": "allow"}, ["shell", "network_read"], "deny"),
        ({"shell": "ask", "network_read": "allow"}, ["shell", "network_read"], "ask"),
        ({"network_read": "allow"}, ["network_read"], "allow"),
        ({"network_read": "allow"}, ["network_read", "shell"], None),
        ({"other": "deny", "network_read": "allow"}, ["network_read", "shell"], "deny"),
        ({"other": "deny", "network_read": "allow"}, ["x:rocket"], "deny"),
        ({"other": "deny"}, [], None),
        ({"pure": "deny"}, [], "deny"),
        ({"undeclared": "allow"}, None, "allow"),
        # Not declared and no default of its own: as strict as the strictest.
        ({"shell": "deny", "network_read": "allow"}, None, "deny"),
        ({"shell": "ask", "pure": "deny", "memory_read": "deny"}, None, "ask"),
        ({"shell": "allow"}, None, None),
        ({}, None, None),
    ],
)
def test_the_strictest_default_of_all_effects_counts(defaults: Any, effects: Any, expected: str | None):
    assert ruling({"defaults": defaults}, call(effects=effects)) == expected


# ---- exceptions


def test_an_exception_to_a_deny_has_to_hold_for_sure():
    only_ours = rule("d", "deny", unless={"arguments": {"url": {"url": {"host": "*.good.example"}}}})

    assert ruling({"rules": [only_ours]}, call(url="https://a.good.example/")) is None
    for url in (
        "https://evil.example",
        "https://a.good.example@evil.example",
        None,
        ["https://a.good.example", "x"],
        5,
    ):
        assert ruling({"rules": [only_ours]}, call(url=url)) == "deny"
    assert ruling({"rules": [only_ours]}, call()) == "deny"


def test_an_exception_to_an_allow_holds_in_doubt():
    but_not = rule("a", "allow", unless={"arguments": {"city": {"glob": "Atlantis*"}}})

    assert ruling({"rules": [but_not]}, call(city="Oslo")) == "allow"
    for city in ("ATLANTIS city", None, ["Oslo", "Atlantis"], {"name": "Oslo"}):
        assert ruling({"rules": [but_not]}, call(city=city)) is None
    assert ruling({"rules": [but_not]}, call()) is None


def test_an_exception_for_a_tool_or_an_effect_holds_for_that_alone():
    rules = [rule("d", "deny", when={"tool": "*"}, unless={"tool": "acme:tool/*", "effects": "pure"})]

    assert ruling({"rules": rules}, call("acme:tool/x")) is None
    assert ruling({"rules": rules}, call("acme:tool/x", effects=["shell"])) == "deny"
    assert ruling({"rules": rules}, call("other:tool/x")) == "deny"


# ---- tools


@pytest.mark.parametrize(
    ("pattern", "capability", "matches"),
    [
        ("acme:tool/x", "acme:tool/x", True),
        ("acme:tool/x", "acme:tool/xy", False),
        ("acme:tool/x", "other:tool/x", False),
        ("acme:tool/*", "acme:tool/new", True),
        ("acme:*", "acme-b:tool/x", False),
        ("*mail*", "acme:tool/send_mail", True),
        ("*mail*", "mail:tool/x", False),
        ("short", "acme:tool/short", True),
        ("short", "other:tool/short", False),
        ("*", "app:tools:tool/x", True),
        ("app:tools:tool/x", "app:tools:tool/x", True),
        ("app:*", "app:tools:tool/x", True),
        ("x", "app:tools:tool/x", False),
    ],
)
def test_tools_are_named_by_id_short_name_and_pattern(pattern: str, capability: str, matches: bool):
    made = policy({"rules": [rule("d", "deny", when={"tool": pattern})]}, short=["acme:tool/short"])

    assert (made.of_tool_call(call(capability)).ruling is Ruling.DENY) is matches


@pytest.mark.parametrize("reverse", [False, True])
def test_the_memory_for_tools_does_not_mix_them_up(reverse: bool):
    made = policy({"rules": [rule("d", "deny", when={"effects": "shell"})]})
    calls = [call(f"acme:tool/t{n}", effects=["shell"] if n % 2 else []) for n in range(5000)]

    found = [made.of_tool_call(each).ruling for each in (reversed(calls) if reverse else calls)]

    assert found.count(Ruling.DENY) == 2500
    assert made.of_tool_call(call("acme:tool/t1", effects=[])).ruling is None


# ---- where it happens


@pytest.mark.parametrize(
    ("condition", "scope", "forbidden", "permitted"),
    [
        ({"agent": "research"}, Scope(agent="research"), True, True),
        ({"agent": "research"}, Scope(agent="Research"), True, False),
        ({"agent": "research"}, Scope(), False, False),
        ({"agent": ""}, Scope(), True, True),
        ({"channel": "tele*"}, Scope(channel="telegram"), True, True),
        ({"chat": "42"}, Scope(chat_id="42"), True, True),
        ({"session": "s1"}, Scope(session_id="s1"), True, True),
        ({"origin": ["cli", "api"]}, Scope(origin="api"), True, True),
        ({"origin": "tool"}, Scope(origin="cli"), False, False),
        ({"origin": "api"}, Scope(caller="application"), True, True),
        ({"caller": "application"}, Scope(caller="application"), True, True),
        ({"caller": "application"}, Scope(), False, False),
        ({"caller": "model"}, Scope(), True, True),
        ({"principal": "bob"}, Scope(principal="bob"), True, True),
        ({"principal": "bob"}, Scope(principal="eve"), False, False),
        ({"principal": "bob"}, Scope(principal="b\u200bob"), True, False),
        # Without a principal, any user may be asking.
        ({"principal": "bob"}, Scope(), True, False),
        ({"principal": "*"}, Scope(), True, False),
        ({"agent": "research", "origin": "cli"}, Scope(agent="research", origin="api"), False, False),
    ],
)
def test_where_and_who_are_conditions_too(condition: Any, scope: Scope, forbidden: bool, permitted: bool):
    event = call(scope=scope)

    assert (ruling({"rules": [rule("d", "deny", when=condition)]}, event) == "deny") is forbidden
    assert (ruling({"rules": [rule("a", "allow", when=condition)]}, event) == "allow") is permitted


def test_a_condition_that_cannot_be_evaluated_forbids_and_permits_nothing():
    hostile = Scope(agent="\u0301\u0316" * 1000)  # takes quadratic time to sort, so it is not sorted

    assert ruling({"rules": [rule("d", "deny", when={"agent": "research"})]}, call(scope=hostile)) == "deny"
    assert ruling({"rules": [rule("d", "ask", when={"agent": "research"})]}, call(scope=hostile)) == "ask"
    assert (
        ruling({"rules": [rule("a", "allow", when={"tool": "*"}, unless={"agent": "x"})]}, call(scope=hostile)) is None
    )
    assert (
        ruling({"rules": [rule("d", "deny", when={"tool": "*"}, unless={"agent": "x"})]}, call(scope=hostile)) == "deny"
    )


# ---- properties


values = st.sampled_from(["x", "X", "y", 5, None, True, ["x", "y"], [], {"b": "x"}, "x\u200b", "http://a@evil.example"])
events = st.builds(
    lambda arguments, effects, agent, principal: call(
        effects=effects, scope=Scope(agent=agent, principal=principal, workspace="/"), **arguments
    ),
    st.dictionaries(st.sampled_from(["a", "b"]), values),
    st.none() | st.sets(st.sampled_from(["shell", "network_read", "x:own"])),
    st.sampled_from(["", "one"]),
    st.sampled_from(["", "bob"]),
)
tests = st.sampled_from(
    [
        {"glob": "x*"}, {"equals": "x"}, {"regex": "x|y"}, {"gt": 3}, {"inside": "/etc"},
        {"glob": "y", "optional": True},
        {"url": {"host": "evil.example"}}, {"host": {"address": "internal"}},
    ]
)  # fmt: skip
conditions = st.fixed_dictionaries(
    {},
    optional={
        "tool": st.sampled_from([TOOL, "*", "other:tool/*"]),
        "effects": st.sampled_from(["shell", "pure", "undeclared", ["network_read", "x:*"]]),
        "arguments": st.dictionaries(st.sampled_from(["a", "b", "a.b", "*", "**"]), tests, min_size=1, max_size=2),
        "agent": st.sampled_from(["one", ""]),
        "principal": st.just("bob"),
    },
)
drafts = st.fixed_dictionaries(
    {"decision": st.sampled_from(["deny", "ask", "allow"]), "when": conditions, "unless": conditions}
).filter(lambda draft: draft["when"] or draft["unless"])
rule_sets = st.lists(drafts, max_size=6).map(lambda found: [{**draft, "id": f"r{n}"} for n, draft in enumerate(found)])
has_default = [*map(str, Effect), PURE, UNDECLARED, OTHER, "x:own", *OPERATIONS]
defaults = st.dictionaries(st.sampled_from(has_default), st.sampled_from(["deny", "ask", "allow"]), max_size=4)


def alone(one: Mapping[str, Any], event: Any) -> bool:
    return bool(answer({"rules": [one]}, event).rules)


@given(rule_sets, defaults, events)
def test_random_rules_obey_the_algebra(rules: Any, by_default: Any, event: Any):
    said = answer({"rules": rules, "defaults": by_default}, event)

    applying = [one for one in rules if alone(one, event)]
    standing = None if any(one["decision"] == "allow" for one in applying) else ruling({"defaults": by_default}, event)
    wanted = max([*(one["decision"] for one in applying), standing], key=lambda each: RANK[each], default=None)
    assert said.ruling == wanted
    assert {each.id for each in said.rules} == {one["id"] for one in applying}


@given(rule_sets, defaults, events, st.randoms())
def test_order_never_matters(rules: Any, by_default: Any, event: Any, chance: Any):
    turned = list(rules)
    chance.shuffle(turned)

    assert answer({"rules": rules, "defaults": by_default}, event) == answer(
        {"rules": turned, "defaults": by_default}, event
    )


@given(rule_sets, defaults, events, drafts)
def test_a_further_deny_or_ask_never_makes_the_answer_milder(rules: Any, by_default: Any, event: Any, more: Any):
    before = ruling({"rules": rules, "defaults": by_default}, event)

    for decision in ("deny", "ask"):
        added = [*rules, {**more, "id": "more", "decision": decision}]
        assert RANK[ruling({"rules": added, "defaults": by_default}, event)] >= RANK[before]


nothing_optional = conditions.filter(lambda found: bool(found) and "optional" not in str(found))


@given(nothing_optional, events)
def test_what_a_rule_permits_the_same_rule_would_forbid(when: Any, event: Any):
    if ruling({"rules": [rule("a", "allow", when=when)]}, event) == "allow":
        assert ruling({"rules": [rule("d", "deny", when=when)]}, event) == "deny"


@given(nothing_optional, events)
def test_an_exception_never_reaches_further_than_its_opposite(unless: Any, event: Any):
    everything = {"tool": "*"}

    excepted_from_deny = ruling({"rules": [rule("d", "deny", when=everything, unless=unless)]}, event) is None
    excepted_from_allow = ruling({"rules": [rule("a", "allow", when=everything, unless=unless)]}, event) is None

    assert excepted_from_allow or not excepted_from_deny
