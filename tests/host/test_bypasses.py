"""Attempts to get round a policy. Each one worked in some other host; none may work here.

Every attempt is made by a plugin before and after the policy, in its sync and its async form.
"""

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest
from fake_distributions import importable, install
from naming import shown
from pluggent_hookspecs import (
    Allow,
    Ask,
    Decision,
    DecisionMade,
    Denied,
    Deny,
    HookError,
    HookFailed,
    Message,
    ModelParameters,
    PluginLoadError,
    Respond,
    Role,
    Text,
    ToolFinished,
    ToolOutput,
    hookimpl,
    tool,
)
from pluggent_host import Host
from pluggent_host.discovery import Discovery, discover
from pluggent_host.settings import Grants, HostSettings, Timeouts
from pluggent_host.testing.fakes import Recorder, ScriptedModel, call
from policy_stage import WAYS, Danger, either_way, in_order, reach, results, stage

SHORT = HostSettings(timeouts=Timeouts(hook_s=0.05, close_s=0.5))
both_forms = pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
both_orders = pytest.mark.parametrize("turned", [False, True], ids=["policy-first", "policy-last"])
every_way = pytest.mark.parametrize("way", WAYS)


def policy(answer: Callable[[], object], *, is_async: bool = False) -> object:
    """Return a policy that decides about ``danger`` by calling *answer*."""

    class Policy:
        @hookimpl
        def decide_tool_call(self, event):
            return answer() if event.tool.name == "danger" else None

    class AsyncPolicy:
        @hookimpl
        async def decide_tool_call(self, event):
            await asyncio.sleep(0)
            return answer() if event.tool.name == "danger" else None

    return AsyncPolicy() if is_async else Policy()


def raising(error: BaseException) -> Callable[[], object]:
    def answer() -> object:
        raise error

    return answer


class Friendly:
    """Another plugin that has no objection and passes everything on."""

    @hookimpl
    def decide_tool_call(self, event):
        return Allow("fine with me")

    @hookimpl
    async def around_tool_call(self, event, call_next):
        return await call_next()


class UnprintableError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("this error has no text")


class OddError(BaseException):
    pass


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


# ---- rewriting after the approval


def only(path: str, *, is_async: bool) -> object:
    """Return a policy that lets ``danger`` run with *path* alone."""

    class Policy:
        @hookimpl
        def decide_tool_call(self, event):
            return None if event.arguments.get("path", path) == path else Deny("another path")

    class AsyncPolicy:
        @hookimpl
        async def decide_tool_call(self, event):
            await asyncio.sleep(0)
            return None if event.arguments.get("path", path) == path else Deny("another path")

    return AsyncPolicy() if is_async else Policy()


@every_way
@both_orders
@both_forms
async def test_a_policy_sees_what_a_transform_made_of_the_call(is_async: bool, turned: bool, way: str) -> None:
    class Rewriter:
        @hookimpl
        def transform_tool_call(self, event):
            return {**event.arguments, "path": "evil"}

    class AsyncRewriter:
        @hookimpl
        async def transform_tool_call(self, event):
            await asyncio.sleep(0)
            return {**event.arguments, "path": "evil"}

    rewriter = AsyncRewriter() if is_async else Rewriter()

    seen = await reach(way, either_way(only("x", is_async=is_async), rewriter, turned=turned))

    assert seen.ran == ()


@both_orders
@both_forms
async def test_a_transform_cannot_change_its_answer_after_it_was_approved(is_async: bool, turned: bool) -> None:
    class Rewriter:
        @hookimpl
        def transform_tool_call(self, event):
            self.kept = dict(event.arguments)
            return self.kept

        @hookimpl
        def decide_tool_call(self, event):
            self.kept["path"] = "evil"

        @hookimpl
        async def around_tool_call(self, event, call_next):
            self.kept["path"] = "evil"
            return await call_next()

    seen = await reach("say", either_way(only("x", is_async=is_async), Rewriter(), turned=turned))

    assert seen.ran == ("x",)


def set_member(event: Any) -> None:
    event.arguments["path"] = "evil"


def edit_nested_list(event: Any) -> None:
    event.arguments["steps"].append("evil")


