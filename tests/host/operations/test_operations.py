"""The one sequence, seen from inside: what may be executed, and how often."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import attrs
import pytest
from each_of import shown
from pluggent_hookspecs import (
    Ask,
    Decision,
    Denied,
    Deny,
    HookError,
    HookFailed,
    Message,
    Respond,
    ToolFinished,
    ToolOutput,
    ToolStarted,
    hookimpl,
)
from pluggent_host.operations.outcomes import Ready
from pluggent_host.settings import HostSettings, Limits, Timeouts
from pluggent_testing.fakes import call
from policy_stage import NAMES, Danger, in_order, reach, results, stage

both_forms = pytest.mark.parametrize("is_async", [False, True])


def test_a_right_to_execute_cannot_be_made_outside() -> None:
    with pytest.raises(TypeError, match=r"Operations\.decide"):
        Ready(object(), None, None)  # type: ignore[arg-type] # that is the point


# ---- the sequence


async def test_everything_happens_in_its_order() -> None:
    log: list[str] = []

    class Everything:
        @hookimpl
        def transform_tool_call(self, event):
            log.append(f"transform {bool(event.digest)}")

        @hookimpl
        def decide_tool_call(self, event):
            log.append(f"decide {bool(event.digest)}")

        @hookimpl
        async def around_tool_call(self, event, call_next):
            log.append("around")
            output = await call_next()
            log.append("around back")
            return output

        @hookimpl
        def transform_tool_result(self, event):
            log.append("transform result")

        @hookimpl
        def decide_tool_result(self, event):
            log.append(f"decide result {bool(event.digest)}")

        @hookimpl(events=(ToolStarted, ToolFinished))
        def observe(self, event):
            log.append(type(event).__name__)

    await reach("say", [Everything()])

    assert log == [
        "transform False", "decide True", "ToolStarted", "around", "around back",
        "transform result", "decide result True", "ToolFinished",
    ]  # fmt: skip


async def test_transforms_are_a_pipeline() -> None:
    class Adds:
        def __init__(self, letter: str) -> None:
            self.letter = letter

        @hookimpl
        def transform_tool_call(self, event):
            return {"path": event.arguments["path"] + self.letter}

        @hookimpl
        def transform_tool_result(self, event):
            return ToolOutput(f"{event.output.for_model}{self.letter}")

    seen = await reach("say", in_order(*(Adds(letter) for letter in NAMES[:3])))

    assert seen.ran == ("xabc",)
    assert seen.told == ("did xabcabc",)


async def test_the_onion_is_entered_in_order_and_left_in_reverse() -> None:
    log: list[str] = []

    class Layer:
        def __init__(self, name: str) -> None:
            self.name = name

        @hookimpl
        async def around_tool_call(self, event, call_next):
            log.append(f"in {self.name}")
            output = await call_next()
            log.append(f"out {self.name}")
            return output

    await reach("say", in_order(*(Layer(letter) for letter in "ab")))

    assert log == ["in a", "in b", "out b", "out a"]


@pytest.mark.parametrize("hook", ["transform_tool_call", "transform_input", "transform_model_request"])
@both_forms
async def test_a_failing_transform_stops_the_operation_and_names_the_plugin(hook: str, is_async: bool) -> None:
    def fail(self: object, event: object) -> None:
        raise ValueError("broken")

    async def fail_later(self: object, event: object) -> None:
        await asyncio.sleep(0)
        raise ValueError("broken")

    chosen = fail_later if is_async else fail
    chosen.__name__ = hook
    plugin = type("Broken", (), {hook: hookimpl(chosen)})()
    danger = Danger()

    async with stage(call("danger", path="x"), plugins=[plugin], tools=danger.tools()) as on:
        if hook == "transform_tool_call":
            await on.session.say("go")
        else:
            with pytest.raises(HookError, match="app:broken"):
                await on.session.say("go")

    assert danger.ran == []
    assert [(event.plugin, event.hook) for event in on.recorder.of(HookFailed)] == [("app:broken", hook)]


@pytest.mark.parametrize("value", [True, "text", {"a": 1}, 5, Message.assistant("as if"), ToolOutput("x")], ids=shown)
@pytest.mark.parametrize(
    "hook",
    [
        "transform_input",
        "transform_model_request",
        "transform_model_response",
        "transform_output",
        "transform_tool_result",
    ],
)
async def test_a_transform_may_return_its_own_kind_of_value_only(hook: str, value: Any) -> None:
    allowed = {"transform_output": Message, "transform_tool_result": ToolOutput}
    if isinstance(value, allowed.get(hook, ())):
        return

    def transform(self: object, event: object) -> object:
        return value

    transform.__name__ = hook
    plugin = type("Odd", (), {hook: hookimpl(transform)})()

    async with stage(call("quiet"), "private words", plugins=[plugin], tools=Danger().tools()) as on:
        try:
            await on.session.say("go")
        except HookError as error:
            assert error.plugin == "app:odd"  # noqa: PT017 (a result hook of a call fails as a value)

    assert [event.plugin for event in on.recorder.of(HookFailed)][:1] == ["app:odd"]
    assert "quiet" not in results(on.session.history)[:1] or hook != "transform_tool_result"


@pytest.mark.parametrize("late", ["transform_tool_call", "transform_tool_result"])
async def test_a_transform_that_hangs_is_given_up(late: str) -> None:
    async def hang(self: object, event: object) -> None:
        await asyncio.Event().wait()

    hang.__name__ = late
    plugin = type("Slow", (), {late: hookimpl(hang)})()

    seen = await reach("say", [plugin], config=HostSettings(timeouts=Timeouts(hook_s=0.05)))

    assert seen.ran == (() if late == "transform_tool_call" else ("x",))
    assert "did x" not in seen.told


# ---- results


async def test_results_of_failed_calls_pass_the_result_hooks() -> None:
    class Redactor:
        @hookimpl
        def transform_tool_result(self, event):
            return attrs.evolve(event.output, for_model="redacted")

    calls = (call("nothing"), call("danger", "bad", wrong=1), call("danger", "fails", path="x"))
    danger = Danger()

    class Fails:
        @hookimpl
        async def around_tool_call(self, event, call_next):
            raise ValueError("secret")

    async with stage(calls, plugins=[Redactor(), Fails()], tools=danger.tools()) as on:
        await on.session.say("go")

    assert on.read_by_model() == ["redacted"] * 3


@both_forms
@pytest.mark.parametrize("answer", [Deny("withheld"), Ask("?"), Respond("other"), True, ValueError], ids=shown)
async def test_a_withheld_result_is_seen_by_nobody(answer: object, is_async: bool) -> None:
    class Policy:
        @hookimpl
        def decide_tool_result(self, event):
            if answer is ValueError:
                raise ValueError("broken")
            return self._later() if is_async else answer

        async def _later(self) -> object:
            await asyncio.sleep(0)
            return answer

    danger = Danger()
    async with stage(call("danger", path="x"), plugins=[Policy()], tools=danger.tools()) as on:
        await on.session.say("go")

    assert danger.ran == ["x"]
    assert "did x" not in repr((on.recorder.events, on.session.history, on.session.records()))


@pytest.mark.parametrize("agreed", [True, False, None])
async def test_a_result_is_released_by_a_person(agreed: bool | None) -> None:
    class Policy:
        @hookimpl
        def decide_tool_result(self, event):
            return Ask("let it out?")

    seen = await reach("say", [Policy()], approver=lambda _: agreed)

    assert (seen.told == ("did x",)) is (agreed is True)


# ---- around


def around(body: Callable[[Any, Callable[[], Awaitable[Any]]], Awaitable[Any]]) -> object:
    class Around:
        @hookimpl
        async def around_tool_call(self, event, call_next):
            return await body(event, call_next)

    return Around()


async def test_an_around_that_hangs_is_given_up() -> None:
    async def hang(event: object, call_next: object) -> None:
        await asyncio.Event().wait()

    config = HostSettings(limits=Limits(tool_timeout_s=0.05))
    async with asyncio.timeout(2):
        seen = await reach("say", [around(hang)], config=config)

    assert seen.ran == ()
    assert len(seen.told) == 1


async def test_an_around_that_hangs_after_the_call_is_given_up_and_the_call_has_run_once() -> None:
    async def hang(event: object, call_next: Callable[[], Awaitable[Any]]) -> None:
        await call_next()
        await asyncio.Event().wait()

    config = HostSettings(limits=Limits(tool_timeout_s=0.05))
    async with asyncio.timeout(2):
        seen = await reach("say", [around(hang)], config=config)

    assert seen.ran == ("x",)


@pytest.mark.parametrize("value", [None, object(), b"bytes", float("inf")], ids=shown)
async def test_an_around_that_answers_with_something_unusable_is_an_error_of_the_call(value: object) -> None:
    async def answer(event: object, call_next: object) -> object:
        return value

    seen = await reach("say", [around(answer)])

    assert seen.ran == ()
    assert len(seen.told) == 1


async def test_an_around_may_turn_a_failure_into_an_answer() -> None:
    async def rescue(event: object, call_next: Callable[[], Awaitable[ToolOutput]]) -> ToolOutput:
        output = await call_next()
        return ToolOutput("rescued") if output.is_error else output

    async with stage(call("fails"), plugins=[around(rescue)], tools=[failing()]) as on:
        await on.session.say("go")

    assert on.read_by_model() == ["rescued"]


def failing() -> Any:
    async def fails() -> str:
        """Fail."""
        raise ValueError("no")

    return fails


async def test_a_deny_inside_the_onion_is_a_denied_call() -> None:
    async def deny(event: object, call_next: object) -> None:
        raise Denied("app:around", "not now")

    seen = await reach("say", [around(deny)])

    assert (seen.ran, seen.told) == ((), ("Denied: not now",))


async def test_layers_of_a_retrier_are_entered_again() -> None:
    log: list[str] = []

    async def retry(event: object, call_next: Callable[[], Awaitable[ToolOutput]]) -> ToolOutput:
        await call_next()
        return await call_next()

    async def note(event: object, call_next: Callable[[], Awaitable[ToolOutput]]) -> ToolOutput:
        log.append("in")
        return await call_next()

    seen = await reach("say", in_order(around(retry), around(note)))

    assert (seen.ran, log) == (("x", "x"), ["in", "in"])


# ---- the same decision for the same thing


async def test_a_hook_is_asked_once_for_one_operation() -> None:
    asked: list[str] = []

    class Counts:
        @hookimpl
        def decide_tool_call(self, event) -> Decision | None:
            asked.append(event.digest)
            return None

    await reach("say", [Counts()])

    assert len(asked) == 1
