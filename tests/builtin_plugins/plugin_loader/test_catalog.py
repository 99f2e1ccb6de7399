"""Ids, states, selection, short names and aliases of what is installed."""

import re
from collections.abc import Mapping
from random import Random
from typing import Any

import pytest
from each_of import each_of
from hypothesis import given, strategies as st
from pluggent_hookspecs import ConfigError, NameTaken, PluginIncompatible
from pluggent_plugin_loader.catalog import Catalog, PluginRecord, catalog, tool_names
from pluggent_plugin_loader.discovery import Discovery, Distribution
from pluggent_plugin_loader.entry_points import GROUPS, EntryPoint, Problem
from pluggent_plugin_loader.names import plugin_of
from pluggent_plugin_loader.settings import NOTHING, Selection

FIRST_PARTY: Mapping[str, str] = {
    "pluggent-guard": "sample",
    "pluggent-offline": "builtin",
    "pluggent-openai": "builtin",
    "pluggent-weather": "sample",
}
GROUP_OF = {kind: group for group, kind in GROUPS.items()}
EVERYTHING = Selection()


def dist(name: str, *entries: str, version: str = "1.0", contract: str = "", shadowed_by: str = "") -> Distribution:
    points = tuple(
        EntryPoint(GROUP_OF[kind], entry, "m:f") for kind, _, entry in (each.partition("/") for each in entries)
    )
    return Distribution(name, name, version, f"/site/{name}-{version}.dist-info", points, contract, "", shadowed_by)


def of(
    *distributions: Distribution,
    selection: Selection = EVERYTHING,
    contract: str = "0.1.0",
    aliases: Mapping[str, str] = NOTHING,
    required: tuple[str, ...] = (),
) -> Catalog:
    found = Discovery(distributions, first_party=FIRST_PARTY)
    return catalog(found, selection, contract, aliases=aliases, required=required)


def states(found: Catalog) -> dict[str, str]:
    return {record.id: record.state for record in found.records}


def refusal(found: Catalog, name: str) -> str:
    with pytest.raises((ConfigError, NameTaken, PluginIncompatible)) as caught:
        found.find("provider", name)
    return f"{type(caught.value).__name__}: {caught.value}"


def test_everything_is_available_unless_something_else_is_configured() -> None:
    found = of(dist("zed", "tools/x"), dist("acme", "provider/b", "memory/a"))

    assert [record.capability for record in found.records] == ["acme:memory/a", "acme:provider/b", "zed:tools/x"]
    assert set(states(found).values()) == {"available"}
    assert found.available("memory") == found.by_kind("memory") == found.records[:1]


INSTALLED = (
    dist("acme", "tools/x"),
    dist("bolt", "tools/y"),
    dist("crate", "tools/z"),
    dist("pluggent-guard", "hooks/guard"),
    dist("pluggent-offline", "provider/offline"),
)


@each_of(
    ("selection", "required", "runs"),
    [
        (Selection(mode="allow", allow=("acme", "bolt==2.0", "crate == 1.0")), (), {"acme", "crate"}),
        (Selection(mode="safe"), (), {"pluggent-offline"}),
        (Selection(mode="safe"), ("acme",), {"acme", "pluggent-offline"}),
    ],
)
def test_a_mode_runs_what_it_lists_what_is_built_in_or_what_is_required(
    selection: Selection, required: tuple[str, ...], runs: set[str]
) -> None:
    found = of(*INSTALLED, selection=selection, required=required)

    assert states(found) == {item.name: "available" if item.name in runs else "disallowed" for item in INSTALLED}


def test_what_is_not_on_the_allow_list_is_named_with_its_version() -> None:
    record = of(*INSTALLED, selection=Selection(mode="allow", allow=("bolt==2.0",))).records[1]

    assert record.reason == "[selection] allow does not list bolt 1.0"
    assert record.mend == 'add "bolt" to [selection] allow'


@each_of("mode", ["all", "allow", "safe"])
def test_a_blocked_plugin_is_blocked_in_every_mode(mode: Any) -> None:
    chosen = Selection(mode=mode, allow=("acme", "pluggent-offline"), block=("Acme", "pluggent-offline"))

    found = states(of(*INSTALLED, selection=chosen))

    assert (found["acme"], found["pluggent-offline"]) == ("blocked", "blocked")


def test_a_plugin_for_another_contract_is_incompatible_unless_a_developer_insists() -> None:
    new = dist("acme", "tools/x", contract=">=0.2,<0.3")

    (record,) = of(new).records

    assert record.state == "incompatible"
    assert record.reason == "needs pluggent-hookspecs >=0.2,<0.3, this host has 0.1.0"
    assert states(of(new, selection=Selection(any_version=True))) == {"acme": "available"}
    assert states(of(dist("acme", "tools/x", contract=">=whatever"))) == {"acme": "incompatible"}