def edit_nested_item(event: Any) -> None:
    event.arguments["steps"][0]["do"] = "evil"


def clear(event: Any) -> None:
    event.arguments.clear()


def set_bytes(event: Any) -> None:
    event.arguments_json = b'{"path":"evil"}'


def set_view(event: Any) -> None:
    event.arguments = {"path": "evil"}


def edit_bytes(event: Any) -> None:
    event.arguments_json[0:1] = b"evil"


def edit_schema(event: Any) -> None:
    event.tool.parameters["properties"] = {}


def edit_effects(event: Any) -> None:
    event.effects.clear()


@both_orders
@pytest.mark.parametrize("place", ["decide", "around", "transform", "observe"])
@pytest.mark.parametrize(
    "edit",
    [set_member, edit_nested_list, edit_nested_item, clear, set_bytes, set_view, edit_bytes, edit_schema, edit_effects],
)
async def test_no_hook_can_edit_a_call_in_place(  # noqa: C901 (one plugin, tried in each of its hooks)
    edit: Callable[[Any], None], place: str, turned: bool
) -> None:
    ran: list[Any] = []
    refused: list[Exception] = []

    @tool(effects=("network_read",))
    async def danger(path: str, steps: list[dict[str, str]]) -> str:
        """Do it."""
        ran.append((path, steps))
        return "done"

    def try_to_edit(event: Any) -> None:
        try:
            edit(event)
        except Exception as error:  # noqa: BLE001 (whatever refuses it)
            refused.append(error)

    class Editor:
        @hookimpl
        def transform_tool_call(self, event):
            if place == "transform":
                try_to_edit(event)

        @hookimpl
        def decide_tool_call(self, event):
            if place == "decide":
                try_to_edit(event)

        @hookimpl
        async def around_tool_call(self, event, call_next):
            if place == "around":
                try_to_edit(event)
            return await call_next()

        @hookimpl
        def observe(self, event):
            if place == "observe" and hasattr(event, "arguments_json"):
                try_to_edit(event)

    plugins = either_way(only("x", is_async=False), Editor(), turned=turned)
    asked = call("danger", path="x", steps=[{"do": "good"}])
    async with stage(asked, plugins=plugins, tools=[danger]) as on:
        await on.session.say("go")

    assert refused
    assert ran == [("x", [{"do": "good"}])]


@both_orders
async def test_the_tool_gets_values_of_its_own(turned: bool) -> None:
    kept: list[Any] = []
    ran: list[Any] = []

    class Keeper:
        @hookimpl
        def decide_tool_call(self, event):
            kept.append(event.arguments)

        @hookimpl
        async def around_tool_call(self, event, call_next):
            first = await call_next()
            await call_next()
            return first

    @tool(effects=())
    async def danger(steps: list[str]) -> str:
        """Do it."""
        ran.append(tuple(steps))
        steps.append("evil")
        return "done"

    plugins = either_way(Keeper(), Friendly(), turned=turned)
    async with stage(call("danger", steps=["good"]), plugins=plugins, tools=[danger]) as on:
        await on.session.say("go")

    assert ran == [("good",), ("good",)]
    assert kept[0] == {"steps": ("good",)}


@both_orders
@pytest.mark.parametrize("where", ["extra", "output_schema", "messages", "tools"])
async def test_a_model_request_cannot_be_edited_after_its_approval(where: str, turned: bool) -> None:
    class Editor:
        @hookimpl
        def transform_model_request(self, event):
            old = event.request
            self.kept: dict[str, Any] = {
                "extra": {"user": "good"},
                "output_schema": {"type": "object"},
                "messages": list(old.messages),
                "tools": list(old.tools),
            }
            parameters = ModelParameters(extra=self.kept["extra"], output_schema=self.kept["output_schema"])
            return attrs.evolve(old, messages=self.kept["messages"], tools=self.kept["tools"], parameters=parameters)

        @hookimpl
        async def around_model_call(self, event, call_next):
            kept = self.kept[where]
            if isinstance(kept, dict):
                kept["evil"] = True
            else:
                kept[:] = [Message.user("evil")] if where == "messages" else []
            return await call_next()

    class Policy:
        @hookimpl
        def decide_model_request(self, event):
            return None if "evil" not in repr(event) else Deny("evil")

    plugins = either_way(Policy(), Editor(), turned=turned)
    async with stage("hello", plugins=plugins, tools=Danger().tools()) as on:
        await on.session.say("go")

    for request in on.model.requests:
        assert "evil" not in repr(request)
        assert len(request.tools) == 3


