"""JSON in pieces becomes what it would have been whole."""

import pytest
from hypothesis import given, settings, strategies as st
from pluggent_openai.fragments import Grown

TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=6)


def grown(*pieces):
    all_of_it = Grown()
    for piece in pieces:
        all_of_it.add(piece)
    return all_of_it.whole()


def test_texts_grow_and_lists_get_longer():
    assert grown({"a": "x", "b": [1]}, {"a": "y", "b": [2, 3]}, {"a": "z"}) == {"a": "xyz", "b": [1, 2, 3]}


def test_objects_grow_inside():
    assert grown({"a": {"b": "x"}}, {"a": {"b": "y", "c": 1}}) == {"a": {"b": "xy", "c": 1}}


def test_numbers_and_flags_are_replaced():
    assert grown({"a": 1, "b": True}, {"a": 2, "b": False}) == {"a": 2, "b": False}


@pytest.mark.parametrize("nothing", [None, [], {}])
def test_nothing_takes_nothing_away(nothing):
    assert grown({"a": "x"}, {"a": nothing, "b": nothing}) == {"a": "x"}


def test_what_names_a_thing_does_not_grow():
    names = {"id": "i", "type": "t", "format": "f", "role": "r", "name": "n", "object": "o", "index": 0}

    assert grown(names, names) == names


def test_entries_with_an_index_find_their_own_whatever_the_order():
    assert grown(
        {"d": [{"index": 1, "type": "a", "text": "x"}]},
        {"d": [{"index": 0, "type": "a", "text": "1"}, {"index": 1, "type": "a", "text": "y"}]},
        {"d": [{"index": 1, "type": "b", "data": "z"}]},
    )["d"] == [
        {"index": 1, "type": "a", "text": "xy"},
        {"index": 0, "type": "a", "text": "1"},
        {"index": 1, "type": "b", "data": "z"},
    ]


def test_a_value_of_another_kind_takes_the_place_of_the_first():
    assert grown({"a": "x"}, {"a": [1]}, {"a": [2]}) == {"a": [1, 2]}
    assert grown({"a": [1]}, {"a": "x"}) == {"a": "x"}


@given(
    st.dictionaries(st.sampled_from("abc"), TEXT | st.lists(st.integers(), min_size=1), min_size=1),
    st.lists(st.integers(1, 3), max_size=8),
)
@settings(deadline=None)
def test_any_cut_gives_the_same_whole(value, cuts):
    pieces: list[dict] = []
    rest = dict(value)
    for cut in cuts:
        pieces.append({key: each[:cut] for key, each in rest.items() if each[:cut]})
        rest = {key: each[cut:] for key, each in rest.items()}
    pieces.append({key: each for key, each in rest.items() if each})

    assert grown(*pieces) == value


def test_a_text_is_joined_once_however_many_pieces_it_has():
    class Piece(str):
        __slots__ = ()

        def __add__(self, other):
            raise AssertionError("joined pair by pair, which costs more with every piece")

        __radd__ = __add__

    whole = grown(*({"text": Piece("xy"), "list": [{"index": 0, "text": Piece("z")}]} for _ in range(500)))

    assert whole == {"text": "xy" * 500, "list": [{"index": 0, "text": "z" * 500}]}
