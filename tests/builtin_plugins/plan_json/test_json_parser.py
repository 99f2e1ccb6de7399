from __future__ import annotations

import json
from collections.abc import Sequence

import pytest
from hypothesis import given, strategies as st
from pluggent_hookspecs import Plan, PlanParseError, ProvideEvent, Step, StepStatus
from pluggent_plan_json.parser import JsonPlanParser, render
from pluggent_plan_json.plugin import PlanJson
from pluggent_testing.parsers import PlanParserConformance


class TestJsonPlanParser(PlanParserConformance):
    def make_parser(self) -> JsonPlanParser:
        return JsonPlanParser()

    def write(self, goal: str, steps: Sequence[Step]) -> str:
        drafts = [{"id": step.id, "description": step.description, "depends_on": step.depends_on} for step in steps]
        return json.dumps({"goal": goal, "steps": drafts}, indent=1)


def parse(text: str, goal: str = "") -> Plan:
    return JsonPlanParser().parse(text, goal)


def parsed(text: str) -> Plan | PlanParseError:
    try:
        return parse(text)
    except PlanParseError as error:
        return error


def refused(text: str) -> PlanParseError:
    with pytest.raises(PlanParseError) as caught:
        parse(text)
    return caught.value


def test_the_plugin_offers_the_parser_json():
    (parser,) = PlanJson().provide_parsers(ProvideEvent())

    assert parser.name == "json"
    assert '"steps"' in parser.instructions


def test_the_instructions_hold_a_plan_that_is_read():
    assert [step.depends_on for step in parse(JsonPlanParser().instructions).steps] == [(), ("1",)]


@pytest.mark.parametrize(
    "text",
    [
        '{"steps": [{"description": "cook"}, {"description": "eat"}]}',
        '{"steps": ["cook", {"description": "eat", "id": null, "depends_on": null, "mood": "good"}], "note": 1.5}',
        '[{"description": "cook"}, {"description": "eat", "depends_on": []}]',
        '["cook", "eat"]',
        '{"goal": null, "steps": [{"id": 1, "description": "cook"}, {"id": "2", "description": "eat"}]}',
        '\ufeff```json\n{"steps": ["cook", "eat"]}\n```',
        'Options: [1], {a, b} and [see below]. :-[ Here it is: {"steps": ["cook", "eat"]} [2] {}',
        '[1, 2] then {"answer": 42} then ["cook", "eat"]',
        '["an aside"] and {"steps": ["cook", "eat"]}',
    ],
)
def test_every_form_of_a_plan_is_read(text: str):
    assert parse(text, "lunch") == Plan("lunch", (Step("1", "cook"), Step("2", "eat")))


def test_whole_numbers_are_ids():
    plan = parse('[{"id": 7, "description": "cook"}, {"id": 8, "description": "eat", "depends_on": [7, "7"]}]')

    assert plan.steps[1] == Step("8", "eat", ("7", "7"))


def test_the_goal_in_the_text_counts_where_none_is_given():
    text = '{"goal": "lunch", "steps": ["cook"]}'

    assert (parse(text).goal, parse(text, "supper").goal) == ("lunch", "supper")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("I would rather not.", 'no JSON found; expected {"steps": [...]} or a list of steps'),
        ("\n{}", 'line 2: expected {"steps": [...]} or a list of steps, found an object that is neither'),
        ("[1, 2]", 'line 1: expected {"steps": [...]} or a list of steps, found a list that is neither'),
        ('{"steps": []}', "line 1: steps: a plan has at least one step"),
        ('{"steps":\n "cook"}', "line 2: steps: expected a list of steps, found text"),
        ('{"steps": [\n\n5]}', "line 3: steps[0]: expected a step (an object, or its description), found a number"),
        ('{"steps": ["a", {}]}', "line 1: steps[1].description: missing"),
        ('[{"description": "a"}, {"description": null}]', "line 1: [1].description: expected text, found null"),
        ('{"steps": [" "]}', "line 1: steps[0]: empty"),
        (
            '{"steps": [{"id": 1.5, "description": "a"}]}',
            "line 1: steps[0].id: expected text or a whole number, found a number",
        ),
        ('{"steps": [{"id": "", "description": "a"}]}', "line 1: steps[0].id: an id has 1 to 64 characters"),
        ('{"steps": ["a"], "goal": []}', "line 1: goal: expected text, found a list"),
        (
            '{"steps": [{"description": "a", "depends_on": "1"}]}',
            "line 1: steps[0].depends_on: expected a list of ids, found text",
        ),
        (
            '{"steps": [{"description": "a",\n"depends_on": [9]}]}',
            "line 2: steps[0].depends_on[0]: there is no step '9'",
        ),
        (
            '{"steps": [{"id": "2", "description": "a"},\n"b"]}',
            "line 2: steps[1]: its number is the id '2' that steps[0] has",
        ),
        (
            '{"steps": [{"id": "x", "description": "a"},\n{"id": "x", "description": "b"}]}',
            "line 2: steps[1]: has the id 'x' that steps[0] has",
        ),
        (
            '{"steps": [{"description": "a", "depends_on": [2]}, {"description": "b", "depends_on": [1]}, "c"]}',
            "line 1: steps[0].depends_on: steps wait for each other: '1', '2'",
        ),
    ],
)
def test_a_problem_is_named_with_its_path_and_line(text: str, message: str):
    assert str(refused(text)) == message