@both_orders
async def test_a_message_cannot_be_edited_after_its_approval(turned: bool) -> None:
    class Editor:
        @hookimpl
        def transform_input(self, event):
            self.kept: Any = [Text("good")]
            return Message(Role.USER, self.kept)

        @hookimpl
        async def around_turn(self, event, call_next):
            self.kept.append(Text(" evil"))
            return await call_next()

    class Policy:
        @hookimpl
        def decide_input(self, event):
            return Deny("evil") if "evil" in event.message.text else None

    plugins = either_way(Policy(), Editor(), turned=turned)
    async with stage("hello", plugins=plugins) as on:
        await on.session.say("go")

    assert all("evil" not in message.text for request in on.model.requests for message in request.messages)


@both_orders
async def test_a_result_cannot_be_edited_after_its_release(turned: bool) -> None:
    class Editor:
        @hookimpl
        def transform_tool_result(self, event):
            self.kept: Any = [Text("good")]
            return ToolOutput(self.kept)

        @hookimpl
        def observe(self, event):
            if isinstance(event, DecisionMade) and event.operation == "tool_call_result":
                self.kept.append(Text(" evil"))

    class Policy:
        @hookimpl
        def decide_tool_result(self, event):
            return Deny("evil") if "evil" in repr(event) else None

    plugins = either_way(Policy(), Editor(), turned=turned)
    async with stage(call("quiet"), plugins=plugins, tools=Danger().tools()) as on:
        await on.session.say("go")

    assert "evil" not in on.read_by_model()[0]


# ---- answering instead


@every_way
@both_orders
@both_forms
async def test_a_cache_cannot_answer_what_a_policy_denied(is_async: bool, turned: bool, way: str) -> None:
    cache = policy(lambda: Respond("from the cache"), is_async=is_async)

    seen = await reach(way, either_way(policy(lambda: Deny("no"), is_async=is_async), cache, turned=turned))

    assert seen.ran == ()
    assert "Denied: no" in seen.told
    assert "from the cache" not in seen.told


@both_orders
@both_forms
@pytest.mark.parametrize("approved", [True, False, None])
async def test_what_was_asked_about_is_not_answered_before_the_approval(
    approved: bool | None, is_async: bool, turned: bool
) -> None:
    cache = policy(lambda: Respond("from the cache"), is_async=is_async)
    asker = policy(lambda: Ask("may I?"), is_async=is_async)

    seen = await reach("say", either_way(asker, cache, turned=turned), approver=lambda _: approved)

    assert seen.ran == ()
    assert (seen.told == ("from the cache",)) is (approved is True)


@pytest.mark.parametrize(
    ("hook", "value"),
    [
        ("decide_tool_call", object()),
        ("decide_tool_call", b"bytes"),
        ("decide_tool_call", float("nan")),
        ("decide_model_request", 5),
        ("decide_model_request", None),
        ("decide_input", {"a": "dict"}),
        ("decide_input", Message.user("as if the person had said it")),
    ],
)
@both_orders
async def test_a_respond_that_cannot_be_used_denies(hook: str, value: object, turned: bool) -> None:
    class Cache:
        pass

    def decide(self: object, event: object) -> Decision:
        return Respond(value)

    decide.__name__ = hook
    setattr(Cache, hook, hookimpl(decide))

    seen = await reach("say", either_way(Cache(), Friendly(), turned=turned))

    assert seen.ran == ()
    assert any(made.verdict == "deny" and made.by.endswith("cache") for made in seen.decisions)


# ---- around


@both_orders
async def test_an_around_cannot_hand_another_request_on(turned: bool) -> None:
    class Around:
        @hookimpl
        async def around_tool_call(self, event, call_next):
            return await call_next(attrs.evolve(event, arguments_json=b'{"path":"evil"}'))

    seen = await reach("say", either_way(Around(), Friendly(), turned=turned))

    assert seen.ran == ()


