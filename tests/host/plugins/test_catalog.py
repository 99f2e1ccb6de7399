"""What things are called, what may run, and what is said of the rest."""

import re
from collections.abc import Mapping
from random import Random

import pytest
from hypothesis import example, given, strategies as st
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from pluggent_hookspecs import ConfigError, NameTaken, PluginIncompatible
from pluggent_host.common.names import plugin_of
from pluggent_host.plugins.catalog import Catalog, PluginRecord, catalog, tool_names, version_fits
from pluggent_host.plugins.discovery import GROUPS, Discovery, Distribution, EntryPoint, Problem
from pluggent_host.settings import NOTHING, Selection

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


# ---- states


def test_everything_is_available_unless_something_is_said() -> None:
    found = of(dist("zed", "tools/x"), dist("acme", "provider/b", "memory/a"))

    assert [record.capability for record in found.records] == ["acme:memory/a", "acme:provider/b", "zed:tools/x"]
    assert set(states(found).values()) == {"available"}
    assert found.available("memory") == found.by_kind("memory") == found.records[:1]


def test_a_blocked_plugin_is_blocked_in_every_mode() -> None:
    for mode in ("all", "allow", "safe"):
        chosen = Selection(mode=mode, allow=("acme", "pluggent-openai"), block=("Acme", "pluggent-openai"))
        found = of(dist("acme", "tools/x"), dist("pluggent-openai", "provider/openai"), selection=chosen)
        assert set(states(found).values()) == {"blocked"}


def test_allow_runs_what_is_listed_in_the_version_that_is_listed() -> None:
    chosen = Selection(mode="allow", allow=("acme", "bolt==2.0", "crate == 1.0"))

    found = of(
        dist("acme", "tools/x"),
        dist("bolt", "tools/y"),
        dist("crate", "tools/z"),
        dist("dab", "tools/w"),
        selection=chosen,
    )

    assert states(found) == {"acme": "available", "bolt": "disallowed", "crate": "available", "dab": "disallowed"}
    assert found.records[1].reason == "[selection] allow does not list bolt 1.0"
    assert found.records[1].mend == 'add "bolt" to [selection] allow'


def test_safe_runs_built_ins_and_what_is_required() -> None:
    installed = (
        dist("pluggent-offline", "provider/offline"),
        dist("pluggent-guard", "hooks/guard"),
        dist("a", "hooks/a"),
    )

    safe = Selection(mode="safe")

    assert states(of(*installed, selection=safe)) == {
        "a": "disallowed",
        "pluggent-guard": "disallowed",
        "pluggent-offline": "available",
    }
    assert states(of(*installed, selection=safe, required=("a",)))["a"] == "available"


def test_a_plugin_for_another_contract_is_incompatible_unless_a_developer_insists() -> None:
    new = dist("acme", "tools/x", contract=">=0.2,<0.3")

    (record,) = of(new).records

    assert record.state == "incompatible"
    assert record.reason == "needs pluggent-hookspecs >=0.2,<0.3, this host has 0.1.0"
    assert states(of(new, selection=Selection(any_version=True))) == {"acme": "available"}


def test_a_requirement_that_cannot_be_read_is_incompatible() -> None:
    assert states(of(dist("acme", "tools/x", contract=">=whatever"))) == {"acme": "incompatible"}


def test_a_shadowed_copy_is_listed_and_never_found() -> None:
    first, second = dist("acme", "tools/x"), dist("acme", "tools/x", version="2.0", shadowed_by="/other")

    found = of(first, second)

    assert [record.state for record in found.records] == ["available", "shadowed"]
    assert found.find("tools", "x").version == "1.0"


def test_every_unknown_name_is_told_at_once_with_the_nearest() -> None:
    chosen = Selection(allow=("acme-tool",), block=("nobody", "acme-tools==what ever"))

    with pytest.raises(ConfigError) as caught:
        of(dist("acme-tools", "tools/x"), selection=chosen, aliases={"tool/x": "acmetools"})

    assert caught.value.problems == (
        "allow: no plugin 'acme-tool' is installed; did you mean 'acme-tools'?",
        "block: no plugin 'nobody' is installed",
        "block: 'acme-tools==what ever' has no proper version after ==",
        "aliases: no plugin 'acmetools' is installed; did you mean 'acme-tools'?",
    )


