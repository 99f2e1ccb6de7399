"""The one sequence, seen from inside: what may be executed, and how often."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import attrs
import pytest
from each_of import shown
from fake_plugins import plugin
from pluggent_hookspecs import (
    Ask,
    Change,
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
    tool,
)
from pluggent_host.assembly import assemble, look_around, take_apart
from pluggent_host.operations.operation import Ready
from pluggent_host.settings import HostSettings, Timeouts
from pluggent_testing.fakes import call
from pluggent_transcript.limits import Limits
from policy_stage import Danger, in_order, reach, results, stage
from tool_sources import Named

Next = Callable[[], Awaitable[Any]]


def around(body: Callable[[Any, Next], Awaitable[Any]]) -> object:
    return plugin("Around", around_tool_call=body)


async def hang(event: object) -> None:
    await asyncio.Event().wait()


async def test_a_right_to_execute_cannot_be_made_outside() -> None:
    parts = await assemble(HostSettings(), look_around(HostSettings(), installed=False, acknowledged=None), ())
    forged = Ready(object(), None, None)  # type: ignore[arg-type] # it is not looked at

    with pytest.raises(TypeError, match=r"Operations\.decide"):
        await parts.services.operations.perform(forged)
    await take_apart(parts)


# ---- the sequence


async def test_everything_happens_once_and_in_its_order() -> None:
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
    def adds(letter: str) -> object:
        return plugin(
            transform_tool_call=lambda event: {"path": event.arguments["path"] + letter},
            transform_tool_result=lambda event: ToolOutput(f"{event.output.for_model}{letter}"),
        )

    seen = await reach("say", in_order(*map(adds, "abc")))

    assert (seen.ran, seen.told) == (("xabc",), ("did xabcabc",))


async def test_the_record_of_a_changed_call_has_what_was_there_and_what_is() -> None:
    @tool(effects=())
    def fetch(path: str, unit: str = "") -> str:
        """Fetch."""
        return f"{path} {unit}"

    adds = plugin("Adds", transform_tool_call=lambda event: {**event.arguments, "path": "y", "unit": "km"})
    async with stage(call("fetch", path="x"), plugins=[adds], tools=[fetch]) as on:
        await on.session.say("go")

        (made,) = on.decisions("tool_call")

    assert made.changes == (
        Change("app:adds", ("path", "unit"), {"path": "x", "unit": ""}, {"path": "y", "unit": "km"}),
    )


async def test_the_record_of_an_argument_that_was_added_has_nothing_before() -> None:
    takes_more = Named("fetch")
    takes_more.spec = attrs.evolve(takes_more.spec, parameters={"type": "object"})
    adds = plugin("Adds", transform_tool_call={"path": "x", "unit": "km"})
    async with stage(call("fetch", path="x"), plugins=[adds], tools=[takes_more]) as on:
        await on.session.say("go")

        (made,) = on.decisions("tool_call")

    assert (made.changes, takes_more.calls) == ((Change("app:adds", ("unit",), {}, {"unit": "km"}),), 1)


@pytest.mark.parametrize("times", [1, 2])
async def test_the_onion_is_entered_in_order_and_left_in_reverse_and_again_by_a_retrier(times: int) -> None:
    log: list[str] = []

    def layer(name: str, times: int = 1) -> object:
        async def body(event: object, call_next: Next) -> Any:
            log.append(f"in {name}")
            outputs = [await call_next() for _ in range(times)]
            log.append(f"out {name}")
            return outputs[-1]

        return around(body)

    seen = await reach("say", in_order(layer("a", times), layer("b")))

    assert log == ["in a", *["in b", "out b"] * times, "out a"]
    assert seen.ran == ("x",) * times


@pytest.mark.parametrize("hook", ["transform_tool_call", "transform_input", "transform_model_request"])
@pytest.mark.parametrize("is_async", [False, True])
async def test_a_failing_transform_stops_the_operation_and_names_the_plugin(hook: str, is_async: bool) -> None:
    async def fail_later(event: object) -> None:
        await asyncio.sleep(0)
        raise ValueError("broken")

    broken = plugin("Broken", **{hook: fail_later if is_async else ValueError("broken")})
    danger = Danger()
    async with stage(call("danger", path="x"), plugins=[broken], tools=danger.tools()) as on:
        if hook == "transform_tool_call":
            await on.session.say("go")
        else:
            with pytest.raises(HookError, match="app:broken"):
                await on.session.say("go")

    assert danger.ran == []
    assert [(event.plugin, event.hook) for event in on.recorder.of(HookFailed)] == [("app:broken", hook)]


VALUES = (True, "text", {"a": 1}, 5, Message.assistant("as if"), ToolOutput("x"))
OWN = {
    "transform_input": (), "transform_model_request": (), "transform_model_response": (),
    "transform_output": Message, "transform_tool_result": ToolOutput,
}  # fmt: skip


@pytest.mark.parametrize(
    ("hook", "value"),
    [(hook, value) for hook, own in OWN.items() for value in VALUES if not isinstance(value, own)],  # type: ignore[arg-type]
    ids=shown,
)
async def test_a_transform_may_return_its_own_kind_of_value_only(hook: str, value: Any) -> None:
    odd = plugin("Odd", **{hook: value})

    async with stage(call("quiet"), "private words", plugins=[odd], tools=Danger().tools()) as on:
        try:
            await on.session.say("go")
        except HookError as error:
            assert error.plugin == "app:odd"  # noqa: PT017 (a result hook of a call fails as a value)

    assert [event.plugin for event in on.recorder.of(HookFailed)][:1] == ["app:odd"]
    assert "quiet" not in results(on.session.history)[:1] or hook != "transform_tool_result"


@pytest.mark.parametrize("late", ["transform_tool_call", "transform_tool_result"])
async def test_a_transform_that_hangs_is_given_up(late: str) -> None:
    seen = await reach("say", [plugin(**{late: hang})], config=HostSettings(timeouts=Timeouts(hook_s=0.05)))

    assert seen.ran == (() if late == "transform_tool_call" else ("x",))
    assert "did x" not in seen.told


# ---- results


async def test_results_of_failed_calls_pass_the_result_hooks() -> None:
    async def fail(event: object, call_next: Next) -> None:
        raise ValueError("secret")

    redactor = plugin(transform_tool_result=lambda event: attrs.evolve(event.output, for_model="redacted"))
    calls = (call("nothing"), call("danger", "bad", wrong=1), call("danger", "fails", path="x"))
    async with stage(calls, plugins=[redactor, around(fail)], tools=Danger().tools()) as on:
        await on.session.say("go")

    assert on.read_by_model() == ["redacted"] * 3


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize(
    "answer", [Deny("withheld"), Ask("?"), Respond("other"), True, ValueError("broken")], ids=shown
)
async def test_a_withheld_result_is_seen_by_no_hook_and_no_model(answer: object, is_async: bool) -> None:
    async def later(event: object) -> object:
        await asyncio.sleep(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    danger, policy = Danger(), plugin(decide_tool_result=later if is_async else answer)
    async with stage(call("danger", path="x"), plugins=[policy], tools=danger.tools()) as on:
        await on.session.say("go")

    assert danger.ran == ["x"]
    assert "did x" not in repr((on.recorder.events, on.session.history, on.session.records()))


@pytest.mark.parametrize("agreed", [True, False, None])
async def test_a_result_is_released_by_a_person(agreed: bool | None) -> None:
    seen = await reach("say", [plugin(decide_tool_result=Ask("let it out?"))], approver=lambda _: agreed)

    assert (seen.told == ("did x",)) is (agreed is True)


# ---- around


@pytest.mark.parametrize("ran", [(), ("x",)], ids=["before the call", "after the call"])
async def test_an_around_that_hangs_is_given_up_and_the_call_has_run_once_at_most(ran: tuple[str, ...]) -> None:
    async def body(event: object, call_next: Next) -> None:
        if ran:
            await call_next()
        await hang(event)

    async with asyncio.timeout(2):
        seen = await reach("say", [around(body)], config=HostSettings(limits=Limits(tool_timeout_s=0.05)))

    assert (seen.ran, len(seen.told)) == (ran, 1)


@pytest.mark.parametrize("value", [None, object(), b"bytes", float("inf")], ids=shown)
async def test_an_around_that_answers_with_something_unusable_is_an_error_of_the_call(value: object) -> None:
    async def answer(event: object, call_next: Next) -> object:
        return value

    seen = await reach("say", [around(answer)])

    assert (seen.ran, len(seen.told)) == ((), 1)


async def test_an_around_may_turn_a_failure_into_an_answer() -> None:
    async def rescue(event: object, call_next: Next) -> Any:
        output = await call_next()
        return ToolOutput("rescued") if output.is_error else output

    async def fails() -> str:
        """Fail."""
        raise ValueError("no")

    async with stage(call("fails"), plugins=[around(rescue)], tools=[fails]) as on:
        await on.session.say("go")

    assert on.read_by_model() == ["rescued"]


async def test_a_deny_inside_the_onion_is_a_denied_call() -> None:
    async def deny(event: object, call_next: Next) -> None:
        raise Denied("app:around", "not now")

    seen = await reach("say", [around(deny)])

    assert (seen.ran, seen.told) == ((), ("Denied: not now",))
