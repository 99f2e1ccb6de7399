"""The file of models: what is found in it, how soon, and what is said of one that is damaged."""

import os
import subprocess
import sys
import zlib
from datetime import date
from pathlib import Path

import pluggent_models
import pytest
from hypothesis import given, strategies as st
from pluggent_models.catalog import (
    MAGIC,
    NAME,
    About,
    CatalogError,
    ModelCatalog,
    packed,
    read_catalog,
    shipped,
)
from pluggent_models.hosts import server_at
from pluggent_models.model import MODALITIES, WIRES, Cost, Model

SHIPPED = Path(pluggent_models.__file__).with_name(NAME)
ABOUT = About(date="2026-11-20", source="https://acme.example")
ONE = Model(id="acme/one", context=8192, cost=Cost(input=1.0, output=2.5), date=ABOUT.date, source=ABOUT.source)
TWO = Model(id="other/two", tools=True, date="2026-11-21", source="https://other.example")

rates = st.none() | st.floats(0, 500)
costs = st.builds(Cost, input=st.floats(0, 500), output=st.floats(0, 500), cached=rates, reasoning=rates)
tiered = st.builds(
    lambda cost, tiers: Cost(input=cost.input, output=cost.output, above=tuple(sorted(tiers.items()))),
    costs,
    st.dictionaries(st.integers(0, 10**6), costs, max_size=3),
)
texts = st.text(st.characters(categories=("L", "N", "P")), max_size=12)
names = st.text(st.characters(codec="utf-8", categories=("L", "N", "P", "Sm", "So")), min_size=1, max_size=20)
tokens = st.none() | st.integers(0, 10**7)
models = st.builds(
    Model,
    id=st.tuples(st.sampled_from(["acme", "other", "third"]), names).map("/".join),
    name=texts,
    context=tokens,
    max_output=tokens,
    takes=st.lists(st.sampled_from(MODALITIES), max_size=3).map(tuple),
    thinks=st.none() | st.booleans(),
    efforts=st.lists(texts.filter(bool), max_size=3).map(tuple),
    thinking_budget=st.none() | st.tuples(tokens, tokens),
    wire=st.none() | st.sampled_from(WIRES),
    cost=st.none() | costs | tiered,
    date=st.sampled_from(["2026-11-20", "2026-11-21"]),
    source=st.just("https://acme.example"),
)


def test_every_shipped_model_can_be_read_and_found_and_says_where_its_data_is_from() -> None:
    catalog = shipped()
    listed = list(catalog.models())

    assert [model.id for model in listed] == sorted({model.id for model in listed})
    assert {model.server for model in listed} == {*catalog.servers}
    for model in listed:
        assert catalog.find(model.id) == model
        assert date.fromisoformat(model.date) >= date(2025, 1, 1)
        assert model.source.startswith("https://")


def test_the_shipped_file_is_small_and_names_the_licence_of_its_data() -> None:
    assert SHIPPED.stat().st_size <= 61_440
    assert "MIT License" in shipped().about.licence
    assert "models.dev" in shipped().about.licence


def test_the_servers_that_others_ask_for_are_there() -> None:
    assert {"openai", "anthropic", "gemini", "bedrock", "azure", "groq", "openrouter", "cerebras", "zai"} <= {
        *shipped().servers
    }


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("openai/gpt-5", "openai/gpt-5"),
        ("openai/gpt-5-2025-08-07", "openai/gpt-5"),
        ("openai/gpt-5-20250807", "openai/gpt-5"),
        ("openai/gpt-4o-2024-05-13", "openai/gpt-4o-2024-05-13"),
        ("openai/gpt-5-pro-max", None),
        ("openai/gpt-5-2025", None),
        ("openai/", None),
        ("openai", None),
        ("gpt-5", None),
        ("local/gpt-5", None),
        ('openai/gpt-5","x', None),
        ("", None),
    ],
)
def test_a_name_means_one_model_or_none(name: str, found: str | None) -> None:
    model = shipped().find(name)

    assert (model and model.id) == found


@pytest.mark.parametrize(
    ("host", "server"),
    [
        ("api.openai.com", "openai"),
        ("bedrock-runtime.eu-west-1.amazonaws.com", "bedrock"),
        ("acme.openai.azure.com", "azure"),
        ("api.openai.com.evil.example", ""),
        ("127.0.0.1", ""),
    ],
)
def test_a_host_is_known_by_its_whole_name(host: str, server: str) -> None:
    assert server_at(host) == server