def test_what_is_blocked_is_no_reason_to_stop() -> None:
    twice = Problem("/site/acme", "is installed twice", "acme", fatal=True)
    other = Problem("/site/x", "is damaged", fatal=True)
    discovery = Discovery((dist("acme", "hooks/x"),), (twice, other))

    found = catalog(discovery, Selection(block=("acme",)), "0.1.0")

    assert [problem.fatal for problem in found.problems] == [False, True]


# ---- names


@pytest.mark.parametrize("name", ["foo", "acme", "Acme", "acme:provider/foo"])
def test_a_capability_is_found_by_entry_name_plugin_id_and_full_id(name: str) -> None:
    found = of(dist("acme", "provider/foo", "tools/foo"), dist("bolt", "provider/bar"))

    assert found.find("provider", name).capability == "acme:provider/foo"


def test_a_name_that_two_claim_means_neither() -> None:
    found = of(dist("acme", "provider/foo"), dist("bolt", "provider/foo", version="2.0"))

    with pytest.raises(NameTaken) as caught:
        found.find("provider", "foo")

    assert str(caught.value) == (
        "plugin 'acme' (acme 1.0) offers acme:provider/foo, and 'foo' also means bolt:provider/foo (bolt 2.0), "
        'so it means neither. Say which under [aliases]: "provider/foo" = "acme" or "provider/foo" = "bolt"; '
        "or write acme:provider/foo"
    )
    assert found.find("provider", "acme").id == "acme", "the plugins stay usable"
    assert found.find("provider", "bolt:provider/foo").id == "bolt"


def test_an_alias_settles_whose_a_name_is() -> None:
    both = dist("acme", "provider/foo"), dist("bolt", "provider/foo")

    assert of(*both, aliases={"provider/foo": "Bolt"}).find("provider", "foo").id == "bolt"


def test_an_alias_to_a_plugin_without_that_capability_says_so() -> None:
    found = of(dist("acme", "tools/x"), dist("bolt", "provider/foo"), aliases={"provider/foo": "acme"})

    with pytest.raises(ConfigError, match="that plugin offers no provider 'foo'"):
        found.find("provider", "foo")


def test_a_first_party_plugin_keeps_its_name() -> None:
    found = of(dist("aaa", "provider/openai"), dist("pluggent-openai", "provider/openai"))

    assert found.find("provider", "openai").id == "pluggent-openai"


def test_blocking_the_first_party_hands_its_name_to_nobody() -> None:
    both = dist("aaa", "provider/openai"), dist("pluggent-openai", "provider/openai")
    chosen = Selection(block=("pluggent-openai",))

    with pytest.raises(ConfigError, match="pluggent-openai:provider/openai is blocked"):
        of(*both, selection=chosen).find("provider", "openai")

    assert of(*both, selection=chosen, aliases={"provider/openai": "aaa"}).find("provider", "openai").id == "aaa"


def test_an_entry_named_like_another_plugin_cannot_take_its_place() -> None:
    found = of(dist("acme", "provider/foo"), dist("evil", "provider/acme"))

    with pytest.raises(NameTaken, match="Write evil:provider/acme or acme:provider/foo"):
        found.find("provider", "acme")


def test_an_entry_named_like_its_own_plugin_is_meant_first() -> None:
    found = of(dist("acme", "provider/acme", "provider/foo"))

    assert found.find("provider", "acme").capability == "acme:provider/acme"


def test_a_plugin_with_two_entries_is_not_one_capability() -> None:
    with pytest.raises(NameTaken, match="Write acme:provider/a or acme:provider/b"):
        of(dist("acme", "provider/a", "provider/b")).find("provider", "acme")


def test_an_unknown_name_is_answered_with_the_nearest_and_what_there_is() -> None:
    with pytest.raises(ConfigError) as caught:
        of(dist("acme", "provider/openai")).find("provider", "opnai")

    assert str(caught.value) == (
        "provider 'opnai': no installed plugin offers it; did you mean 'openai'? Installed: openai"
    )


