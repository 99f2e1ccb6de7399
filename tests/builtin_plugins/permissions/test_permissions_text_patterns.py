"""Patterns on texts, numbers and booleans: generous where they forbid, exact where they permit."""

import fnmatch
import unicodedata
from typing import Any

import pytest
from each_of import each_of
from hypothesis import given, strategies as st
from permitting import both, fits, settings
from pluggent_hookspecs import ConfigError
from pluggent_permissions.text_patterns import LONGEST_RUN, Reading, folded, glob, has_unseen, regex

FORBIDDEN_AND_PERMITTED = (True, True)
FORBIDDEN_ONLY = (True, False)
NEITHER = (False, False)

WIDTH = "\uff52\uff4d -rf"  # full-width letters
HIDDEN = "r\u200bm -rf"
SOFT = "r\u00adm -rf"
VISIBLE_FORMATS = "\u0600\u0601\u0602\u0603\u0604\u0605\u06dd\u070f\u0890\u0891\u08e2\U000110bd\U000110cd"
"""Cf, but seen: marks before numbers (Prepended_Concatenation_Mark)."""


@each_of(
    ("wanted", "value", "expected"),
    [
        ({"glob": "rm *"}, "rm -rf", FORBIDDEN_AND_PERMITTED),
        ({"glob": "rm *"}, "RM -rf", FORBIDDEN_ONLY),
        ({"glob": "RM *"}, "rm -rf", FORBIDDEN_ONLY),
        ({"glob": "rm *"}, WIDTH, FORBIDDEN_ONLY),
        ({"glob": "rm *"}, HIDDEN, FORBIDDEN_ONLY),
        ({"glob": "rm *"}, SOFT, FORBIDDEN_ONLY),
        ({"glob": "rm *"}, "rm\n-rf", FORBIDDEN_ONLY),
        ({"glob": "rm *"}, "rm\t-rf", FORBIDDEN_ONLY),
        ({"glob": "rm *"}, "farm -rf", NEITHER),
        ({"glob": ["a", "b"]}, "b", FORBIDDEN_AND_PERMITTED),
        ({"glob": "git *"}, "git log\nrm -rf x", FORBIDDEN_ONLY),
        ({"glob": "git *"}, "git log\u2028rm", FORBIDDEN_ONLY),
        ({"glob": "*"}, "", FORBIDDEN_AND_PERMITTED),
        ({"glob": "stra\u00dfe"}, "STRASSE", FORBIDDEN_ONLY),
        ({"glob": "7"}, 7, FORBIDDEN_AND_PERMITTED),
        ({"glob": "7"}, 7.0, FORBIDDEN_AND_PERMITTED),
        ({"glob": "true"}, True, FORBIDDEN_AND_PERMITTED),
        ({"glob": "[ab]?"}, "bx", FORBIDDEN_AND_PERMITTED),
        ({"regex": "git (status|diff)( [\\w./-]+)*"}, "git diff src/a.py", FORBIDDEN_AND_PERMITTED),
        ({"regex": "git (status|diff)( [\\w./-]+)*"}, "git diff; rm x", NEITHER),
        ({"regex": "git .*"}, "git log\nrm", FORBIDDEN_ONLY),
        ({"regex": "[^;]*"}, "a\nb", FORBIDDEN_ONLY),
        ({"regex": "git"}, "git log", NEITHER),
        ({"regex": "git"}, "GIT", FORBIDDEN_ONLY),
        ({"regex": "git"}, "\uff47it", FORBIDDEN_ONLY),
        ({"regex": "a|b"}, "bc", NEITHER),
        ({"regex": "abc"}, "abc\n", FORBIDDEN_ONLY),
        ({"equals": "on"}, "on", FORBIDDEN_AND_PERMITTED),
        ({"equals": "on"}, "ON", FORBIDDEN_ONLY),
        ({"equals": [1, "x"]}, 1, FORBIDDEN_AND_PERMITTED),
        ({"equals": 1}, 1.0, FORBIDDEN_AND_PERMITTED),
        ({"equals": 1}, True, NEITHER),
        ({"equals": True}, True, FORBIDDEN_AND_PERMITTED),
        ({"equals": True}, "true", FORBIDDEN_ONLY),
        ({"equals": 1}, "1", FORBIDDEN_ONLY),
        ({"equals": 5}, "5.0", FORBIDDEN_ONLY),
        ({"equals": 5}, " +5e0\n", FORBIDDEN_ONLY),
        ({"equals": 5}, "005", FORBIDDEN_ONLY),
        ({"equals": 5}, "0x5", FORBIDDEN_ONLY),
        ({"equals": 5}, "\uff15", FORBIDDEN_ONLY),
        ({"equals": 5}, "\u0665", FORBIDDEN_ONLY),
        ({"equals": 1000}, "1_000", FORBIDDEN_ONLY),
        ({"equals": 0}, "-0", FORBIDDEN_ONLY),
        ({"equals": 0.1}, "0.10", FORBIDDEN_ONLY),
        ({"equals": 0.1}, ".1000000000000000055", FORBIDDEN_ONLY),
        ({"equals": 9007199254740993}, "9007199254740993.0", FORBIDDEN_ONLY),
        ({"equals": "5.0"}, 5, FORBIDDEN_ONLY),
        ({"equals": "5.0"}, "5", NEITHER),
        ({"equals": 5}, "5 euros", NEITHER),
        ({"equals": 5}, "nan", NEITHER),
        ({"equals": 5}, "snan", NEITHER),
        ({"equals": 5}, "1e999999999", NEITHER),
        ({"equals": 1}, "true", NEITHER),
        ({"glob": "5.0"}, 5.0, FORBIDDEN_ONLY),
        ({"regex": "5\\.0"}, 5.0, FORBIDDEN_ONLY),
        ({"equals": 1}, 2, NEITHER),
        ({"gt": 100}, 101, FORBIDDEN_AND_PERMITTED),
        ({"gt": 100}, 100, NEITHER),
        ({"ge": 100}, 100.0, FORBIDDEN_AND_PERMITTED),
        ({"ge": 1, "le": 3}, 2, FORBIDDEN_AND_PERMITTED),
        ({"ge": 1, "lt": 3}, 3, NEITHER),
        ({"lt": 0.5}, 0.4, FORBIDDEN_AND_PERMITTED),
        ({"gt": 100}, 10**400, FORBIDDEN_AND_PERMITTED),
        # What cannot be evaluated is forbidden and not permitted.
        ({"gt": 100}, "500", FORBIDDEN_ONLY),
        ({"gt": 100}, True, FORBIDDEN_ONLY),
        ({"glob": "*.md"}, {"x": 1}, FORBIDDEN_ONLY),
        ({"regex": "x"}, {"x": 1}, FORBIDDEN_ONLY),
        ({"equals": "x"}, {"x": 1}, FORBIDDEN_ONLY),
        ({"glob": "*.md"}, None, FORBIDDEN_ONLY),
        # Lists are looked at item by item.
        ({"glob": "*.md"}, ["a.md", "b.md"], FORBIDDEN_AND_PERMITTED),
        ({"glob": "*.md"}, ["a.md", "b.py"], FORBIDDEN_ONLY),
        ({"glob": "*.md"}, ["a.txt", ["b.py"]], NEITHER),
        ({"glob": "*.md"}, [["a.md"], [["b.md"]]], FORBIDDEN_AND_PERMITTED),
        ({"glob": "*.md"}, [], NEITHER),
        # All that is wanted of a value has to hold of one and the same value.
        ({"glob": ["a*"], "regex": ".*z"}, ["ax", "bz"], NEITHER),
        ({"glob": ["a*"], "regex": ".*z"}, ["az", "bz"], FORBIDDEN_ONLY),
    ],
)
def test_patterns_forbid_generously_and_permit_exactly(wanted: dict[str, Any], value: Any, expected: tuple[bool, bool]):
    assert both(wanted, value) == expected


