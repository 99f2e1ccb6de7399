import datetime as dt
import enum
import json
import math
from typing import Any

import attrs
import msgspec
from each_of import each_of
from hypothesis import given, strategies as st
from pluggent_contract_values.tool_output import as_output, fit
from pluggent_hookspecs import Audio, File, Image, Reasoning, Text, ToolOutput, Usage, freeze

texts = st.text(st.characters(exclude_categories=("Cs",)))
parts = st.builds(Text, texts) | st.builds(Reasoning, texts) | st.builds(Image, data=st.text("QUI=", max_size=40))


class Color(enum.Enum):
    RED = "red"


class Size(enum.StrEnum):
    SMALL = "small"


@attrs.frozen
class Report:
    name: str
    when: dt.date
    parent: Any = None


def error_of(value: Any) -> str:
    output = as_output(value)
    assert output.is_error
    assert isinstance(output.for_model, str)
    return output.for_model


@each_of(
    ("value", "output"),
    [
        ("22 degrees", ToolOutput("22 degrees")),
        (Size.SMALL, ToolOutput("small")),
        (None, ToolOutput("")),
        ("broken \ud800 text", ToolOutput("broken \ufffd text")),
        ("paired \ud83d\ude00", ToolOutput("paired \U0001f600")),
        (ToolOutput.both("ok"), ToolOutput.both("ok")),
        (ToolOutput("\udc00", for_user="\udc00"), ToolOutput("\ufffd", for_user="\ufffd")),
        (ToolOutput((Text("\udc00"),)), ToolOutput((Text("\ufffd"),))),
        (Text("hi"), ToolOutput((Text("hi"),))),
        ([Text("hi"), Image(url="x")], ToolOutput((Text("hi"), Image(url="x")))),
        ((File(data="aGk="),), ToolOutput((File(data="aGk="),))),
        (True, ToolOutput("true", data=True)),
        (2**70, ToolOutput(str(2**70), data=2**70)),
        (1.5, ToolOutput("1.5", data=1.5)),
        ([], ToolOutput("[]", data=[])),
        ({"b": None, "a": [1, "é"]}, ToolOutput('{"b":null,"a":[1,"é"]}', data={"b": None, "a": [1, "é"]})),
        ({1: {2}}, ToolOutput('{"1":[2]}', data={"1": [2]})),
        (Color.RED, ToolOutput('"red"', data="red")),
        (Report("r", dt.date(2026, 1, 2)), ToolOutput(
            '{"name":"r","parent":null,"when":"2026-01-02"}', data={"name": "r", "when": "2026-01-02", "parent": None},
        )),
        (freeze({"a": [1, {"b": None}]}), ToolOutput('{"a":[1,{"b":null}]}', data={"a": [1, {"b": None}]})),
    ],
)  # fmt: skip
def test_what_tools_return_becomes_what_models_read(value, output):
    assert as_output(value) == output


def test_an_output_that_is_fine_or_fits_is_handed_on_as_it_is():
    output = ToolOutput("é", data={"a": 1}, media=(Image(url="x"),))
    parts = ToolOutput((Text("a"), Image(url="x")))

    assert as_output(output) is output
    assert fit(parts, 10) == (parts, None)
    assert fit(parts, 10)[0] is parts


@each_of("value", [b"12345", bytearray(b"12345"), memoryview(b"12345")])
def test_bytes_are_refused_with_what_to_return_instead(value):
    assert error_of(value) == (
        "the tool returned 5 bytes, which cannot be shown to a model; "
        "its author should return text, or a File part with the bytes in base64"
    )


def circle() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


class Angry:
    def __getattr__(self, name: str) -> Any:
        raise RuntimeError("do not touch")


@attrs.define
class Sulking:
    text: str = ""

    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError("do not touch")


