"""Where models come from, and what becomes of two lists of them."""

import json
from contextlib import suppress
from typing import Any

import attrs
import pytest
from hypothesis import given, strategies as st
from pluggent_models.catalog import About, CatalogError, packed
from pluggent_models.model import Cost, Model
from pluggent_models.sources import Change, changes, merged, read_models

ABOUT = About(date="2026-11-20", source="https://acme.example")
FULL: dict[str, Any] = {
    "name": "Large",
    "reasoning": True,
    "reasoning_options": [
        {"type": "toggle"},
        {"type": "effort", "values": ["null", "low", "high"]},
        {"type": "budget_tokens", "min": -1, "max": 32_000},
    ],
    "tool_call": True,
    "structured_output": True,
    "temperature": False,
    "release_date": "2026-01-02",
    "status": "beta",
    "modalities": {"input": ["text", "image"], "output": ["text"]},
    "limit": {"context": 400_000, "input": 272_000, "output": 128_000},
    "cost": {
        "input": 1,
        "output": 10,
        "cache_read": 0.1,
        "cache_write": 1.25,
        "context_over_200k": {"input": 2, "output": 15},
        "tiers": [
            {"tier": {"size": 500_000}, "input": 3, "output": 20},
            {"tier": {"type": "context", "size": 272_000}, "input": 2, "output": 15},
        ],
    },
    "experimental": {"modes": {}},
}


def document(**models: dict[str, Any]) -> bytes:
    """Return a list of models.dev with *models* of OpenAI, and two more servers."""
    least = {"x": {"name": "X", "modalities": {"input": ["text"], "output": ["text"]}, "limit": {"context": 0}}}
    return json.dumps(
        {"openai": {"models": models or least}, "groq": {"models": least}, "zai": {"models": least}, "acme": {}}
    ).encode()


def read(content: bytes) -> tuple[Model, ...]:
    return read_models(content, "place", "2026-11-20")


def of_openai(**fields: Any) -> Model:
    return next(model for model in read(document(large={**FULL, **fields})) if model.server == "openai")


def test_an_entry_of_models_dev_becomes_all_that_it_says() -> None:
    assert of_openai() == Model(
        id="openai/large",
        name="Large",
        context=400_000,
        max_input=272_000,
        max_output=128_000,
        takes=("text", "image"),
        gives=("text",),
        thinks=True,
        efforts=("none", "low", "high"),
        thinking_budget=(None, 32_000),
        tools=True,
        schema=True,
        temperature=False,
        wire="responses",
        cost=Cost(
            input=1.0,
            output=10.0,
            cached=0.1,
            cache_write=1.25,
            above=((272_000, Cost(input=2.0, output=15.0)), (500_000, Cost(input=3.0, output=20.0))),
        ),
        status="beta",
        released="2026-01-02",
        date="2026-11-20",
        source="https://models.dev",
    )


def test_what_is_not_said_is_unknown() -> None:
    model = next(model for model in read(document()) if model.server == "groq")

    assert model == Model(
        id="groq/x", name="X", takes=("text",), gives=("text",), date="2026-11-20", source="https://models.dev"
    )


@pytest.mark.parametrize(
    ("name", "fields", "wire"),
    [
        ("large", {"provider": {"shape": "completions"}}, "chat"),
        ("gpt-audio", {"modalities": {"output": ["text", "audio"]}}, None),
        ("x-audio-preview", {}, "chat"),
        ("text-embedding-9", {}, None),
    ],
)
def test_the_api_is_said_where_it_is_known(name: str, fields: dict[str, Any], wire: str | None) -> None:
    found = read(document(**{name: {**FULL, **fields}}))

    assert next(model for model in found if model.server == "openai").wire == wire


@pytest.mark.parametrize(
    ("cost", "known"),
    [
        ({"input": 0, "output": 0}, False),
        ({"input": 1}, False),
        (None, False),
        ({"input": 0, "output": 1}, True),
    ],
)
def test_a_price_of_nothing_is_unknown(cost: Any, known: bool) -> None:
    assert (of_openai(cost=cost).cost is not None) is known


