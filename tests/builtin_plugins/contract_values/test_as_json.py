"""Values of the contract as JSON and back; entries as lines of JSON."""

import inspect
import json
import math
from collections.abc import Mapping
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import attrs
import pluggent_hookspecs as contract
import pytest
from each_of import each_of
from hypothesis import HealthCheck, given, settings, strategies as st
from pluggent_contract_values.as_json import from_json, from_plain, line_of, to_json, to_plain
from pluggent_hookspecs import Decision, Json, Observation, Part, events, freeze
from pluggent_hookspecs.decisions import Allow, Deny, Respond
from pluggent_hookspecs.embeddings import EmbeddingResponse, Vectors
from pluggent_hookspecs.events import Scope, ToolCallEvent
from pluggent_hookspecs.messages import Message, Role, Text, ToolCall, Usage
from pluggent_hookspecs.models import ModelResponse
from pluggent_hookspecs.observations import DecisionMade, TurnStarted, Vote
from pluggent_hookspecs.plans import Plan, Step, StepStatus
from pluggent_hookspecs.tools import ToolOutput, ToolSpec

NOT_DATA = {
    contract.Answers: "a row of a table, made of classes",
    contract.Command: "made of functions",
    contract.ToolMark: "made of functions",
    contract.HookInfo: "says what a hook is, in this process",
    contract.ImplOptions: "what a decorator wrote, in this process",
}


def contract_classes() -> list[Any]:
    exported = [getattr(contract, name) for name in contract.__all__]
    found = [*exported, *vars(events).values()]
    classes = [value for value in found if inspect.isclass(value) and attrs.has(value) and value not in NOT_DATA]
    return list(dict.fromkeys(classes))


CLASSES = contract_classes()

text = st.text(st.characters(exclude_categories=("Cs",)), max_size=8)
numbers = st.floats(allow_nan=False, allow_infinity=False)
plain_json: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | numbers | text,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(text, inner, max_size=2),
    max_leaves=3,
)
frozen_objects = st.dictionaries(text, plain_json, max_size=2).map(freeze)
plans = st.builds(
    Plan,
    text,
    st.lists(text, unique=True, max_size=4).flatmap(
        lambda ids: st.tuples(*(st.builds(Step, st.just(id), text, status=st.sampled_from(StepStatus)) for id in ids))
    ),
)
vectors = st.integers(1, 3).flatmap(
    lambda size: st.lists(st.tuples(*(st.floats(width=32, allow_nan=False) for _ in range(size)))).map(Vectors.of)
)
SPECIAL: dict[Any, st.SearchStrategy[Any]] = {
    Vectors: vectors,
    Any: plain_json,
    bytes: plain_json.map(lambda value: json.dumps(value).encode()),
    str: text,
    int: st.integers(),
    float: numbers,
    bool: st.booleans(),
    NoneType: st.none(),
}


@cache
def values_of(hint: Any) -> st.SearchStrategy[Any]:
    origin, args = get_origin(hint), get_args(hint)
    if hint in SPECIAL:
        return SPECIAL[hint]
    if inspect.isclass(hint) and attrs.has(hint):
        return objects_of(hint)
    if inspect.isclass(hint) and issubclass(hint, Enum):
        return st.sampled_from(hint)
    if origin in (Union, UnionType):
        return st.one_of(*(values_of(arg) for arg in args))
    if origin is Literal:
        return st.sampled_from(args)
    if origin is tuple and args[1:] == (...,):
        return st.lists(values_of(args[0]), max_size=2).map(tuple)
    if origin is tuple:
        return st.tuples(*(values_of(arg) for arg in args))
    if inspect.isclass(origin) and issubclass(origin, Mapping):
        return st.dictionaries(text, text, max_size=2).map(freeze) if args[1] is str else frozen_objects
    if hint is dict:
        return st.dictionaries(text, text)
    raise TypeError(f"no strategy for {hint}")


@cache
def objects_of(cls: Any) -> st.SearchStrategy[Any]:
    if cls is Plan:
        return plans
    if cls is Vectors:
        return vectors
    hints = get_type_hints(cls, localns={"Json": Any})
    made: dict[str, st.SearchStrategy[Any]] = {}
    for field in attrs.fields(cls):
        if not field.init:
            continue
        hint = hints[field.name]
        if field.name in ("effects", "tags"):
            names = st.frozensets(st.sampled_from(["shell", "memory", "x:fly"]))
            strategy = st.none() | names if "None" in str(hint) else names
        elif cls is Respond and field.name == "value":
            strategy = st.deferred(
                lambda: plain_json | values_of(ToolOutput | ModelResponse | EmbeddingResponse | Message)
            )
        else:
            strategy = st.deferred(lambda hint=hint: values_of(hint))
        made[field.name] = strategy
    return st.builds(cls, **made)


def test_every_class_of_the_contract_is_covered():
    assert len(CLASSES) > 60
    assert {Message, ToolSpec, ToolOutput, ToolCallEvent, Respond, Plan, Usage, contract.MemoryItem} <= set(CLASSES)


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_every_value_of_the_contract_survives_the_way_there_and_back(cls, data):
    value = data.draw(objects_of(cls))

    encoded = to_json(value)

    assert from_json(encoded, cls) == value
    assert to_json(from_json(encoded, cls)) == encoded
    assert from_plain(to_plain(value), cls) == value
    assert json.loads(encoded) == to_plain(value)


@pytest.mark.parametrize(
    "union", [Part, Decision, Observation, contract.Delta], ids=["part", "decision", "seen", "delta"]
)
@settings(max_examples=100)
@given(data=st.data())
def test_every_member_of_a_union_comes_back_as_its_own_class(union, data):
    value = data.draw(values_of(union))
    back = from_json(to_json(value), union)

    assert back == value
    assert type(back) is type(value)