def test_all_problems_are_named_at_once():
    error = refused('{"goal": 1,\n"steps": [{},\n{"description": "a", "id": [], "depends_on": ["z"]}]}')

    assert error.problems == (
        "goal: expected text, found a number (line 1)",
        "steps[0].description: missing (line 2)",
        "steps[1].id: expected text or a whole number, found a list (line 3)",
    )
    assert error.line == 1


def test_of_very_many_problems_the_first_are_named():
    error = refused(json.dumps({"steps": [1] * 100}))

    assert len(error.problems) == 21
    assert error.problems[-1] == "and 80 more problems"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"steps": ["a",]}', "line 1: steps[1]: not JSON: expected a value, found ']'"),
        ('{"steps": ["a" "b"]}', "line 1: steps: not JSON: expected ',' or ']', found '\"'"),
        ('{"steps": ["a"', "line 1: steps: not JSON: expected ',' or ']', found the end of the text"),
        ('{"steps": ["a\n"]}', "line 1: steps[0]: not JSON: this text is not closed on its line"),
        ('{"steps": ["\\q"]}', "line 1: steps[0]: not JSON: an escape that JSON does not know"),
        ('{"steps": ["\\ud800"]}', "line 1: steps[0]: not JSON: a lone surrogate"),
        ('{"steps": ["a"], "x": NaN}', "line 1: x: not JSON: expected a value, found 'NaN'"),
        ('{"steps": ["a"], "x": 01}', "line 1: x: not JSON: expected a value, found '01'"),
        ('{"steps": ["a"],\n"steps": ["b"]}', "line 2: not JSON: the name 'steps' is there twice"),
        ('{"steps": [{"description": "a", "description": "b"}]}', "the name 'description' is there twice"),
        ("{'steps': ['a']}", 'not JSON: expected a name in double quotes, found "\'"'),
        ("{steps: ['a']}", "not JSON: expected a name in double quotes, found 'steps'"),
        ('{"steps"= ["a"]}', "not JSON: expected ':' after 'steps', found '='"),
        ('{"steps": ' + "[" * 40 + "]" * 40 + "}", "not JSON: nested deeper than 32"),
        ('["a", "b",]', "line 1: [2]: not JSON: expected a value, found ']'"),
    ],
)
def test_broken_json_is_named_at_its_line(text: str, problem: str):
    assert problem in str(refused(text))


@pytest.mark.parametrize(
    "text",
    [
        '{"goal": oops, "steps": [{"description": "a"}]}',
        '{"steps": ["a" "b", ["c"]]}',
        '["a" "b", ["c"]]',
        '{goal: "x", "steps": ["a"]}',
        '{"steps": ["a",], "later": {"steps": ["b"]}}',
    ],
)
def test_a_part_of_a_broken_plan_is_not_taken_for_the_plan(text: str):
    assert "not JSON" in str(refused(text))


def test_too_long_texts_and_plans_are_refused():
    assert "at most 262,144" in str(refused("x" * 262_145))
    assert "501 steps; a plan has at most 500" in str(refused(json.dumps(["a"] * 501)))
    assert len(parse(json.dumps(["a"] * 500)).steps) == 500


def test_how_far_steps_are_is_not_rendered():
    plan = Plan("lunch", (Step("1", "cook"),))

    assert parse(render(plan.moved("1", StepStatus.RUNNING))) == plan


word = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20).filter(str.strip)


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    ids = draw(st.lists(word, min_size=1, max_size=6, unique=True))
    before = [st.lists(st.sampled_from(ids[:i])) if i else st.just([]) for i in range(len(ids))]
    steps = [Step(id, draw(word), tuple(draw(earlier))) for id, earlier in zip(ids, before, strict=True)]
    return Plan(draw(word), tuple(draw(st.permutations(steps))))


@given(plans())
def test_a_rendered_plan_parses_back_to_itself(plan: Plan):
    assert parse(f"So:\n```json\n{render(plan)}\n```\nGood?") == plan


json_values = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text() | st.sampled_from(["1", "2"]),
    lambda inner: (
        st.lists(inner)
        | st.dictionaries(st.text() | st.sampled_from(["goal", "steps", "id", "description", "depends_on"]), inner)
    ),
)
pieces = st.sampled_from([*'[]{}":,\\ \n', '"steps"', "steps", '"description":', '"a"', "1", "NaN", "```json\n", "x"])


@given(json_values.map(json.dumps) | st.lists(pieces).map("".join) | st.text())
def test_nothing_but_parse_errors_is_raised(text: str):
    read = parsed(text)

    assert read.steps if isinstance(read, Plan) else read.problems
