"""What a turn is waiting for, and for how long."""

import pytest
from each_of import each_of
from pluggent_cli.terminal.screen import Waiting
from pluggent_hookspecs import Message, ToolOutput, Usage
from pluggent_hookspecs.events import Scope
from pluggent_hookspecs.observations import ModelCalled, TextShown, ToolFinished, ToolStarted, TurnStarted


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def started(name: str) -> ToolStarted:
    return ToolStarted(Scope(), f"id of {name}", name, f"p:tool/{name}", b"{}")


def finished(name: str) -> ToolFinished:
    return ToolFinished(Scope(), f"id of {name}", name, f"p:tool/{name}", ToolOutput("x"), 0.1)


@each_of(("seconds", "shown"), [(0.9, ""), (1, "1 s"), (59.9, "59 s"), (60, "1 min 00 s"), (3725, "62 min 05 s")])
def test_a_model_is_waited_for_at_first_and_a_short_wait_is_not_shown(seconds, shown):
    clock = Clock()
    waiting = Waiting("openai/m", clock)
    waiting.read(TurnStarted(Scope(), Message.user("hi")))
    clock.now += seconds

    assert waiting() == (shown and f"waiting for openai/m · {shown}")


def test_tools_that_run_are_named_each_once_and_the_time_begins_anew(clock):
    waiting = Waiting("openai/m", clock)
    clock.now += 50
    for event in (started("b"), started("a\x1b"), finished("c")):
        waiting.read(event)
    clock.now += 2
    assert waiting() == "waiting for b, a\\x1b · 2 s"

    for number, (name, left) in enumerate((("b", "a\\x1b"), ("a\x1b", "openai/m")), 3):
        waiting.read(finished(name))
        clock.now += number
        assert waiting() == f"waiting for {left} · {number} s"


def test_text_that_comes_is_no_new_wait(clock):
    waiting = Waiting("openai/m", clock)
    clock.now += 5
    waiting.read(TextShown(Scope(), "hello"))
    assert waiting() == "waiting for openai/m · 5 s"

    waiting.read(ModelCalled(Scope(), "openai/m", 0, Usage(), 5.0))
    assert waiting() == ""