@pytest.mark.parametrize(
    ("contract", "upgrade"),
    [
        (">=0.2,<0.3", "pluggent"), (">0.1.0", "pluggent"), ("==0.2.*", "pluggent"), ("~=1.0", "pluggent"),
        ("<0.1", "acme"), ("==0.0.*", "acme"), ("~=0.0.5", "acme"), (">=0.0.1, <0.1", "acme"), ("!=0.1.0", "acme"),
    ],
)  # fmt: skip
def test_what_is_to_be_upgraded_is_the_one_that_is_too_old(contract: str, upgrade: str) -> None:
    installed = dist("acme", "tools/x", contract=contract)

    with_root, host_alone = of(installed), catalog(Discovery((installed,)), EVERYTHING, "0.1.0")

    assert with_root.records[0].mend == f"pip install --upgrade {upgrade}"
    assert host_alone.records[0].mend == with_root.records[0].mend.replace("pluggent", "pluggent-host")


def test_a_shadowed_copy_is_listed_and_never_found() -> None:
    first, second = dist("acme", "tools/x"), dist("acme", "tools/x", version="2.0", shadowed_by="/other")

    found = of(first, second)

    assert [record.state for record in found.records] == ["available", "shadowed"]
    assert found.find("tools", "x").version == "1.0"


def test_every_unknown_name_is_named_at_once_with_the_nearest() -> None:
    chosen = Selection(allow=("acme-tool",), block=("absent", "acme-tools==what ever"))

    with pytest.raises(ConfigError) as caught:
        of(dist("acme-tools", "tools/x"), selection=chosen, aliases={"tool/x": "acmetools"})

    assert caught.value.problems == (
        "allow: no plugin 'acme-tool' is installed; did you mean 'acme-tools'?",
        "block: no plugin 'absent' is installed",
        "block: 'acme-tools==what ever' has no proper version after ==",
        "aliases: no plugin 'acmetools' is installed; did you mean 'acme-tools'?",
    )


def test_what_is_blocked_is_no_reason_to_stop() -> None:
    twice = Problem("/site/acme", "is installed twice", "acme", fatal=True)
    other = Problem("/site/x", "is damaged", fatal=True)
    discovery = Discovery((dist("acme", "hooks/x"),), (twice, other))

    found = catalog(discovery, Selection(block=("acme",)), "0.1.0")

    assert [problem.fatal for problem in found.problems] == [False, True]


FOO = dist("acme", "provider/foo")
OTHER_FOO = dist("bolt", "provider/foo", version="2.0")
OPENAI = dist("aaa", "provider/openai"), dist("pluggent-openai", "provider/openai")
NO_FIRST_PARTY = Selection(block=("pluggent-openai",))


@each_of(
    ("found", "name", "capability"),
    [
        *((of(dist("acme", "provider/foo", "tools/foo"), dist("bolt", "provider/bar")), name, "acme:provider/foo")
          for name in ("foo", "acme", "Acme", "acme:provider/foo")),
        (of(FOO, OTHER_FOO), "acme", "acme:provider/foo"),  # the plugins stay usable
        (of(FOO, OTHER_FOO), "bolt:provider/foo", "bolt:provider/foo"),
        (of(FOO, OTHER_FOO, aliases={"provider/foo": "Bolt"}), "foo", "bolt:provider/foo"),
        (of(FOO, OTHER_FOO, selection=Selection(block=("bolt",))), "foo", "acme:provider/foo"),
        (of(*OPENAI), "openai", "pluggent-openai:provider/openai"),
        (of(*OPENAI, selection=NO_FIRST_PARTY, aliases={"provider/openai": "aaa"}), "openai", "aaa:provider/openai"),
        (of(dist("acme", "provider/acme", "provider/foo")), "acme", "acme:provider/acme"),  # its own, first
    ],
)  # fmt: skip
def test_a_capability_is_found_by_entry_name_plugin_id_and_full_id(found: Catalog, name: str, capability: str) -> None:
    assert found.find("provider", name).capability == capability


@each_of(
    ("found", "name", "says"),
    [
        (of(dist("acme", "tools/x"), OTHER_FOO, aliases={"provider/foo": "acme"}), "foo",
         "ConfigError: .*that plugin offers no provider 'foo'"),
        (of(*OPENAI, selection=NO_FIRST_PARTY), "openai", "ConfigError: .*pluggent-openai:provider/openai is blocked"),
        (of(FOO, dist("evil", "provider/acme")), "acme", "NameTaken: .*Write evil:provider/acme or acme:provider/foo"),
        (of(dist("acme", "provider/a", "provider/b")), "acme", "NameTaken: .*Write acme:provider/a or acme:provider/b"),
        (of(FOO, selection=Selection(block=("acme",))), "foo",
         r"ConfigError: .*blocked by \[selection\] block. To use it, take 'acme' out"),
        (of(dist("acme", "provider/foo", contract="<0.1")), "foo",
         "PluginIncompatible: .*pip install --upgrade acme"),
        (of(dist("acme", "provider/openai")), "opnai",
         r"ConfigError: provider 'opnai': no installed plugin offers it; did you mean 'openai'\? Installed: openai$"),
    ],
)  # fmt: skip
def test_a_name_that_means_nothing_that_may_run_is_an_error_with_what_to_do(
    found: Catalog, name: str, says: str
) -> None:
    assert re.match(says, refusal(found, name))


