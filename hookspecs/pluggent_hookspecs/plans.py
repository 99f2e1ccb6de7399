"""Plans as data: steps, what they wait for, and how far they are."""

from __future__ import annotations

from collections import Counter
from enum import StrEnum
from typing import Protocol, runtime_checkable

import attrs

from pluggent_hookspecs._value import Value

__all__ = ["Plan", "PlanParser", "Step", "StepStatus"]


class StepStatus(StrEnum):
    """pending → running → completed | failed | skipped, one way; pending → skipped too."""

    PENDING = "pending"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    SKIPPED = "skipped"


_NEXT = {
    StepStatus.PENDING: {StepStatus.RUNNING, StepStatus.SKIPPED},
    StepStatus.RUNNING: {StepStatus.COMPLETED, StepStatus.FAILED, StepStatus.SKIPPED},
}


@attrs.frozen(repr=False)
class Step(Value):
    """One piece of work. ``depends_on`` holds ids of steps that must be completed first."""

    id: str
    description: str
    depends_on: tuple[str, ...] = ()
    status: StepStatus = StepStatus.PENDING
    result: str | None = None


@attrs.frozen(repr=False)
class Plan(Value):
    """A goal and the steps to it. Ids are unique, dependencies exist and form no circle.

    >>> plan = Plan("lunch", (Step("1", "cook"), Step("2", "eat", depends_on=("1",))))
    >>> [step.id for step in plan.ready()]
    ['1']
    >>> plan.moved("1", StepStatus.RUNNING).moved("1", StepStatus.COMPLETED).ready()[0].id
    '2'
    """

    goal: str
    steps: tuple[Step, ...]

    def __attrs_post_init__(self) -> None:
        problems = _problems(self.steps)
        if problems:
            raise ValueError("; ".join(problems))

    def step(self, id: str) -> Step:
        """Return the step called *id*. Raises KeyError if there is none."""
        for step in self.steps:
            if step.id == id:
                return step
        raise KeyError(id)

    def ready(self) -> tuple[Step, ...]:
        """Return the pending steps whose dependencies are completed, in order."""
        done = {step.id for step in self.steps if step.status is StepStatus.COMPLETED}
        return tuple(
            step for step in self.steps if step.status is StepStatus.PENDING and done.issuperset(step.depends_on)
        )

    def moved(self, id: str, status: StepStatus, result: str | None = None) -> Plan:
        """Return this plan with one step further on. Raises ValueError for a way back."""
        old = self.step(id)
        if status not in _NEXT.get(old.status, ()):
            raise ValueError(f"step '{id}' is {old.status} and cannot become {status}")
        new = attrs.evolve(old, status=status, result=old.result if result is None else result)
        return attrs.evolve(self, steps=tuple(new if step.id == id else step for step in self.steps))


def _problems(steps: tuple[Step, ...]) -> list[str]:
    ids = Counter(step.id for step in steps)
    problems = [f"step id '{id}' is used {times} times" for id, times in ids.items() if times > 1]
    waiting: dict[str, set[str]] = {}
    for step in steps:
        problems += [f"step '{step.id}' depends on unknown step '{d}'" for d in step.depends_on if d not in ids]
        waiting[step.id] = {d for d in step.depends_on if d in ids}
    while free := [id for id, on in waiting.items() if not on]:
        for id in free:
            del waiting[id]
        for on in waiting.values():
            on.difference_update(free)
    if waiting:
        problems.append(f"steps wait for each other: {', '.join(waiting)}")
    return problems


@runtime_checkable
class PlanParser(Protocol):
    """Reads plans in one notation."""

    @property
    def name(self) -> str:
        """The short name, usually that of the entry point."""
        ...

    @property
    def instructions(self) -> str:
        """What to tell a model so that it writes this notation."""
        ...

    def parse(self, text: str, goal: str = "") -> Plan:
        """Return the plan in *text*, what surrounds it ignored.

        Raises PlanParseError with every problem found. Pure, no input or output, bounded
        in time by the length of *text*.
        """
        ...
