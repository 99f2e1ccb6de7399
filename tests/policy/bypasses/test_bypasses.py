"""Attempts to get round a policy. Each one worked in some other host; none may work here.

Every attempt is made by a plugin before and after the policy, in its sync and its async form.
"""

import asyncio
import threading
import time
from collections.abc import Callable

import attrs
import pytest
from bypassing import Friendly, OddError, both_forms, both_orders, every_way, policy
from pluggent_hookspecs import Allow, Decision, Denied, Deny, HookError, HookFailed, PluginLoadError, hookimpl
from pluggent_host.settings import HostSettings, Timeouts
from pluggent_testing.fakes import call
from policy_stage import Danger, either_way, in_order, reach, results, stage

SHORT = HostSettings(timeouts=Timeouts(hook_s=0.05, close_s=0.5))


def raising(error: BaseException) -> Callable[[], object]:
    def answer() -> object:
        raise error

    return answer


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
        raise RuntimeError("nobody shall know")


FAILURES: dict[str, Callable[[], object]] = {
    "raises-ValueError": raising(ValueError("broken")),
    "raises-HookError": raising(HookError("me", "decide_tool_call", "broken")),
    "raises-Denied": raising(Denied("me", "no")),
    "raises-TimeoutError": raising(TimeoutError()),
    "raises-CancelledError": raising(asyncio.CancelledError()),
    "raises-SystemExit": raising(SystemExit(0)),
    "raises-GeneratorExit": raising(GeneratorExit()),
    "raises-an-odd-BaseException": raising(OddError("odd")),
    "raises-what-cannot-be-printed": raising(UnprintableError()),
    "returns-a-dict": lambda: {"decision": "allow"},
    "returns-True": lambda: True,
    "returns-False": lambda: False,
    "returns-text": lambda: "allow",
    "returns-a-list": lambda: [Allow()],
    "returns-the-class-Allow": lambda: Allow,
    "returns-the-class-Deny": lambda: Deny,
    "returns-a-subclass-of-Allow": Softer,
    "returns-an-impostor": Impostor,
    "returns-the-unreadable": Unreadable,
}


# ---- policies that fail


@both_orders
@both_forms
@pytest.mark.parametrize("answer", FAILURES.values(), ids=FAILURES)
async def test_a_policy_that_fails_denies_and_is_named(
    answer: Callable[[], object], is_async: bool, turned: bool
) -> None:
    plugins = either_way(policy(answer, is_async=is_async), Friendly(), turned=turned)

    seen = await reach("say", plugins)

    assert seen.ran == ()
    assert seen.told == ("Denied: a policy failed, so this was not done",)
    (made,) = [made for made in seen.decisions if made.operation == "tool_call"]
    assert made.verdict == "deny"
    assert made.by.endswith("policy")


@every_way
@both_forms
@pytest.mark.parametrize("name", ["raises-ValueError", "raises-CancelledError", "returns-True"])
async def test_a_failing_policy_denies_on_every_way_in(name: str, is_async: bool, way: str) -> None:
    seen = await reach(way, [policy(FAILURES[name], is_async=is_async), Friendly()])

    assert seen.ran == ()
    assert "Denied: a policy failed, so this was not done" in seen.told


@every_way
@both_orders
@both_forms
async def test_a_deny_wins_on_every_way_in(is_async: bool, turned: bool, way: str) -> None:
    plugins = either_way(policy(lambda: Deny("no"), is_async=is_async), Friendly(), turned=turned)

    seen = await reach(way, plugins)

    assert seen.ran == ()
    assert "Denied: no" in seen.told


@every_way
async def test_without_an_objection_the_call_runs(way: str) -> None:
    seen = await reach(way, [Friendly()])

    assert seen.ran == ("x",)


@both_orders
async def test_a_coroutine_inside_a_coroutine_denies(turned: bool) -> None:
    async def consent() -> Decision:
        return Allow()

    inner = consent()

    seen = await reach("say", either_way(policy(lambda: inner, is_async=True), Friendly(), turned=turned))

    inner.close()
    assert seen.ran == ()


@both_orders
async def test_an_awaitable_from_a_sync_policy_is_awaited_and_its_deny_counts(turned: bool) -> None:
    async def no() -> Decision:
        await asyncio.sleep(0)
        return Deny("after all, no")

    seen = await reach("say", either_way(policy(no), Friendly(), turned=turned))

    assert seen.ran == ()
    assert seen.told == ("Denied: after all, no",)


@both_orders
async def test_a_future_from_a_sync_policy_is_awaited(turned: bool) -> None:
    def answer() -> object:
        future: asyncio.Future[Decision] = asyncio.get_running_loop().create_future()
        future.get_loop().call_soon(future.set_result, Deny("in the future"))
        return future

    seen = await reach("say", either_way(policy(answer), Friendly(), turned=turned))

    assert seen.told == ("Denied: in the future",)


# ---- policies that are late


async def for_ever() -> None:
    await asyncio.Event().wait()


async def consent_when_cancelled() -> Decision:
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        return Allow()
    raise AssertionError("the event is never set")