def test_json_names_the_class_and_leaves_out_defaults_and_memos():
    message = Message.assistant("hi", (ToolCall("1", "look"),))
    message.memo("key", lambda _: "secret")

    assert to_plain(message) == {
        "type": "Message",
        "role": "assistant",
        "content": [{"type": "Text", "text": "hi"}],
        "tool_calls": [{"type": "ToolCall", "id": "1", "name": "look"}],
    }


def test_sets_are_sorted_and_frozen_arguments_are_text():
    event = ToolCallEvent(Scope(), "1", ToolSpec("t"), "a:tool/t", b'{"a":1}', effects=frozenset({"shell", "memory"}))
    plain = to_plain(event)

    assert plain["effects"] == ["memory", "shell"]
    assert plain["arguments_json"] == '{"a":1}'
    assert from_plain(plain, ToolCallEvent).arguments == {"a": 1}


def test_what_comes_back_is_frozen_again():
    spec = from_json(to_json(ToolSpec("t", parameters={"required": ["a"]})), ToolSpec)

    with pytest.raises(TypeError):
        spec.parameters["required"] = ()  # type: ignore[index]
    assert spec.parameters["required"] == ("a",)


def test_answers_that_look_like_something_else_stay_what_they_are():
    for value in ({"type": "Message", "role": "user"}, {"type": "json"}, [{"type": "Text"}], "text", None):
        assert from_json(to_json(Respond(value)), Decision) == Respond(value)


def test_unknown_fields_are_ignored_and_tags_may_be_missing_where_only_one_class_is_possible():
    assert from_json(b'{"role":"user","content":[],"new_field":1}', Message) == Message(Role.USER)
    assert from_plain({"scope": {}, "message": {"role": "user"}}, TurnStarted) == TurnStarted(
        Scope(), Message(Role.USER)
    )


def test_the_hosts_own_records_are_understood_too():
    @attrs.frozen
    class Said:
        message: Message
        decision: Decision
        extra: "Json" = None
        pairs: tuple[tuple[str, str], ...] = ()

    @attrs.frozen
    class Gone:
        why: str

    said = Said(Message.user("hi"), Deny("no"), [1, {"a": None}], (("a", "b"),))

    assert from_json(to_json(said), Said | Gone) == said
    assert from_json(to_json(Gone("x")), Said | Gone) == Gone("x")


@each_of(
    ("data", "type", "says"),
    [
        (b"{", Message, "not JSON"),
        (b"[" * 100_000, Message, "not JSON"),
        (b"[]", Message, "not a Message: expected an object, got list"),
        (b"{}", Message, "not a Message: 'role' is missing"),
        (b'{"role":"king"}', Message, "not a Message: 'king' is not a valid Role"),
        (b'{"role":"user","content":[{"type":"Smell"}]}', Message, r"expected Text or Image .*got 'Smell'"),
        (b'{"type":"Text","text":"a"}', Message, "not a Message: expected Message, got 'Text'"),
        (b'{"text":5}', Text, "not a Text: expected str, got int"),
        (b'{"input":"5"}', Usage, "got str"),
        (b'{"input":true}', Usage, "got bool"),
        (b'{"goal":"g","steps":[{"id":"1","description":"","depends_on":["2"]}]}', Plan, "unknown step '2'"),
        (b'{"type":"Maybe"}', Decision, "expected Allow or Deny or Ask or Respond, got 'Maybe'"),
    ],
)
def test_what_is_not_such_a_value_is_refused_with_the_reason(data, type, says):
    with pytest.raises(ValueError, match=says):
        from_json(data, type)


@each_of("value", [ToolOutput(data=[math.nan]), Text("\ud800"), contract.ModelParameters(seed=None, top_p=math.inf)])
def test_what_json_cannot_say_is_refused(value):
    with pytest.raises(ValueError, match=r"not JSON|surrogate"):
        to_json(value)


@given(st.binary() | plain_json.map(lambda value: json.dumps(value).encode()))
def test_foreign_bytes_are_a_value_or_a_value_error(data):
    try:
        assert isinstance(from_json(data, Decision), Allow | Deny | contract.Ask | Respond)
    except ValueError as error:
        assert str(error)  # noqa: PT017 (either is fine)


class Word(str):
    """A text of a class of its own."""

    __slots__ = ()


@given(plain_json)
def test_any_json_comes_back_from_its_line(value):
    line = line_of(value)

    assert json.loads(line) == value
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1


@each_of(
    ("value", "line"),
    [
        ({"b": 1, "a": 2}, b'{"b":1,"a":2}\n'),
        ("天气", '"天气"\n'.encode()),
        ("half \ud83d", b'"half \xed\xa0\xbd"\n'),
        (None, b"null\n"),
        (["null"], b'["null"]\n'),
        (10**40, b"1" + b"0" * 40 + b"\n"),
        (Word("word"), b'"word"\n'),
        ({"at": math.inf}, b'{"at":Infinity}\n'),
    ],
)
def test_a_line_says_exactly_this(value, line):
    assert line_of(value) == line


def test_nan_is_written_and_what_is_not_json_is_not_a_line():
    assert math.isnan(json.loads(line_of({"cost": math.nan}))["cost"])
    with pytest.raises(TypeError):
        line_of({"what": object()})


def test_a_vote_of_a_class_of_its_own_is_written_with_all_it_has():
    class Longer(Vote):
        """A vote as a later version may have it."""

    made = DecisionMade(Scope("s"), "tool_call", "1", "d", "allow", "host", votes=(Vote("a", "none"), Longer("b", "x")))

    assert [vote["plugin"] for vote in to_plain(made)["votes"]] == ["a", "b"]
    assert from_plain(to_plain(Vote("a", "none")), Vote) == Vote("a", "none")
