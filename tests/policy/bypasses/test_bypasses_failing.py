"""Attempts to get round a policy that fails, is late, or is cancelled. Each one worked in some other host.

Every attempt is made by a plugin before and after the policy, in its sync and its async form.
"""

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any

import attrs
import pytest
from each_of import each_of
from pluggent_hookspecs import Allow, Decision, Denied, Deny, HookError, HookFailed
from pluggent_host.settings import HostSettings, Timeouts
from pluggent_testing.fakes import call
from policy_rules import both_forms, both_orders, friendly, hooked, on_danger
from policy_stage import Danger, either_way, in_order, reach, results, stage

SHORT = HostSettings(timeouts=Timeouts(hook_s=0.05, close_s=0.5))


class OddError(BaseException):
    pass


class UnprintableError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("this error has no text")


@attrs.frozen
class Softer(Allow):
    """A decision of a plugin's own making."""


class Impostor:
    @property
    def __class__(self):  # type: ignore[override] # pyright: ignore[reportIncompatibleMethodOverride] # that is the lie
        return Allow


class Unreadable:
    @property
    def __class__(self):  # type: ignore[override] # pyright: ignore[reportIncompatibleMethodOverride] # as above
        raise RuntimeError("this class is secret")


def raising(error: BaseException) -> Callable[[], object]:
    def answer() -> object:
        raise error

    return answer


RAISED = (
    ValueError("broken"), HookError("me", "decide_tool_call", "broken"), Denied("me", "no"), TimeoutError(),
    asyncio.CancelledError(), SystemExit(0), GeneratorExit(), OddError("odd"), UnprintableError(),
)  # fmt: skip
RETURNED: tuple[object, ...] = ({"decision": "allow"}, True, False, "allow", [Allow()], Allow, Deny)
FAILURES: dict[str, Callable[[], object]] = {
    **{type(error).__name__: raising(error) for error in RAISED},
    **{repr(value): lambda value=value: value for value in RETURNED},
    "a subclass": Softer, "an impostor": Impostor, "the unreadable": Unreadable,
}  # fmt: skip


# ---- policies that fail


@both_orders
@both_forms
@pytest.mark.parametrize("name", FAILURES)
async def test_a_policy_that_fails_denies_and_is_named(name: str, is_async: bool, turned: bool):
    plugins = either_way(on_danger(FAILURES[name], is_async=is_async), friendly(), turned=turned)

    seen = await reach("say", plugins)

    assert seen.ran == ()
    assert seen.told == ("Denied: a policy failed, so this was not done",)
    (made,) = [made for made in seen.decisions if made.operation == "tool_call"]
    assert made.verdict == "deny"
    assert made.by.endswith("policy")


async def after_all() -> Decision:
    await asyncio.sleep(0)
    return Deny("after all")


def in_the_future() -> object:
    future: asyncio.Future[Decision] = asyncio.get_running_loop().create_future()
    future.get_loop().call_soon(future.set_result, Deny("after all"))
    return future


@both_orders
@each_of("answer", [after_all, in_the_future])
async def test_an_awaitable_from_a_sync_policy_is_awaited_and_its_deny_counts(
    answer: Callable[[], object], turned: bool
):
    assert (await reach("say", either_way(on_danger(answer), friendly(), turned=turned))).told == ("Denied: after all",)


@both_orders
async def test_a_coroutine_inside_a_coroutine_denies(turned: bool):
    inner = after_all()

    seen = await reach("say", either_way(on_danger(lambda: inner, is_async=True), friendly(), turned=turned))

    inner.close()
    assert (seen.ran, seen.told) == ((), ("Denied: a policy failed, so this was not done",))


# ---- policies that are late


async def for_ever() -> None:
    await asyncio.Event().wait()


async def consent_when_cancelled() -> Decision:
    try:
        await for_ever()
    except asyncio.CancelledError:
        return Allow()
    raise AssertionError("the event is never set")


async def wait_on_when_cancelled() -> None:
    try:
        await for_ever()
    except asyncio.CancelledError:
        await asyncio.sleep(0.1)  # longer than the deadline, and then it is gone


def too_long() -> Decision:
    time.sleep(0.06)
    return Allow()


@both_orders
@each_of("way", ["say", "stream", "nested", "call_tool"])
@pytest.mark.parametrize("answer", [for_ever, consent_when_cancelled, wait_on_when_cancelled, too_long])
async def test_a_policy_that_hangs_denies_and_is_named(answer: Callable[[], object], way: str, turned: bool):
    seen = await reach(way, either_way(on_danger(answer), friendly(), turned=turned), config=SHORT)

    assert seen.ran == ()
    assert any(vote.verdict == "deny" and vote.reason == "was too late" for vote in seen.votes)
    assert any(isinstance(event, HookFailed) and event.plugin.endswith("policy") for event in seen.events)


@both_orders
async def test_a_blocking_policy_that_hangs_denies(turned: bool):
    go_on = threading.Event()
    blocking = hooked(marks={"blocking": True}, decide_tool_call=lambda _: go_on.wait(5) and None)

    try:
        seen = await reach("say", either_way(blocking, friendly(), turned=turned), config=SHORT)
    finally:
        go_on.set()
        for thread in threading.enumerate():
            if thread.name.startswith("pluggent-"):
                await asyncio.to_thread(thread.join, 2)

    assert seen.ran == ()
    assert any(vote.reason == "was too late" for vote in seen.votes)


@both_orders
async def test_a_blocking_policy_that_objects_is_heard(turned: bool):
    def decide(event: object) -> Decision:
        return Deny(f"not in {threading.current_thread().name.partition('-')[0]}")

    blocking = hooked(marks={"blocking": True}, decide_tool_call=decide)

    assert (await reach("say", either_way(blocking, friendly(), turned=turned))).told == ("Denied: not in pluggent",)


async def test_the_deadline_is_one_for_the_whole_hook_and_not_one_for_each_policy():
    policies = [on_danger(lambda: asyncio.sleep(0.02)) for _ in range(4)]

    assert (await reach("say", in_order(*policies), config=SHORT)).ran == ()


# ---- cancellation


def swallowing(waiting: asyncio.Event) -> dict[str, Any]:
    """Return plugins that are cancelled while they wait, and consent or go on."""

    def waits(then: Callable[[], Any]) -> Any:
        async def decide(event: object) -> object:
            waiting.set()
            return await then()

        return hooked(decide_tool_call=decide)

    async def goes_on(event: object, call_next: Any) -> Any:
        waiting.set()
        try:
            await for_ever()
        except asyncio.CancelledError:
            return await call_next()

    return {
        "consents": waits(consent_when_cancelled), "waits": waits(wait_on_when_cancelled),
        "around": hooked(around_tool_call=goes_on),
    }  # fmt: skip


@both_orders
@each_of("name", ["consents", "waits", "around"])
async def test_a_swallowed_cancellation_is_no_consent(name: str, turned: bool):
    danger, waiting = Danger(), asyncio.Event()

    plugins = either_way(swallowing(waiting)[name], friendly(), turned=turned)
    async with stage(call("danger", path="x"), plugins=plugins, tools=danger.tools(), config=SHORT) as on:
        turn = asyncio.create_task(on.session.say("go"))
        await waiting.wait()
        turn.cancel()
        await asyncio.wait((turn,), timeout=2)

    assert turn.cancelled()
    assert danger.ran == []
    assert name == "around" or results(on.session.history) == ["This call was not run: the turn ended before."]