async def wait_on_when_cancelled() -> None:
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        await asyncio.sleep(0.1)  # longer than the deadline, and then it is gone


def too_long() -> Decision:
    time.sleep(0.06)
    return Allow()


@both_orders
@pytest.mark.parametrize("way", ["say", "stream", "nested", "call_tool"])
@pytest.mark.parametrize("answer", [for_ever, consent_when_cancelled, wait_on_when_cancelled, too_long])
async def test_a_policy_that_hangs_denies_and_is_named(answer: Callable[[], object], way: str, turned: bool) -> None:
    seen = await reach(way, either_way(policy(answer), Friendly(), turned=turned), config=SHORT)

    assert seen.ran == ()
    assert any(vote.verdict == "deny" and vote.reason == "was too late" for vote in seen.votes)
    assert any(isinstance(event, HookFailed) and event.plugin.endswith("policy") for event in seen.events)


@both_orders
async def test_a_blocking_policy_that_hangs_denies(turned: bool) -> None:
    go_on = threading.Event()

    class Policy:
        @hookimpl(blocking=True)
        def decide_tool_call(self, event):
            go_on.wait(5)

    try:
        seen = await reach("say", either_way(Policy(), Friendly(), turned=turned), config=SHORT)
    finally:
        go_on.set()
        for thread in threading.enumerate():
            if thread.name.startswith("pluggent-"):
                await asyncio.to_thread(thread.join, 2)

    assert seen.ran == ()
    assert any(vote.reason == "was too late" for vote in seen.votes)


@both_orders
async def test_a_blocking_policy_that_objects_is_heard(turned: bool) -> None:
    class Policy:
        @hookimpl(blocking=True)
        def decide_tool_call(self, event):
            return Deny(f"not in {threading.current_thread().name.partition('-')[0]}")

    seen = await reach("say", either_way(Policy(), Friendly(), turned=turned))

    assert seen.told == ("Denied: not in pluggent",)


async def test_the_deadline_is_one_for_the_whole_hook_and_not_one_for_each_policy() -> None:
    policies = [policy(lambda: asyncio.sleep(0.02)) for _ in range(4)]

    seen = await reach("say", in_order(*policies), config=SHORT)

    assert seen.ran == ()


# ---- cancellation


@both_orders
@pytest.mark.parametrize("answer", [consent_when_cancelled, wait_on_when_cancelled])
async def test_a_swallowed_cancellation_is_no_consent(answer: Callable[[], object], turned: bool) -> None:
    danger, waiting = Danger(), asyncio.Event()

    async def waits() -> object:
        waiting.set()
        return await answer()  # type: ignore[misc] # both are coroutine functions

    plugins = either_way(policy(waits), Friendly(), turned=turned)
    async with stage(call("danger", path="x"), plugins=plugins, tools=danger.tools(), config=SHORT) as on:
        turn = asyncio.create_task(on.session.say("go"))
        await waiting.wait()
        turn.cancel()
        await asyncio.wait((turn,), timeout=2)

    assert turn.cancelled()
    assert danger.ran == []
    assert results(on.session.history) == ["This call was not run: the turn ended before."]


@both_orders
async def test_an_around_that_swallows_a_cancellation_does_not_run_the_call(turned: bool) -> None:
    danger, waiting = Danger(), asyncio.Event()

    class Around:
        @hookimpl
        async def around_tool_call(self, event, call_next):
            waiting.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                return await call_next()

    plugins = either_way(Around(), Friendly(), turned=turned)
    async with stage(call("danger", path="x"), plugins=plugins, tools=danger.tools()) as on:
        turn = asyncio.create_task(on.session.say("go"))
        await waiting.wait()
        turn.cancel()
        await asyncio.wait((turn,), timeout=2)

    assert turn.cancelled()
    assert danger.ran == []


# ---- names and forms that are no hook


class Misspelt:
    @hookimpl
    def decide_tool_cal(self, event):
        return Deny("no")


class Unmarked:
    def decide_tool_call(self, event):
        return Deny("no")


class AsyncObject:
    async def __call__(self, event: object) -> Decision:
        return Deny("no")


class WithObject:
    decide_tool_call = AsyncObject()


class Generator:
    @hookimpl
    def decide_tool_call(self, event):
        yield Deny("no")


class WrongParameter:
    @hookimpl
    def decide_tool_call(self, call):
        return Deny("no")


class Empty:
    pass


class OfNoOperation:
    @hookimpl
    def decide_plan(self, event):
        return Deny("no")


@pytest.mark.parametrize("plugin", [Misspelt, Unmarked, WithObject, Generator, WrongParameter, Empty, OfNoOperation])
async def test_a_policy_that_would_never_be_asked_refuses_to_open_the_host(plugin: type) -> None:
    with pytest.raises(PluginLoadError, match=plugin.__name__.lower()):
        await reach("say", [plugin()])


async def test_a_misspelt_hook_is_told_its_right_name() -> None:
    with pytest.raises(PluginLoadError, match="decide_tool_call"):
        await reach("say", [Misspelt()])