@both_orders
async def test_an_around_cannot_call_next_after_it_returned(turned: bool) -> None:
    kept: list[Callable[[], Awaitable[object]]] = []

    class Around:
        @hookimpl
        async def around_tool_call(self, event, call_next):
            kept.append(call_next)
            return await call_next()

    seen = await reach("say", either_way(Around(), Friendly(), turned=turned))
    with pytest.raises(RuntimeError, match="after the hook has returned"):
        await kept[0]()

    assert seen.ran == ("x",)


@both_orders
@pytest.mark.parametrize(
    "error", [ValueError("v"), OddError("odd"), SystemExit(3), asyncio.CancelledError()], ids=shown
)
async def test_an_around_that_raises_anything_is_an_error_of_the_call(error: BaseException, turned: bool) -> None:
    class Around:
        @hookimpl
        async def around_tool_call(self, event, call_next):
            raise error

    try:
        seen = await reach("say", either_way(Around(), Friendly(), turned=turned))
    except BaseException as escaped:  # noqa: BLE001 (pytest itself would stop at a SystemExit)
        pytest.fail(f"{escaped!r} came out of the turn")

    assert seen.ran == ()
    assert len(seen.told) == 1


@both_orders
async def test_the_error_of_an_around_passes_the_result_hooks(turned: bool) -> None:
    class Around:
        @hookimpl
        async def around_tool_call(self, event, call_next):
            output = await call_next()
            raise ValueError(f"secret {output.for_model}")

    class Redactor:
        @hookimpl(band="security")
        def transform_tool_result(self, event):
            return attrs.evolve(event.output, for_model=str(event.output.for_model).replace("secret", "***"))

    seen = await reach("say", either_way(Around(), Redactor(), turned=turned))

    assert "secret" not in repr(seen.told)
    assert "secret" not in repr([event for event in seen.events if isinstance(event, ToolFinished)])


# ---- redactors and auditors


@both_orders
@both_forms
async def test_a_redactor_silences_no_auditor_and_is_passed_by_none(is_async: bool, turned: bool) -> None:
    class Redactor:
        @hookimpl
        def transform_tool_result(self, event):
            return ToolOutput("redacted")

    class AsyncRedactor:
        @hookimpl
        async def transform_tool_result(self, event):
            await asyncio.sleep(0)
            return ToolOutput("redacted")

    audited: list[object] = []

    class Auditor:
        @hookimpl
        def decide_tool_call(self, event):
            audited.append("call")

        @hookimpl
        def transform_tool_result(self, event):
            audited.append("transform")

        @hookimpl
        async def decide_tool_result(self, event):
            audited.append(event.output.for_model)

        @hookimpl(events=(ToolFinished,))
        def observe(self, event):
            audited.append(event.output.for_model)

    redactor = AsyncRedactor() if is_async else Redactor()

    seen = await reach("say", either_way(Auditor(), redactor, turned=turned))

    assert seen.told == ("redacted",)
    assert audited == ["call", "transform", "redacted", "redacted"]


@pytest.mark.parametrize("position", range(4))
@both_forms
async def test_a_deny_in_any_position_wins_and_everybody_is_heard(position: int, is_async: bool) -> None:
    answers: list[Callable[[], object]] = [Allow, lambda: Ask("may I?"), lambda: Respond("cached")]
    answers.insert(position, lambda: Deny("no"))

    seen = await reach("say", in_order(*(policy(answer, is_async=is_async) for answer in answers)))

    assert seen.ran == ()
    assert seen.told == ("Denied: no",)
    assert [vote.verdict for vote in seen.votes].count("deny") == 1
    assert {"allow", "ask", "respond", "deny"} <= {vote.verdict for vote in seen.votes}


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


class NotFired:
    @hookimpl
    def decide_plan(self, event):
        return Deny("no")


