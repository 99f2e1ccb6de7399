"""A reply in the form that was asked for: session.say(…, output=Type)."""

import json
import re
from typing import Annotated, Any, Literal, TypedDict

import attrs
import pytest
from fake_plugins import plugin
from pluggent_function_tools.structured_output import output_form
from pluggent_hookspecs import Deny, Message, ModelParameters, Param
from pluggent_hookspecs.errors import SessionError
from pluggent_host import Limits, Why
from pluggent_testing.fakes import ScriptedModel, call
from pluggent_transcript.entries import Said
from talking import talking


@attrs.frozen
class Stop:
    city: str
    days: Annotated[int, Param(ge=1)] = 1


@attrs.frozen
class Trip:
    """A journey."""

    stops: list[Stop]
    by: Literal["train", "ship"]


TRIP = '{"stops": [{"city": "Oslo", "days": 2}], "by": "train"}'


def rain(city: str) -> str:
    """Say whether it rains."""
    return f"rain in {city}"


async def planned(*replies: Any, output: Any = Trip, **options: Any) -> tuple[Any, Any]:
    """Ask for *output*; return the result and the closed session."""
    async with talking(*replies, **options) as session:
        return await session.say("plan", output=output), session


async def test_the_answer_arrives_as_a_value_of_the_type_and_every_request_carries_the_schema():
    model = ScriptedModel(call("rain", city="Oslo"), TRIP)
    result, _ = await planned(model=model, tools=[rain])

    assert result.output == result.value == Trip([Stop("Oslo", 2)], "train")
    assert result.why is Why.COMPLETED
    for request in model.requests:
        schema = request.parameters.output_schema
        assert schema is not None
        assert (schema["title"], schema["description"], schema["required"]) == ("Trip", "A journey.", ("stops", "by"))


async def test_an_answer_of_another_form_is_sent_back_once_by_the_host_with_all_that_is_wrong():
    result, session = await planned('{"stops": [{"city": 3}], "by": "car"}', TRIP)

    assert result.output.stops[0].city == "Oslo"
    assert [entry.by for entry in session.records() if isinstance(entry, Said)] == ["", "", "host", ""]
    asked = session.history[2].text
    assert '$.stops[0].city: 3 is not of type "string"' in asked
    assert "$.by" in asked


async def test_an_answer_that_stays_wrong_is_a_result_and_no_value():
    async with talking("no", "still no") as session:
        result = await session.say("plan", output=Trip)

        assert result.why is Why.INVALID_OUTPUT
        assert "not valid JSON" in result.detail
        assert result.value is None
        with pytest.raises(SessionError, match="ended as invalid_output: not valid JSON"):
            _ = result.output
        assert (await session.say("go on")).text == "done"


@pytest.mark.parametrize(
    ("replies", "options", "why"),
    [
        (["1", "2", "3", TRIP], {"limits": Limits(repairs=3)}, Why.COMPLETED),
        (["1", TRIP], {"limits": Limits(repairs=0)}, Why.INVALID_OUTPUT),
        (["no", TRIP], {"limits": Limits(model_calls=1)}, Why.LIMIT),
        (["no", TRIP], {"plugins": [plugin(decide_model_request=lambda e: Deny("") if e.round else None)]}, Why.DENIED),
    ],
    ids=["as often as the limit", "never", "a repair counts as a model call", "a repair is under all policies"],
)
async def test_how_often_it_is_sent_back(replies: Any, options: Any, why: Why):
    result, _ = await planned(*replies, **options)

    assert result.why is why
    assert (result.value is not None) is (why is Why.COMPLETED)


async def test_what_is_read_is_what_the_output_policies_let_pass_or_a_layer_answers():
    async def cache(event: Any, call_next: Any) -> str:
        return TRIP

    redactor = plugin(transform_output=lambda e: Message.assistant(e.message.text.replace("Oslo", "[city]")))
    redacted, _ = await planned(TRIP, plugins=[redactor])
    cached, _ = await planned(plugins=[plugin(around_turn=cache)])

    assert (redacted.output.stops[0].city, cached.output.by) == ("[city]", "train")


async def test_a_stream_has_the_value_in_its_result():
    async with talking("x", TRIP) as session, session.stream("plan", output=Trip) as events:
        async for _ in events:
            pass

    assert events.result.output.by == "train"


async def test_a_schema_gives_a_dict():
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    result, _ = await planned('{"n": "one"}', '{"n": 1}', output=schema)

    assert result.output == {"n": 1}


async def test_nothing_can_be_the_value():
    async with talking('{"value": null}', "plain") as session:
        result = await session.say("who?", output=str | None)
        plain = await session.say("go on")

    assert result.output is None
    with pytest.raises(SessionError, match="the turn ended as completed"):
        _ = plain.output


async def test_a_form_that_cannot_be_asked_for_is_an_error_before_anything_runs():
    model = ScriptedModel()
    async with talking(model=model) as session:
        with pytest.raises(SessionError, match="both given"):
            await session.say("x", output=Trip, parameters=ModelParameters(output_schema={"type": "object"}))
        with pytest.raises(TypeError, match="output: type TestError is not supported"):
            await session.say("x", output=type("TestError", (), {}))
        with pytest.raises(TypeError, match="that of an object"):
            await session.say("x", output={"type": "array"})

    assert (session.history, model.requests) == ((), [])


class Movie(TypedDict):
    title: str
    year: int


@attrs.frozen
class Node:
    name: str
    inside: list["Node"] = attrs.field(factory=list)


@pytest.mark.parametrize(
    ("wanted", "text", "value"),
    [
        (Stop, '{"city": "Oslo"}', Stop("Oslo")),
        (Stop, '```json\n{"city": "Oslo"}\n```', Stop("Oslo")),
        (Stop, '  ```\n{"city": "Oslo"}\n```\n', Stop("Oslo")),
        (Movie, '{"title": "Ran", "year": 1985}', {"title": "Ran", "year": 1985}),
        (Node, '{"name": "a", "inside": [{"name": "b"}]}', Node("a", [Node("b")])),
        (int, '{"value": 3}', 3),
        (list[int], '{"value": [1, 2]}', [1, 2]),
        (str | None, '{"value": null}', None),
        (dict[str, int], '{"a": 1}', {"a": 1}),
    ],
)
def test_a_form_reads_what_it_describes(wanted: Any, text: str, value: Any) -> None:
    assert output_form(wanted).read(text) == value


@pytest.mark.parametrize(
    ("wanted", "text", "problem"),
    [
        (Stop, "", "it is empty"),
        (Stop, "{}", "$.city: is required"),
        (Stop, '{"city": "Oslo", "days": 0}', "$.days: 0 is less than the minimum of 1"),
        (Stop, '{"city": "Oslo", "country": "NO"}', "$.country: is not a known property"),
        (Stop, 'Here it is: {"city": "Oslo"}', "not valid JSON"),
        (Stop, '{"city": NaN}', "not valid JSON"),
        (Stop, "[" * 100_000, "nested more than 64 levels deep"),
        (list[int], '{"value": ["a"]}', '$.value[0]: "a" is not of type "integer"'),
        (list[int], "[1]", "expected a JSON object, got an array"),
    ],
)
def test_a_form_says_what_is_wrong_and_where(wanted: Any, text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=re.escape(problem)):
        output_form(wanted).read(text)


def test_a_schema_of_a_class_that_contains_itself_refers_to_what_is_there() -> None:
    schema = json.loads(json.dumps(output_form(Node).schema, default=dict))

    assert schema["properties"]["inside"]["items"] == {"$ref": "#/$defs/Node"}
    assert set(schema["$defs"]) == {"Node"}