def test_a_name_that_two_claim_means_neither() -> None:
    assert refusal(of(FOO, OTHER_FOO), "foo") == (
        "NameTaken: plugin 'acme' (acme 1.0) offers acme:provider/foo, and 'foo' also means bolt:provider/foo "
        '(bolt 2.0), so it means neither. Say which under [aliases]: "provider/foo" = "acme" or "provider/foo" = '
        '"bolt"; or write acme:provider/foo'
    )


def test_records_change_state_by_making_new_ones() -> None:
    (record,) = of(FOO).records

    assert isinstance(record._replace(state="active"), PluginRecord)
    assert record.state == "available"


SEARCHES = [("acme-tools:tool/search", "search"), ("bolt:tool/search", "search")]


@each_of(
    ("tools", "aliases", "names"),
    [
        ([("acme:tool/search", "search"), ("bolt:tool/read", "read")], {},
         {"read": "bolt:tool/read", "search": "acme:tool/search"}),
        (SEARCHES, {}, {"acme_tools_search": "acme-tools:tool/search", "bolt_search": "bolt:tool/search"}),
        (SEARCHES, {"tool/search": "bolt"},
         {"acme_tools_search": "acme-tools:tool/search", "search": "bolt:tool/search"}),
        (SEARCHES[:1], {"tool/search": "bolt"}, {"acme_tools_search": "acme-tools:tool/search"}),
        *(([("aaa:tool/forecast", "forecast"), (f"{owner}:tool/forecast", "forecast")], {},
           {"aaa_forecast": "aaa:tool/forecast", "forecast": f"{owner}:tool/forecast"})
          for owner in ("pluggent-weather", "app:mine")),
    ],
)  # fmt: skip
def test_a_short_name_is_kept_where_it_is_unique_aliased_first_party_or_the_applications(
    tools: list[tuple[str, str]], aliases: Mapping[str, str], names: Mapping[str, str]
) -> None:
    assert tool_names(tools, aliases, FIRST_PARTY) == names


def test_a_tool_named_like_another_ones_qualified_name_takes_nothing_over() -> None:
    contested = [("acme:tool/search", "search"), ("bolt:tool/search", "search")]

    names = tool_names([*contested, ("evil:tool/acme_search", "acme_search")])

    assert "acme_search" not in names
    assert names["evil_acme_search"] == "evil:tool/acme_search"
    assert set(names.values()) == {"acme:tool/search", "bolt:tool/search", "evil:tool/acme_search"}


def test_long_names_end_in_a_hash() -> None:
    (name,) = tool_names([("acme:tool/x", "x" * 80)])

    assert len(name) == 64
    assert re.fullmatch(r"x{55}_[0-9a-f]{8}", name)


IDS = st.sampled_from(["acme", "acme-a", "b", "app:x", "pluggent-weather", "pluggent-guard", "a" * 70])
SHORTS = st.one_of(
    st.sampled_from(["search", "a_search", "acme_search", "acme_a_search", "b_a_search", "", "é", "x" * 70, "x" * 71]),
    st.text(max_size=4),
)
TOOLS = st.lists(st.tuples(IDS, SHORTS).map(lambda pair: (f"{pair[0]}:tool/{pair[1]}", pair[1])), max_size=8)


@given(TOOLS, st.randoms())
def test_every_tool_has_one_valid_name_whatever_the_order(tools: list[tuple[str, str]], random: Random) -> None:
    shuffled = list(tools)
    random.shuffle(shuffled)

    names = tool_names(tools, NOTHING, FIRST_PARTY)

    assert list(names.items()) == list(tool_names(shuffled, NOTHING, FIRST_PARTY).items())
    assert sorted(names.values()) == sorted({capability for capability, _ in tools})
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name) for name in names)


@given(TOOLS, st.tuples(st.sampled_from(["evil", "acme-evil", "b-a"]), SHORTS))
def test_one_more_third_party_tool_never_changes_what_a_name_means(
    tools: list[tuple[str, str]], added: tuple[str, str]
) -> None:
    before = tool_names(tools, NOTHING, FIRST_PARTY)

    after = tool_names([*tools, (f"{added[0]}:tool/{added[1]}", added[1])], NOTHING, FIRST_PARTY)

    assert {name: after[name] for name in before if name in after} == {
        name: before[name] for name in before if name in after
    }


def test_the_plugin_in_a_capability_id() -> None:
    ids = ["acme:tool/a:b", "acme", "app:x", "app:x:tool/a"]

    assert [plugin_of(id) for id in ids] == ["acme", "acme", "app:x", "app:x"]