@pytest.mark.parametrize("plugin", [Misspelt, Unmarked, WithObject, Generator, WrongParameter, Empty, NotFired])
async def test_a_policy_that_would_never_be_asked_refuses_to_open_the_host(plugin: type) -> None:
    with pytest.raises(PluginLoadError, match=plugin.__name__.lower()):
        await reach("say", [plugin()])


async def test_a_misspelt_hook_is_told_its_right_name() -> None:
    with pytest.raises(PluginLoadError, match="decide_tool_call"):
        await reach("say", [Misspelt()])


# ---- installed plugins

HEADER = "import asyncio\nfrom pluggent_hookspecs import Allow, Ask, Deny, Respond, ToolOutput, hookimpl\n"


def source(body: str, hook: str = "decide_tool_call") -> str:
    parameters = "event, call_next" if hook.startswith("around") else "event"
    start = "async def" if hook.startswith("around") or "await" in body else "def"
    return f"{HEADER}class Plugin:\n    @hookimpl\n    {start} {hook}(self, {parameters}):\n        {body}\n"


class Site:
    """A folder of installed distributions."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def add(self, name: str, text: str) -> None:
        module = name.replace("-", "_")
        install(self.folder, name, {f"hooks/{name}": f"{module}:Plugin"}, modules={module: text})

    def found(self) -> Discovery:
        return discover([str(self.folder)])


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with importable(tmp_path):
        yield Site(tmp_path)


installed_orders = pytest.mark.parametrize("names", [("aaa", "zzz"), ("zzz", "aaa")], ids=["first", "last"])
FORMS = {"sync": "return {}", "async": "await asyncio.sleep(0); return {}"}
both_sources = pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)


@installed_orders
@both_sources
@every_way
async def test_the_deny_of_an_installed_policy_wins(site: Site, names: tuple[str, str], form: str, way: str) -> None:
    site.add(names[0], source(form.format("Deny('installed no') if event.tool.name == 'danger' else None")))
    site.add(names[1], source(form.format("Allow()")))

    seen = await reach(way, installed=site.found())

    assert seen.ran == ()
    assert "Denied: installed no" in seen.told


@installed_orders
@both_sources
async def test_an_installed_plugin_answers_only_with_the_operators_grant(
    site: Site, names: tuple[str, str], form: str
) -> None:
    site.add(names[0], source(form.format("Respond('cached')")))
    site.add(names[1], source(form.format("None")))
    granted = HostSettings(grants=Grants(may_respond=(names[0],)))

    without = await reach("say", installed=site.found())
    with_grant = await reach("say", installed=site.found(), config=granted)

    assert (without.ran, with_grant.ran) == ((), ())
    assert without.told == ("Denied: a policy failed, so this was not done",)
    assert with_grant.told == ("cached",)
    assert any("may_respond" in vote.reason for vote in without.votes)


@installed_orders
async def test_an_installed_around_answers_only_with_the_operators_grant(site: Site, names: tuple[str, str]) -> None:
    site.add(names[0], source("return ToolOutput('mine')", "around_tool_call"))
    site.add(names[1], source("return await call_next()", "around_tool_call"))
    granted = HostSettings(grants=Grants(may_respond=(names[0],)))

    without = await reach("say", installed=site.found())
    with_grant = await reach("say", installed=site.found(), config=granted)

    assert (without.ran, with_grant.ran) == ((), ())
    assert "may_respond" in without.told[0]
    assert with_grant.told == ("mine",)


@installed_orders
async def test_only_a_listed_retrier_calls_twice(site: Site, names: tuple[str, str]) -> None:
    site.add(names[0], source("await call_next(); return await call_next()", "around_tool_call"))
    site.add(names[1], source("return await call_next()", "around_tool_call"))
    granted = HostSettings(grants=Grants(retriers=(names[0],)))

    without = await reach("say", installed=site.found())
    with_grant = await reach("say", installed=site.found(), config=granted)

    assert without.ran == ("x",)
    assert "retriers" in without.told[0]
    assert with_grant.ran == ("x", "x")


@installed_orders
async def test_calling_next_twice_at_the_same_time_runs_the_call_once(site: Site, names: tuple[str, str]) -> None:
    body = "return (await asyncio.gather(call_next(), call_next(), return_exceptions=True))[0]"
    site.add(names[0], source(body, "around_tool_call"))
    site.add(names[1], source("return await call_next()", "around_tool_call"))

    seen = await reach("say", installed=site.found())

    assert seen.ran == ("x",)


@installed_orders
async def test_the_allow_of_an_installed_plugin_lifts_nothing_without_a_grant(
    site: Site, names: tuple[str, str]
) -> None:
    site.add(names[0], source("return Allow()"))
    site.add(names[1], source("return None"))
    asks = HostSettings(effects={"app:tools:tool/danger": ("shell",)})

    without = await reach("say", installed=site.found(), config=asks)
    with_grant = await reach("say", installed=site.found(), config=asks._replace(grants=Grants(may_allow=(names[0],))))

    assert without.ran == ()
    assert with_grant.ran == ("x",)


@installed_orders
async def test_only_listed_approvers_are_asked(site: Site, names: tuple[str, str]) -> None:
    site.add(names[0], source("return True", "resolve_approval"))
    site.add(names[1], source("return None"))
    asks = HostSettings(effects={"app:tools:tool/danger": ("shell",)})

    without = await reach("say", installed=site.found(), config=asks)
    with_grant = await reach("say", installed=site.found(), config=asks._replace(grants=Grants(approvers=(names[0],))))

    assert without.ran == ()
    assert with_grant.ran == ("x",)


@installed_orders
@both_sources
async def test_an_installed_rewriter_does_not_get_past_an_installed_policy(
    site: Site, names: tuple[str, str], form: str
) -> None:
    site.add(names[0], source(form.format("{**event.arguments, 'path': 'evil'}"), "transform_tool_call"))
    site.add(names[1], source(form.format("Deny('evil') if event.arguments['path'] == 'evil' else None")))

    seen = await reach("say", installed=site.found())

    assert seen.ran == ()
    assert seen.told == ("Denied: evil",)


@installed_orders
@pytest.mark.parametrize(
    "text",
    [
        source("return None").replace("decide_tool_call", "decide_tool_cal"),
        source("return None").replace("    @hookimpl\n", ""),
        "import no_such_module_anywhere\n",
        "raise SystemExit(0)\n",
        f"{HEADER}class Plugin:\n    def __init__(self): raise ValueError('no')\n",
        f"{HEADER}class Plugin: pass\n",
    ],
    ids=["misspelt", "unmarked", "missing-module", "exits", "raises", "no-hooks"],
)
async def test_a_broken_installed_policy_refuses_to_open_the_host(
    site: Site, names: tuple[str, str], text: str
) -> None:
    site.add(names[0], text)
    site.add(names[1], source("return None"))

    with pytest.raises(PluginLoadError, match=names[0]):
        await reach("say", installed=site.found())


@pytest.mark.parametrize("folders", [("one", "two"), ("two", "one")])
async def test_the_order_of_folders_on_the_path_changes_nothing(tmp_path: Path, folders: tuple[str, str]) -> None:
    Site(tmp_path / "one").add("acme-deny", source("return Deny('acme no')"))
    Site(tmp_path / "two").add("beta-cache", source("return Respond('cached')"))
    paths = [tmp_path / folder for folder in folders]

    with importable(*paths):
        seen = await reach(
            "say",
            installed=discover([str(path) for path in paths]),
            config=HostSettings(grants=Grants(may_respond=("beta-cache",))),
        )

    assert seen.ran == ()
    assert seen.told == ("Denied: acme no",)


# ---- two hosts


@both_orders
async def test_two_hosts_share_no_policy(turned: bool) -> None:
    strict, free = Danger(), Danger()
    deny = policy(lambda: Deny("no"))
    first = stage(
        call("danger", path="x"), plugins=[deny] if not turned else [], tools=(free if turned else strict).tools()
    )
    async with first as a:
        second = stage(
            call("danger", path="x"), plugins=[deny] if turned else [], tools=(strict if turned else free).tools()
        )
        async with second as b:
            await asyncio.gather(a.session.say("go"), b.session.say("go"))

    assert strict.ran == []
    assert free.ran == ["x"]


async def test_one_policy_object_serves_two_hosts_and_closing_one_leaves_it_in_the_other() -> None:
    danger, deny = Danger(), policy(lambda: Deny("no"))

    async with stage(call("danger", path="x"), plugins=[deny], tools=danger.tools()) as on:
        async with stage(plugins=[deny]):
            pass
        await on.session.say("go")

    assert danger.ran == []


async def test_a_second_session_of_a_host_has_the_same_policies() -> None:
    danger = Danger()
    plugins = [policy(lambda: Deny("no"))]

    async with stage(call("danger", path="x"), plugins=plugins, tools=danger.tools()) as on:
        other = await on.host.session(tools=danger.tools(), origin="sub-agent", principal="somebody else")
        await other.say("go")

    assert danger.ran == []
    assert results(other.history) == ["Denied: no"]


async def test_every_call_of_a_batch_is_decided() -> None:
    danger = Danger(effects=())
    asked: list[str] = []

    class Policy:
        @hookimpl
        async def decide_tool_call(self, event):
            await asyncio.sleep(0)
            asked.append(event.arguments["path"])
            return Deny("odd") if int(event.arguments["path"]) % 2 else None

    calls = tuple(call("danger", f"c{number}", path=str(number)) for number in range(6))
    async with stage(calls, plugins=[Policy()], tools=danger.tools()) as on:
        await on.session.say("go")

    assert asked == ["0", "1", "2", "3", "4", "5"]
    assert danger.ran == ["0", "2", "4"]
    assert results(on.session.history) == ["did 0", "Denied: odd", "did 2", "Denied: odd", "did 4", "Denied: odd"]


# ---- the model and the person


@both_orders
@both_forms
@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("hook", ["decide_input", "decide_model_request"])
async def test_a_denied_message_or_request_never_reaches_the_model(
    hook: str, streamed: bool, is_async: bool, turned: bool
) -> None:
    class Policy:
        pass

    class Eager:
        @hookimpl
        def decide_input(self, event):
            return Allow()

        @hookimpl
        def decide_model_request(self, event):
            return Allow()

    async def deny_late(self: object, event: object) -> Decision:
        await asyncio.sleep(0)
        return Deny("no")

    def deny(self: object, event: object) -> Decision:
        return Deny("no")

    chosen = deny_late if is_async else deny
    chosen.__name__ = hook
    setattr(Policy, hook, hookimpl(chosen))

    async with stage("hello", plugins=either_way(Policy(), Eager(), turned=turned)) as on:
        if streamed:
            async with on.session.stream("go") as events:
                shown = [event async for event in events]
            result = events.result
        else:
            result = await on.session.say("go")
            shown = on.recorder.events

    assert on.model.requests == []
    assert result.why == "denied"
    assert "hello" not in repr(shown)


@both_orders
@both_forms
@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("hook", ["decide_model_response", "decide_output"])
async def test_a_denied_reply_is_seen_by_nobody(hook: str, streamed: bool, is_async: bool, turned: bool) -> None:
    class Policy:
        pass

    class Recording(Recorder):
        pass

    async def deny_late(self: object, event: object) -> Decision:
        await asyncio.sleep(0)
        return Deny("no")

    def deny(self: object, event: object) -> Decision:
        return Deny("no")

    chosen = deny_late if is_async else deny
    chosen.__name__ = hook
    setattr(Policy, hook, hookimpl(chosen))

    async with stage("very private words", plugins=either_way(Policy(), Recording(), turned=turned)) as on:
        if streamed:
            async with on.session.stream("go") as events:
                _ = [event async for event in events]
            result = events.result
        else:
            result = await on.session.say("go")

    assert result.why == "denied"
    assert "private" not in repr((result, on.recorder.events, on.session.history, on.session.records()))


async def test_run_sync_is_under_the_same_policies_for_input_too() -> None:
    class Policy:
        @hookimpl
        def decide_input(self, event):
            return Deny("not today")

    model = ScriptedModel("hello")

    result = await asyncio.to_thread(
        lambda: Host.run_sync("go", model="scripted/m", plugins=[Policy(), model], installed=False)
    )

    assert (result.why, result.detail, model.requests) == ("denied", "not today", [])
