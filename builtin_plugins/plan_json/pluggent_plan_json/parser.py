"""The parser ``json``: from a model's text to a plan, and from a plan to its text."""

from __future__ import annotations

import json

from pluggent_hookspecs import Plan, PlanParseError

from pluggent_plan_json.json_nodes import Node, NotJsonError, kind_of
from pluggent_plan_json.plan_reader import Problem, read_plan
from pluggent_plan_json.plan_search import Found, find_plan

MAX_CHARACTERS = 262_144
MAX_PROBLEMS = 20

_INSTRUCTIONS = """\
Answer with the plan as one JSON object and nothing else:
{"goal": "what is to be reached", "steps": [
  {"id": "1", "description": "one piece of work, in a sentence"},
  {"id": "2", "description": "another one", "depends_on": ["1"]}
]}
"goal", "id" and "depends_on" may be left out. "depends_on" names the ids of the steps that have \
to be completed first; steps that do not wait for each other may run at the same time."""


class JsonPlanParser:
    """Reads plans from JSON, in prose or fences.

    A plan is an object with ``steps``, or the bare list of them. A step is an object with a
    ``description`` and, if need be, ``id`` and ``depends_on``; or just its description. Steps
    without an id are called by their number, from 1. What else an object holds is ignored.
    The goal given to ``parse`` counts; the one in the text only where none is given.
    """

    @property
    def name(self) -> str:
        """``json``."""
        return "json"

    @property
    def instructions(self) -> str:
        """Instructions for a model to write this notation."""
        return _INSTRUCTIONS

    def parse(self, text: str, goal: str = "") -> Plan:
        """Return the plan in *text*.

        Raises PlanParseError naming each problem with its path and line (the first 20). A
        text longer than 262,144 characters and JSON nested deeper than 32 are refused.

        >>> JsonPlanParser().parse('Here: ["cook", "eat"]', goal="lunch").steps[1].id
        '2'
        """
        if len(text) > MAX_CHARACTERS:
            raise PlanParseError([f"the text has {len(text):,} characters; a plan has at most {MAX_CHARACTERS:,}"])
        try:
            found = find_plan(text)
        except NotJsonError as error:
            raise _error(text, [_problem(error)]) from error
        if found.plan is None:
            raise _error(text, [_what_is_there(found)])
        plan, problems = read_plan(found.plan, goal)
        if plan is None:
            raise _error(text, problems)
        return plan


def render(plan: Plan) -> str:
    """Return *plan* as a text that parses to it. How far its steps are is not part of it.

    >>> from pluggent_hookspecs import Step
    >>> print(render(Plan("lunch", (Step("1", "cook"),))))
    {
      "goal": "lunch",
      "steps": [
        {
          "id": "1",
          "description": "cook",
          "depends_on": []
        }
      ]
    }
    """
    steps = [
        {"id": step.id, "description": step.description, "depends_on": list(step.depends_on)} for step in plan.steps
    ]
    return json.dumps({"goal": plan.goal, "steps": steps}, ensure_ascii=False, indent=2)


def _what_is_there(found: Found) -> Problem:
    if found.failure is not None:
        return _problem(found.failure)
    return _not_a_plan(found.other)


def _not_a_plan(other: Node | None) -> Problem:
    wanted = 'expected {"steps": [...]} or a list of steps'
    if other is None:
        return Problem("", f"no JSON found; {wanted}", None)
    return Problem("", f"{wanted}, found {kind_of(other)} that is neither", other.position)


def _problem(error: NotJsonError) -> Problem:
    return Problem(error.path, f"not JSON: {error.problem}", error.position)


def _error(text: str, problems: list[Problem]) -> PlanParseError:
    shown = problems[:MAX_PROBLEMS]
    lines = [_line(text, problem.position) for problem in shown]
    if len(problems) == 1:
        return PlanParseError([str(shown[0])], lines[0])
    told = [
        str(problem) if line is None else f"{problem} (line {line})" for problem, line in zip(shown, lines, strict=True)
    ]
    if len(problems) > MAX_PROBLEMS:
        told.append(f"and {len(problems) - MAX_PROBLEMS} more problems")
    return PlanParseError(told, lines[0])


def _line(text: str, position: int | None) -> int | None:
    return None if position is None else text.count("\n", 0, position) + 1
