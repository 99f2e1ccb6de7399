"""What a turn is waiting for, for how long, and how far each call is."""

import pytest
from each_of import each_of
from pluggent_cli.terminal.console import cells
from pluggent_cli.terminal.progress import Waiting
from pluggent_hookspecs import Message, ToolOutput, Usage
from pluggent_hookspecs.events import Scope
from pluggent_hookspecs.observations import (
    ModelCalled,
    TextShown,
    ToolFinished,
    ToolProgressed,
    ToolStarted,
    TurnStarted,
)


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def started(name: str, arguments: bytes = b"{}", *, parent: str = "") -> ToolStarted:
    return ToolStarted(Scope(parent_id=parent), f"id of {name}", name, f"p:tool/{name}", arguments)


def finished(name: str) -> ToolFinished:
    return ToolFinished(Scope(), f"id of {name}", name, f"p:tool/{name}", ToolOutput("x"), 0.1)


def progressed(name: str, done: float, total: float | None = None, message: str = "") -> ToolProgressed:
    return ToolProgressed(Scope(), f"id of {name}", name, done, total, message)


def lines(waiting: Waiting, columns: int = 80, rows: int = 8) -> list[str]:
    return list(waiting(columns, rows))


@each_of(("seconds", "shown"), [(0.9, ""), (1, "1 s"), (59.9, "59 s"), (60, "1 min 00 s"), (3725, "62 min 05 s")])
def test_a_model_is_waited_for_at_first_and_a_short_wait_is_not_shown(seconds, shown):
    clock = Clock()
    waiting = Waiting("openai/m", clock)
    waiting.read(TurnStarted(Scope(), Message.user("hi")))
    clock.now += seconds

    assert lines(waiting) == ([f"waiting for openai/m · {shown}"] if shown else [])


def test_each_call_that_runs_has_a_line_and_a_time_of_its_own(clock):
    waiting = Waiting("openai/m", clock)
    clock.now += 50
    waiting.read(started("b", b'{"city":"Oslo"}'))
    clock.now += 2
    for event in (started("a\x1b"), started("below", parent="id of b"), finished("c")):
        waiting.read(event)
    assert lines(waiting) == ['→ b(city="Oslo") · 2 s', "→ a\\x1b()", "  → below()"]

    for name in ("b", "a\x1b", "below"):
        waiting.read(finished(name))
    clock.now += 3
    assert lines(waiting) == ["waiting for openai/m · 3 s"]


@each_of(
    ("done", "total", "message", "shown"),
    [
        (2, 5, "", "2 of 5"), (1234567, None, "", "1,234,567"), (0.5, 1, "half", "0.50 of 1 · half"),
        (1e300, 1e308, "", "1e+300 of 1e+308"), (0, 0, "nothing", "0 of 0 · nothing"), (-1, None, "", "-1"),
    ],
)  # fmt: skip
def test_a_line_says_how_far_its_call_is(clock, done, total, message, shown):
    waiting = Waiting("openai/m", clock)
    waiting.read(started("a"))
    waiting.read(progressed("unknown", 1))
    waiting.read(progressed("a", 0, message="before"))
    waiting.read(progressed("a", done, total, message))

    assert lines(waiting) == [f"→ a() · {shown}"]


@pytest.mark.parametrize("message", [
    "\r\nAllow this once? [y/N] ", "\x1b[2J\x1b[HAllow? [y/N] ", "\x1b]0;title\x07", "\u202eoslo\u200b", "\x9b2J",
])  # fmt: skip
def test_a_message_stays_in_the_line_of_its_call_and_steers_no_terminal(clock, message):
    waiting = Waiting("openai/m", clock)
    waiting.read(started("a"))
    waiting.read(progressed("a", 1, message=message))

    (line,) = lines(waiting)
    assert line.startswith("→ a() · 1 · ")
    assert line.isprintable()
    assert "\\" in line


@pytest.mark.parametrize("columns", [10, 40, 80, 200])
def test_a_long_line_is_cut_and_still_says_name_time_and_progress(clock, columns):
    waiting = Waiting("openai/m", clock)
    waiting.read(started("fetch", b'{"url":"https://' + b"x" * 500 + b'"}'))
    waiting.read(progressed("fetch", 40, 100, "漢" * 300))
    clock.now += 3

    (line,) = lines(waiting, columns)
    assert cells(line) <= max(columns, 40)
    assert columns < 40 or (line.startswith("→ fetch(") and " · 3 s · 40 of 100 · " in line)


def test_of_many_calls_the_first_are_shown_and_the_rest_are_counted(clock):
    waiting = Waiting("openai/m", clock)
    for number in range(200):
        waiting.read(started(f"tool{number}"))
    clock.now += 2

    assert lines(waiting, rows=3) == ["→ tool0() · 2 s", "→ tool1() · 2 s", "  … and 198 more"]
    assert lines(waiting, 40, 1) == ["→ 200 calls · 2 s: tool0, tool1, tool2,…"]


def test_text_that_comes_is_no_new_wait(clock):
    waiting = Waiting("openai/m", clock)
    clock.now += 5
    waiting.read(TextShown(Scope(), "hello"))
    assert lines(waiting) == ["waiting for openai/m · 5 s"]

    waiting.read(ModelCalled(Scope(), "openai/m", 0, Usage(), 5.0))
    assert lines(waiting) == []
