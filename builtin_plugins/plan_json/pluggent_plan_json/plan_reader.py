"""Makes a plan of JSON that was found, and names every problem of it. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

import attrs
from pluggent_hookspecs import Plan, Step

from pluggent_plan_json.json_nodes import ConstantNode, ListNode, Node, NumberNode, ObjectNode, TextNode, kind_of

MAX_STEPS = 500
MAX_ID = 64

_INTEGER = re.compile(r"-?[0-9]+")


@attrs.frozen
class Problem:
    """What is wrong, at which path, and at which character of the text (None: nowhere)."""

    path: str
    what: str
    position: int | None

    def __str__(self) -> str:
        return f"{self.path}: {self.what}" if self.path else self.what


@attrs.frozen
class _Draft:
    """A step as far as it could be read, and where its parts stood; ``id`` is empty if unusable."""

    path: str
    position: int
    id: str
    description: str
    depends_on: tuple[tuple[str, Problem], ...] = ()
    numbered: bool = False


def read_plan(node: Node, goal: str) -> tuple[Plan | None, list[Problem]]:
    """Return the plan that *node* describes, or None and all its problems."""
    reading = _Reading()
    written_goal = ""
    items: Node = node
    path = ""
    if isinstance(node, ObjectNode):
        written_goal = reading.goal(node)
        items, path = node.members["steps"], "steps"
    drafts = reading.steps(items, path)
    problems = [*reading.problems, *_disagreements(drafts)]
    if not problems:
        problems = _circles(drafts)
    if problems:
        return None, problems
    steps = tuple(Step(draft.id, draft.description, tuple(id for id, _ in draft.depends_on)) for draft in drafts)
    return Plan(goal or written_goal, steps), []


class _Reading:
    """Reads one plan and gathers its problems."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []

    def goal(self, node: ObjectNode) -> str:
        goal = node.members.get("goal")
        if goal is None or _is_null(goal):
            return ""
        if not isinstance(goal, TextNode):
            self._note("goal", f"expected text, found {kind_of(goal)}", goal)
            return ""
        return goal.text

    def steps(self, node: Node, path: str) -> list[_Draft]:
        if not isinstance(node, ListNode):
            self._note(path, f"expected a list of steps, found {kind_of(node)}", node)
            return []
        if not node.items:
            self._note(path, "a plan has at least one step", node)
        if len(node.items) > MAX_STEPS:
            self._note(path, f"{len(node.items)} steps; a plan has at most {MAX_STEPS}", node)
            return []
        return [self._step(item, f"{path}[{index}]", str(index + 1)) for index, item in enumerate(node.items)]

    def _step(self, node: Node, path: str, number: str) -> _Draft:
        if isinstance(node, TextNode):
            return _Draft(path, node.position, number, self._description(node, node, path), numbered=True)
        if not isinstance(node, ObjectNode):
            self._note(path, f"expected a step (an object, or its description), found {kind_of(node)}", node)
            return _Draft(path, node.position, "", "")
        description = self._description(node.members.get("description"), node, f"{path}.description")
        given = node.members.get("id")
        numbered = given is None or _is_null(given)
        id = number if given is None or numbered else self._id(given, f"{path}.id")
        depends_on = tuple(self._depends_on(node.members.get("depends_on"), f"{path}.depends_on"))
        return _Draft(path, (given or node).position, id, description, depends_on, numbered)

    def _description(self, node: Node | None, step: Node, path: str) -> str:
        if node is None:
            self._note(path, "missing", step)
        elif not isinstance(node, TextNode):
            self._note(path, f"expected text, found {kind_of(node)}", node)
        elif not node.text.strip():
            self._note(path, "empty", node)
        else:
            return node.text
        return ""

    def _id(self, node: Node, path: str) -> str:
        if isinstance(node, NumberNode) and _INTEGER.fullmatch(node.raw):
            id = node.raw
        elif isinstance(node, TextNode):
            id = node.text
        else:
            self._note(path, f"expected text or a whole number, found {kind_of(node)}", node)
            return ""
        if not id.strip() or len(id) > MAX_ID:
            self._note(path, f"an id has 1 to {MAX_ID} characters", node)
            return ""
        return id

    def _depends_on(self, node: Node | None, path: str) -> Iterator[tuple[str, Problem]]:
        if node is None or _is_null(node):
            return
        if not isinstance(node, ListNode):
            self._note(path, f"expected a list of ids, found {kind_of(node)}", node)
            return
        for index, item in enumerate(node.items):
            where = f"{path}[{index}]"
            if id := self._id(item, where):
                yield id, Problem(where, f"there is no step '{id}'", item.position)

    def _note(self, path: str, what: str, node: Node) -> None:
        self.problems.append(Problem(path, what, node.position))


def _is_null(node: Node) -> bool:
    return isinstance(node, ConstantNode) and node.name == "null"


def _disagreements(drafts: list[_Draft]) -> Iterator[Problem]:
    """Yield what the steps say against each other: ids used twice, unknown ids."""
    first: dict[str, _Draft] = {}
    for draft in drafts:
        if draft.id and (taken := first.setdefault(draft.id, draft)) is not draft:
            whose = "its number is the id" if draft.numbered else "has the id"
            yield Problem(draft.path, f"{whose} '{draft.id}' that {taken.path} has", draft.position)
    # While an id could not be read, it is unknown whether it was the referenced one.
    if all(draft.id for draft in drafts):
        for draft in drafts:
            yield from (missing for id, missing in draft.depends_on if id not in first)


def _circles(drafts: list[_Draft]) -> list[Problem]:
    """Return the steps that wait for each other, as one problem."""
    waiting_for = {draft.id: {id for id, _ in draft.depends_on} for draft in drafts}
    followers: dict[str, list[str]] = {id: [] for id in waiting_for}
    for id, needed in waiting_for.items():
        for each in needed:
            followers[each].append(id)
    free = [id for id, needed in waiting_for.items() if not needed]
    while free:
        done = free.pop()
        del waiting_for[done]
        for id in followers[done]:
            waiting_for[id].discard(done)
            if not waiting_for[id]:
                free.append(id)
    if not waiting_for:
        return []
    stuck = next(draft for draft in drafts if draft.id in waiting_for)
    names = ", ".join(f"'{id}'" for id in waiting_for)
    return [Problem(f"{stuck.path}.depends_on", f"steps wait for each other: {names}", stuck.position)]