def test_a_name_that_may_not_run_says_why_and_what_to_do() -> None:
    blocked = of(dist("acme", "provider/foo"), selection=Selection(block=("acme",)))
    old = of(dist("acme", "provider/foo", contract="<0.1"))

    with pytest.raises(ConfigError, match=r"blocked by \[selection\] block. To use it, take 'acme' out"):
        blocked.find("provider", "foo")
    with pytest.raises(PluginIncompatible, match="pip install --upgrade acme"):
        old.find("provider", "foo")


def test_what_may_not_run_does_not_contest_a_name() -> None:
    found = of(dist("acme", "provider/foo"), dist("bolt", "provider/foo"), selection=Selection(block=("bolt",)))

    assert found.find("provider", "foo").id == "acme"


def test_records_change_state_by_making_new_ones() -> None:
    (record,) = of(dist("acme", "provider/foo")).records

    assert isinstance(record._replace(state="active"), PluginRecord)
    assert record.state == "available"


# ---- names for the model


def test_unique_tools_keep_their_short_names() -> None:
    tools = [("acme:tool/search", "search"), ("bolt:tool/read", "read")]

    assert tool_names(tools) == {"read": "bolt:tool/read", "search": "acme:tool/search"}


def test_a_name_that_two_tools_claim_is_qualified_for_both() -> None:
    tools = [("acme-tools:tool/search", "search"), ("bolt:tool/search", "search")]

    assert tool_names(tools) == {
        "acme_tools_search": "acme-tools:tool/search",
        "bolt_search": "bolt:tool/search",
    }


@pytest.mark.parametrize("owner", ["pluggent-weather", "app:mine"])
def test_first_party_and_application_tools_keep_a_contested_name(owner: str) -> None:
    names = tool_names(
        [("aaa:tool/forecast", "forecast"), (f"{owner}:tool/forecast", "forecast")], NOTHING, FIRST_PARTY
    )

    assert names == {"aaa_forecast": "aaa:tool/forecast", "forecast": f"{owner}:tool/forecast"}


def test_an_alias_gives_the_short_name_and_reserves_it() -> None:
    tools = [("acme:tool/search", "search"), ("bolt:tool/search", "search")]
    aliases = {"tool/search": "bolt"}

    assert tool_names(tools, aliases) == {"acme_search": "acme:tool/search", "search": "bolt:tool/search"}
    assert tool_names(tools[:1], aliases) == {"acme_search": "acme:tool/search"}


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


# ---- versions

NUMBERS = st.lists(st.integers(0, 3), min_size=1, max_size=4).map(lambda parts: ".".join(map(str, parts)))
VERSIONS = st.tuples(NUMBERS, st.sampled_from(["", "", "a1", "b2", "rc1", "rc2", "rc10"])).map("".join)
RARE = st.tuples(NUMBERS, st.sampled_from([".dev1", ".post1", "+local", "-1", "alpha1", "rc1.post2"])).map("".join)
OPERATORS = st.sampled_from(["==", "!=", ">=", "<=", "<", ">", "~="])
CLAUSES = st.one_of(
    st.tuples(OPERATORS, st.one_of(VERSIONS, RARE)).map("".join),
    st.tuples(st.sampled_from(["==", "!="]), VERSIONS.map(lambda text: f"{text}.*")).map("".join),
)


@given(st.one_of(VERSIONS, RARE), st.lists(CLAUSES, max_size=3).map(", ".join))
@example("0.2rc1", "<0.2")
@example("0.2rc1", "<0.2rc2")
@example("1", "==1.0.*")
@example("1.0", "~=1.0rc1")
def test_versions_compare_as_packaging_compares_them(version: str, specifier: str) -> None:
    try:
        expected = SpecifierSet(specifier).contains(version, prereleases=True)
    except InvalidSpecifier:
        with pytest.raises(ValueError, match="Invalid"):
            version_fits(version, specifier)
    else:
        assert version_fits(version, specifier) == expected


@pytest.mark.parametrize("specifier", ["nonsense", ">=", "1.0", "=>1"])
def test_what_is_no_specifier_is_a_value_error(specifier: str) -> None:
    with pytest.raises(ValueError, match=re.escape(specifier)):
        version_fits("1.0", specifier)