def test_a_model_that_is_called_free_costs_nothing() -> None:
    found = read(document(**{"small:free": {**FULL, "cost": {"input": 0, "output": 0}}}))

    assert next(model for model in found if model.server == "openai").cost == Cost(input=0.0, output=0.0)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b'{"openai":', "is not the JSON of models.dev"),
        (b'{"error": "not found"}', "is not the list of models.dev"),
        (b"{" * 100_000, "is not the JSON of models.dev"),
        (document(a={"cost": {"input": -1, "output": 1}}), "cost.input: expected dollars for a million tokens, got -1"),
        (document(a={"limit": {"context": "many"}}), "context: expected a number of tokens, got 'many'"),
        (document(a={"name": "a\x1b[2J"}), "name: expected a short text"),
        (document(a={"modalities": {"input": "text"}}), "takes: expected a list of words"),
        (document(a={"reasoning": "yes"}), "thinks: expected true or false"),
        (document(a={"cost": {"input": 1, "output": 1, "tiers": [{"input": 2}, {"tier": 3}]}}), "cost.above: expected"),
        (b"<html>", "is no catalog, no JSON and no TOML"),
        (b"\xff\xfe", "is no catalog, no JSON and no TOML"),
        (b"", r"expected \[\[model\]\] tables"),
        (b"model = 3", r"expected \[\[model\]\] tables"),
        (b'[[model]]\nid = "a/b"\n[[model]]\nid = 3', r"model\[0\]: 'a/b': date .* are required"),
        (b"\x1f\x8b\x08", "is damaged: it is cut"),
    ],
)
def test_a_source_that_cannot_be_used_is_refused_with_its_place(content: bytes, told: str) -> None:
    with pytest.raises(CatalogError, match=told) as caught:
        read(content)

    assert caught.value.path == "place"


@given(st.binary(max_size=60) | st.text(max_size=40).map(str.encode))
def test_no_bytes_end_in_another_error(content: bytes) -> None:
    with suppress(CatalogError):
        read(content)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*FULL, "type", "input"]), inner),
        max_leaves=20,
    )
)
def test_no_entry_ends_in_another_error(entry: Any) -> None:
    with suppress(CatalogError):
        read(document(a=entry))


def test_a_file_of_ones_own_says_when_and_where_a_price_was_read() -> None:
    text = '[[model]]\nid = "acme/one"\ncost = {input = 1, output = 2, above = [[10, {input = 2, output = 4}]]}\n'

    (model,) = read(f'{text}date = 2026-11-20\nsource = "https://acme.example"'.encode())

    assert model.cost == Cost(input=1.0, output=2.0, above=((10, Cost(input=2.0, output=4.0)),))
    assert (model.date, model.source) == ("2026-11-20", "https://acme.example")


def test_another_catalog_is_a_source_too() -> None:
    model = Model(id="acme/one", context=10, date=ABOUT.date, source=ABOUT.source)

    assert read(packed([model], ABOUT)) == (model,)


def test_of_two_prices_the_later_one_counts() -> None:
    early = Model(id="a/b", cost=Cost(input=1.0, output=1.0), date="2026-07-01", source="early")
    late = Model(id="a/b", context=10, cost=Cost(input=2.0, output=2.0), date="2026-08-01", source="late")

    assert merged([early], [late]) == (late,)
    assert merged([late], [early]) == (late,)


def test_what_the_new_list_does_not_say_stays() -> None:
    priced = Model(id="a/b", cost=Cost(input=1.0, output=1.0), date="2026-07-01", source="old")
    gone = Model(id="a/gone")

    found = merged([priced, gone], [Model(id="a/b", context=10, date="2026-08-01", source="new"), Model(id="a/a")])

    assert found == (Model(id="a/a"), attrs.evolve(priced, context=10), gone)


def test_changes_name_what_was_added_removed_and_changed() -> None:
    old = [Model(id="a/b", cost=Cost(input=1.0, output=1.0), date="2026-07-01"), Model(id="a/gone")]
    new = [Model(id="a/b", cost=Cost(input=2.0, output=1.0), date="2026-08-01"), Model(id="a/new")]

    assert changes(old, new) == (
        Change("a/b", "changed", (("cost", {"input": 1, "output": 1}, {"input": 2, "output": 1}),)),
        Change("a/gone", "removed"),
        Change("a/new", "added"),
    )
    assert changes(old, [attrs.evolve(old[0], date="2026-11-01"), old[1]]) == ()