# Default_Ignorable_Code_Point and what else leaves no mark: a joiner, fillers, selectors, tags, a blank, reserved ones.
INVISIBLE = (
    "\u034f\u115f\u1160\u17b4\u17b5\u180b\u180f\u2065\u2800\u3164\ufe00\ufe0f\uffa0\ufff0\U00016fe4\U0001bca0"
    "\U0001d159\U0001d173\U000e0001\U000e0020\U000e0041\U000e0100\U000e01ef\U000e0fff\u00ad\u061c\u2061\ufeff\x7f"
)


@pytest.mark.parametrize("hidden", INVISIBLE, ids=ascii)
def test_no_invisible_character_defeats_a_pattern_that_forbids(hidden: str):
    inside, between, ends = f"r{hidden}m -rf", f"rm{hidden} {hidden}-rf", f"{hidden}rm -rf{hidden}"

    for value in (inside, between, ends):
        assert both({"glob": "rm *"}, value) == FORBIDDEN_ONLY
        assert both({"regex": "rm .*"}, value) == FORBIDDEN_ONLY
        assert both({"equals": "rm -rf"}, value) == FORBIDDEN_ONLY


@pytest.mark.parametrize("blank", "\u2800\u3164\u115f\u1160\uffa0\u2000\u1680\u00a0\u2028\x1f", ids=ascii)
def test_a_blank_that_is_no_space_defeats_no_pattern_that_forbids(blank: str):
    assert both({"glob": "rm -rf"}, f"rm{blank}-rf")[0]
    if has_unseen(blank) and blank != "\u2028":
        assert both({"glob": "rm -rf"}, f"r{blank}m -rf")[0]


