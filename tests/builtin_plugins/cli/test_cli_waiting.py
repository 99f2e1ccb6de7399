import pytest
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


def test_nothing_is_said_of_a_short_wait(clock):
    waiting = Waiting("openai/m", clock)
    clock.now += 0.9

    assert waiting() == ""


@pytest.mark.parametrize(("seconds", "said"), [(1, "1 s"), (59.9, "59 s"), (60, "1 min 00 s"), (3725, "62 min 05 s")])
def test_a_model_is_waited_for_at_first(clock, seconds, said):
    waiting = Waiting("openai/m", clock)
    waiting.read(TurnStarted(Scope(), Message.user("hi")))
    clock.now += seconds

    assert waiting() == f"waiting for openai/m · {said}"


def test_tools_that_run_are_named_each_once_and_the_time_begins_anew(clock):
    waiting = Waiting("openai/m", clock)
    clock.now += 50
    for event in (started("b"), started("a\x1b"), finished("c")):
        waiting.read(event)
    clock.now += 2
    assert waiting() == "waiting for b, a\\x1b · 2 s"

    waiting.read(finished("b"))
    clock.now += 3
    assert waiting() == "waiting for a\\x1b · 3 s"

    waiting.read(finished("a\x1b"))
    clock.now += 4
    assert waiting() == "waiting for openai/m · 4 s"


def test_text_that_comes_is_no_new_wait(clock):
    waiting = Waiting("openai/m", clock)
    clock.now += 5
    waiting.read(TextShown(Scope(), "hello"))
    assert waiting() == "waiting for openai/m · 5 s"

    waiting.read(ModelCalled(Scope(), "openai/m", 0, Usage(), 5.0))
    assert waiting() == ""
