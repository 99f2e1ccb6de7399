r"""What every plan parser has to do, as tests to be inherited.

    class TestMyParser(PlanParserConformance):
        def make_parser(self):
            return MyParser()

        def write(self, goal, steps):
            return "\n".join(f"{step.id}. {step.description}" for step in steps)

The tests need pytest and no plugin of it.
"""

# ruff: noqa: PLR2004 (these are tests: an expected number stands in its assertion)

from __future__ import annotations

from collections.abc import Sequence

import pytest
from pluggent_hookspecs import Plan, PlanParseError, PlanParser, Step

LUNCH = (Step("1", "buy rice"), Step("2", "cook it", ("1",)), Step("3", "买茶 🎉"), Step("4", "eat", ("2", "3")))
"""A plan with dependencies and more than Latin letters."""

NO_PLANS = {
    "empty": "",
    "white space": " \n\t\r\n ",
    "null": "null",
    "a number": "12",
    "an empty list": "[]",
    "an empty object": "{}",
    "NUL": "\x00",
    "lone surrogate": "\ud800",
}
"""Texts that are a plan in no notation."""

HOSTILE = {
    "deep lists": "[" * 100_000,
    "deep objects": '{"steps":' * 50_000,
    "deep steps": '{"steps":[' * 50_000,
    "closed deep lists": "[" * 100_000 + "]" * 100_000,
    "open quotes": '["' * 100_000,
    "escaped quotes": '["' + '\\"' * 100_000,
    "fences": "```\n" * 50_000,
    "unclosed fences": "```json\n{" * 50_000,
    "dashes": "- " * 100_000,
    "numbers": "1. " * 100_000,
    "a long number": '{"steps": [' + "9" * 100_000 + "]}",
    "a long line": "x" * 3_000_000,
    "many lines": "x\n" * 1_000_000,
    "many strings": '["a",' * 50_000,
    "broken steps": '{"steps": [' + '{"description": ' * 30_000,
    "broken objects": '{"a" 1 ' * 100_000,
    "NaN": '{"steps": [NaN, Infinity, -Infinity, 1e999]}',
    "lone surrogate": '{"steps": ["\ud800", "\\ud800"]}',
    "control characters": "".join(map(chr, range(32))) * 1000,
}
"""Texts that cost a careless parser its stack, its memory or an afternoon."""


class PlanParserConformance:
    """The promises of ``pluggent_hookspecs.PlanParser``. Inherit, and say how a parser is made.

    ``write`` renders steps in the parser's notation as they are, whether they make a plan or
    not; without it, what needs it is skipped.
    """

    def make_parser(self) -> PlanParser:
        """Return a parser."""
        raise TypeError(f"{type(self).__name__} does not say how a parser is made: write make_parser(self)")

    def write(self, goal: str, steps: Sequence[Step]) -> str:
        """Return *steps* (ids, descriptions, dependencies) in this notation, with *goal* if it can."""
        pytest.skip(f"no write() for this notation ({len(steps)} steps of '{goal}')")

    @pytest.fixture
    def parser(self) -> PlanParser:
        """Return the parser of this test."""
        return self.make_parser()

    def test_a_parser_is_a_plan_parser_with_a_name_and_instructions(self, parser: PlanParser) -> None:
        assert isinstance(parser, PlanParser)
        assert parser.name
        assert parser.instructions.strip()

    def test_what_is_written_is_read(self, parser: PlanParser) -> None:
        assert parser.parse(self.write("lunch", LUNCH), "lunch") == Plan("lunch", LUNCH)

    def test_reading_twice_gives_the_same_plan(self, parser: PlanParser) -> None:
        text = self.write("lunch", LUNCH)

        assert parser.parse(text, "lunch") == parser.parse(text, "lunch")

    def test_the_goal_that_is_given_counts(self, parser: PlanParser) -> None:
        assert parser.parse(self.write("lunch", LUNCH), "supper").goal == "supper"

    def test_a_plan_in_a_fence_is_found(self, parser: PlanParser) -> None:
        text = self.write("lunch", LUNCH)

        assert parser.parse(f"```\n{text}\n```\n", "lunch").steps == LUNCH

    def test_prose_around_a_plan_is_ignored(self, parser: PlanParser) -> None:
        text = f"Certainly! Here is what I would do.\n\n{self.write('lunch', LUNCH)}\n\nShall I begin?\n"

        assert parser.parse(text, "lunch").steps == LUNCH

    def test_other_line_ends_change_nothing(self, parser: PlanParser) -> None:
        assert parser.parse(self.write("lunch", LUNCH).replace("\n", "\r\n"), "lunch").steps == LUNCH

    @pytest.mark.parametrize("text", NO_PLANS.values(), ids=NO_PLANS)
    def test_what_is_no_plan_is_refused_with_a_reason(self, parser: PlanParser, text: str) -> None:
        assert all(_error(parser, text).problems)

    def test_a_plan_without_steps_is_refused(self, parser: PlanParser) -> None:
        _error(parser, self.write("lunch", ()))

    def test_steps_that_wait_for_each_other_are_refused(self, parser: PlanParser) -> None:
        text = self.write("lunch", (Step("1", "a", ("2",)), Step("2", "b", ("1",))))

        _error(parser, text)

    def test_a_step_that_waits_for_itself_is_refused(self, parser: PlanParser) -> None:
        _error(parser, self.write("lunch", (Step("1", "a", ("1",)),)))

    def test_a_dependency_that_does_not_exist_is_named(self, parser: PlanParser) -> None:
        assert "nine" in str(_error(parser, self.write("lunch", (Step("1", "a", ("nine",)),))))

    def test_an_id_used_twice_is_named(self, parser: PlanParser) -> None:
        assert "twin" in str(_error(parser, self.write("lunch", (Step("twin", "a"), Step("twin", "b")))))

    def test_every_problem_is_named(self, parser: PlanParser) -> None:
        error = _error(parser, self.write("lunch", (Step("1", "a", ("nine",)), Step("2", "b", ("ten",)))))

        assert "nine" in str(error)
        assert "ten" in str(error)

    @pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
    def test_hostile_texts_end_in_a_plan_or_a_parse_error(self, parser: PlanParser, text: str) -> None:
        read = _read(parser, text)

        assert read.steps if isinstance(read, Plan) else read.problems

    def test_errors_stay_short(self, parser: PlanParser) -> None:
        for text in HOSTILE.values():
            read = _read(parser, text)
            assert isinstance(read, Plan) or len(str(read)) < 10_000

    def test_long_plans_are_read_or_refused(self, parser: PlanParser) -> None:
        steps = [Step(str(i), f"step {i}", (str(i - 1),) if i > 1 else ()) for i in range(1, 5001)]

        read = _read(parser, self.write("long", steps))

        assert len(read.steps) == len(steps) if isinstance(read, Plan) else read.problems


def _read(parser: PlanParser, text: str) -> Plan | PlanParseError:
    """Return the plan or the error; anything else that is raised fails the test."""
    try:
        return parser.parse(text)
    except PlanParseError as error:
        return error


def _error(parser: PlanParser, text: str) -> PlanParseError:
    with pytest.raises(PlanParseError) as caught:
        parser.parse(text)
    assert caught.value.line is None or caught.value.line >= 1
    return caught.value