@given(st.characters())
def test_what_has_no_visible_form_by_its_category_is_known_as_unseen(letter: str):
    if unicodedata.category(letter) in ("Cc", "Cf", "Zl", "Zp"):
        assert has_unseen(letter) or letter in VISIBLE_FORMATS


@given(st.text(max_size=20), st.text(alphabet="ab*?[]x", max_size=8))
def test_what_is_permitted_would_also_be_forbidden(text: str, pattern: str):
    assert glob([pattern], Reading.WIDE)(text) or not glob([pattern], Reading.EXACT)(text)


@given(st.text(alphabet="abAB\u200b\u00ad \n\uff21", max_size=12))
def test_a_forbidden_word_stays_forbidden_however_it_is_dressed(text: str):
    assert glob(["ab*"], Reading.WIDE)(text) == glob(["ab*"], Reading.WIDE)(folded(text))
    assert regex(["ab.*"], Reading.WIDE)(text) == glob(["ab*"], Reading.WIDE)(text)


@given(st.text(max_size=30))
def test_folding_again_changes_nothing(text: str):
    assert folded(folded(text)) == folded(text)


@pytest.mark.parametrize("pattern", ["(a)\\1", "(?=a)a", "a)|(b", "(", "[", "a{1000}{1000}", "(?x)a #"])
def test_a_regular_expression_that_could_run_for_ever_or_escape_its_anchors_is_refused(pattern: str):
    with pytest.raises(ConfigError, match="is not a regular expression that can be matched in linear time"):
        settings({"rules": [{"id": "r", "decision": "deny", "when": {"arguments": {"a": {"regex": pattern}}}}]})


def test_regular_expressions_take_linear_time():
    assert not fits({"regex": "(a+)+(a|aa)+b"}, "a" * 200_000, Reading.EXACT)
    assert not fits({"regex": "(a+)+(a|aa)+b"}, "a" * 200_000, Reading.WIDE)


@given(st.text("ab*?[]!-x\n", max_size=10), st.text("abx[]!-\n", max_size=12))
def test_a_glob_fits_what_a_file_name_would_fit(pattern: str, text: str):
    plain = not has_unseen(text)

    assert glob([pattern], Reading.EXACT)(text) == (plain and fnmatch.fnmatchcase(text, pattern))


class CountedText(str):
    """A text that counts how often it is folded."""

    folds = 0
    __slots__ = ()

    def casefold(self) -> str:
        CountedText.folds += 1
        return str.casefold(self)


def test_a_hundred_rules_fold_a_long_text_once():
    tests = [glob([f"*Needle {n}*"], Reading.WIDE) for n in range(100)]
    text = CountedText("Hay " * 1_000)
    CountedText.folds = 0

    assert not any(fits(text) for fits in tests)
    assert CountedText.folds == 1


def test_globs_take_linear_time():
    assert not fits({"glob": "*a*a*a*a*a*a*b"}, "a" * 200_000, Reading.WIDE)


def test_combining_characters_that_take_quadratic_time_to_sort_are_in_doubt():
    long = "\u0301\u0316" * 200_000

    assert both({"glob": "x*"}, long) == (True, False)
    assert both({"glob": "x*"}, "y" * 2000 + long) == (True, False)


def test_text_of_any_language_is_folded_whatever_its_length():
    word = unicodedata.normalize("NFD", "Phở bò " * 2000)

    assert glob(["*PHỞ BÒ*"], Reading.WIDE)(word)
    assert LONGEST_RUN > 4