@given(st.lists(models, max_size=8, unique_by=lambda model: model.id))
def test_what_is_packed_is_read_back(listed: list[Model]) -> None:
    if not listed:
        listed = [ONE]
    content = packed(listed, ABOUT)

    catalog = ModelCatalog(content, "test")

    assert list(catalog.models()) == sorted(listed, key=lambda model: model.id)
    assert packed(reversed(listed), ABOUT) == content
    assert [catalog.find(model.id) for model in listed] == listed


@given(st.data())
def test_a_file_that_is_cut_or_changed_is_never_read_as_another_one(data: st.DataObject) -> None:
    content = packed([ONE, TWO], ABOUT)
    at = data.draw(st.integers(0, len(content) - 1))
    broken = data.draw(st.sampled_from([content[:at], content + b"x", _changed(content, at)]))

    try:
        found = list(ModelCatalog(broken, "test").models())
    except CatalogError:
        return

    assert found == [ONE, TWO]  # a byte that no checksum covers, such as gzip's time


def _changed(content: bytes, at: int) -> bytes:
    return content[:at] + bytes([content[at] ^ 0x10]) + content[at + 1 :]


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "is not packed by gzip"),
        (b"{}", "is not packed by gzip"),
        (MAGIC, "it is cut"),
        (zlib.compress(b"[]", wbits=31), "is not a model catalog"),
        (zlib.compress(b'{"pluggent_models": 2}', wbits=31), "of format 1: another version has written it"),
        (zlib.compress(b'{"pluggent_models": 1}', wbits=31), "does not say what it has"),
        (zlib.compress(b'{"pluggent_models": 1, "bytes": {"a": 9}}', wbits=31), "it is cut"),
        (zlib.compress(b" " * 34_000_000, wbits=31), "is larger than 33,554,432 bytes"),
    ],
)
def test_a_file_that_is_no_catalog_is_refused_with_what_to_do(content: bytes, told: str) -> None:
    with pytest.raises(CatalogError, match=told) as caught:
        ModelCatalog(content, "models.json.gz")

    assert caught.value.path == "models.json.gz"


def test_a_line_that_is_no_model_is_named() -> None:
    part = zlib.compress(b'\n{"id":"acme/one","context":-1,"colour":1}\n', wbits=31)
    head = zlib.compress(b'{"pluggent_models": 1, "bytes": {"acme": %d}}' % len(part), wbits=31)

    with pytest.raises(CatalogError, match=r"'acme/one': context: expected a number of tokens.*unknown key 'colour'"):
        ModelCatalog(head + part, "test").find("acme/one")


def test_a_file_is_read_from_its_place_and_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    file = tmp_path / NAME
    file.write_bytes(packed([ONE], ABOUT))
    os.mkfifo(tmp_path / "pipe")

    assert read_catalog(file).find("acme/one") == ONE
    with pytest.raises(CatalogError, match=r"pipe: is not a regular file"):
        read_catalog(tmp_path / "pipe")
    with pytest.raises(CatalogError, match=r"gone: cannot be read: No such file"):
        read_catalog(tmp_path / "gone")


def test_nothing_is_read_before_the_first_search(tmp_path: Path) -> None:
    program = (
        "import sys\nopened = []\n"
        "sys.addaudithook(lambda event, args: opened.append(str(args[0])) if event == 'open' else None)\n"
        "import pluggent_models.catalog\n"
        f"assert not any(path.endswith({NAME!r}) for path in opened), opened\n"
        "pluggent_models.catalog.shipped()\n"
        f"assert any(path.endswith({NAME!r}) for path in opened), opened\n"
    )

    subprocess.run([sys.executable, "-c", program], cwd=tmp_path, check=True, timeout=60)  # noqa: S603 (this interpreter)


def test_a_cost_above_so_many_tokens_counts_from_the_next_one_on() -> None:
    high, highest = Cost(input=2.0, output=2.0), Cost(input=3.0, output=3.0)
    cost = Cost(input=1.0, output=1.0, above=((100, high), (200, highest)))

    assert [cost.at(count).input for count in (0, 100, 101, 200, 201)] == [1.0, 1.0, 2.0, 2.0, 3.0]