UNSAYABLE: list[tuple[Any, str]] = [
    ({"a": [1, object()]}, "holds an object at $.a[1]"),
    (Report("r", dt.date(2026, 1, 2), {"x": lambda: 1}), "holds a function at $.parent.x"),
    ({"a": {"b": math.nan}}, "holds nan at $.a.b"),
    (math.inf, "holds inf at $"),
    ([None, {"s": "\ud800"}], "holds a lone surrogate at $[1].s"),
    (circle(), "refers to itself or is nested too deeply"),
    (3 + 4j, "holds a complex at $"),
    (ToolOutput(5), "for_model is neither text nor parts"),  # type: ignore[arg-type]
    (ToolOutput(("text",)), "for_model is neither text nor parts"),  # type: ignore[arg-type]
    (ToolOutput("x", for_user=5), "for_user is not text"),  # type: ignore[arg-type]
    (ToolOutput("x", data=object()), "data holds an object at $"),  # type: ignore[arg-type]
    (ToolOutput("x", data=[math.nan]), "data holds nan at $[0]"),
    (ToolOutput("x", data={"n": math.nan}), "data holds nan at $.n"),
    (ToolOutput("x", data={"n": 10**5000}), "data holds an int at $.n"),
    (ToolOutput("x", data={"s": "\ud800"}), "data holds a lone surrogate at $.s"),
    ([10**5000], "holds an int at $[0]"),
    ({"a": Angry()}, "holds an Angry at $.a"),
]


@each_of(("value", "says"), UNSAYABLE, ids=[says for _, says in UNSAYABLE])  # some have no repr
def test_what_cannot_be_said_is_an_error_that_names_type_and_place(value, says):
    assert says in error_of(value)
    assert "RuntimeError: do not touch" in error_of(Sulking())  # kept in no table: whatever looks at it fails


leaves = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary() | st.dates()


@given(
    st.recursive(
        leaves | st.complex_numbers(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.integers(), inner) | st.tuples(inner, inner),
        max_leaves=10,
    )
)
def test_whatever_a_tool_returns_there_is_valid_text_for_the_model(value):
    output = as_output(value)

    assert isinstance(output.for_model, str)
    output.for_model.encode()
    if output.data is not None:
        assert freeze(json.loads(output.for_model)) == output.data


@given(texts, st.integers(0, 200))
def test_a_cut_text_is_never_longer_than_the_limit_and_ends_at_a_whole_character(text, limit):
    output, whole = fit(ToolOutput(text), limit)
    shown = output.for_model

    assert isinstance(shown, str)
    assert len(shown.encode()) <= limit
    if whole is None:
        assert shown == text
    else:
        assert whole == text
        assert len(text.encode()) > limit
        assert text.startswith(shown.partition("\n[... cut: ")[0])


@given(st.lists(parts, max_size=5).map(tuple), st.integers(0, 100), st.integers(0, 60))
def test_parts_share_the_limits(content, limit, media):
    output, whole = fit(ToolOutput(content), limit, media)

    assert isinstance(output.for_model, tuple)
    assert sum(len(p.text.encode()) for p in output.for_model if isinstance(p, Text | Reasoning)) <= limit
    assert sum(len(p.data or "") for p in output.for_model if isinstance(p, Image)) <= media
    assert (whole is None) == (output.for_model == content)


def test_a_cut_text_says_how_much_is_shown():
    output, whole = fit(ToolOutput("é" * 60, for_user="all", data=[1]), 65)

    assert output == ToolOutput("é" * 14 + "\n[... cut: 28 of 120 bytes shown ...]", for_user="all", data=[1])
    assert whole == "é" * 60


def test_parts_are_cut_in_order_and_media_that_are_too_big_are_named():
    content = (Text("hello"), Audio(data="A" * 90), Image(data="A" * 20), Text("x" * 99), Text("more"))
    output, whole = fit(ToolOutput(content), 78, media_bytes=50)

    assert output.for_model == (
        Text("hello"),
        Text("[audio/wav of 90 bytes left out]"),
        Image(data="A" * 20),
        Text("xxxx"),
        Text("[... cut: 41 of 140 bytes shown ...]"),
    )
    assert whole == "hello\n" + "x" * 99 + "\nmore"


def test_contract_values_are_json_too():
    assert msgspec.json.decode(as_output(Usage(input=3)).for_model)["input"] == 3  # type: ignore[arg-type]
