"""Versions and specifiers, compared with what packaging says of them."""

import re

import pytest
from each_of import each_of
from hypothesis import example, given, strategies as st
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from pluggent_plugin_loader.catalog import version_fits

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


@each_of("specifier", ["nonsense", ">=", "1.0", "=>1"])
def test_what_is_not_a_specifier_is_a_value_error(specifier: str) -> None:
    with pytest.raises(ValueError, match=re.escape(specifier)):
        version_fits("1.0", specifier)
