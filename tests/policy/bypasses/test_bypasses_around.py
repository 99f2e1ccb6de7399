"""Attempts to get round a policy from within around hooks: other requests, attempts that a plugin may not make."""

import asyncio
from collections.abc import Callable
from typing import Any

import attrs
import pytest
from each_of import each_of
from fake_distributions import importable, install
from pluggent_hookspecs import Ask, DecisionMade, Deny, Message, ProviderError, ToolFinished, tool
from pluggent_hookspecs.errors import ProviderErrorKind
from pluggent_host import Why
from pluggent_host.settings import Grants, HostSettings
from pluggent_plugin_loader.discovery import discover
from pluggent_retry.plugin import Retry
from pluggent_retry.settings import RetrySettings
from pluggent_testing.fakes import ScriptedModel, call
from policy_rules import both_forms, both_orders, friendly, hooked
from policy_stage import either_way, in_order, reach, results, said, stage
from retrying import Time

DOWN = ProviderError(ProviderErrorKind.UNAVAILABLE, "down")


class Other(ScriptedModel):
    name = "other"
    target = "https://elsewhere.example"


def reissuing(change: Callable[[Any], Any], model: str = "") -> Any:
    """Return a plugin that asks for what *change* makes of the request, in place of it."""

    async def around(event: Any, call_next: Any) -> Any:
        return await call_next.reissue(change(event.request), model=model)

    return hooked(name="Reissuer", around_model_call=around)


@tool(effects=("network_read",))
def danger() -> str:
    """Do something dangerous."""
    return "did it"


@tool(effects=())
def quiet() -> str:
    """Do nothing."""
    return "quiet"


# ---- around a call


@both_orders
async def test_an_around_cannot_hand_another_request_on(turned: bool):
    async def around(event: Any, call_next: Any) -> Any:
        return await call_next(attrs.evolve(event, arguments_json=b'{"path":"evil"}'))

    assert (await reach("say", either_way(hooked(around_tool_call=around), friendly(), turned=turned))).ran == ()


@both_orders
async def test_nothing_is_called_or_reissued_after_the_hook_has_returned(turned: bool):
    kept: list[Any] = []

    async def keeper(event: Any, call_next: Any) -> Any:
        kept.append(lambda: call_next.reissue(event.request) if hasattr(event, "request") else call_next())
        return await call_next()

    keeps = hooked(name="Keeper", around_tool_call=keeper, around_model_call=keeper)
    on, _ = await said(call("quiet"), plugins=either_way(keeps, friendly(), turned=turned), tools=[quiet])

    assert len(kept) == 3
    for late in kept:
        with pytest.raises(RuntimeError, match="after the hook has returned"):
            await late()
    assert len(on.model.requests) == 2


class OddError(BaseException):
    pass


@both_orders
@each_of("error", [ValueError("v"), OddError("odd"), SystemExit(3), asyncio.CancelledError()])
async def test_an_around_that_raises_anything_is_an_error_of_the_call(error: BaseException, turned: bool):
    async def around(event: object, call_next: object) -> None:
        raise error

    try:
        seen = await reach("say", either_way(hooked(around_tool_call=around), friendly(), turned=turned))
    except BaseException as escaped:  # noqa: BLE001 (pytest itself would stop at a SystemExit)
        pytest.fail(f"{escaped!r} came out of the turn")

    assert (seen.ran, len(seen.told)) == ((), 1)


@both_orders
async def test_the_error_of_an_around_passes_the_result_hooks(turned: bool):
    async def around(event: object, call_next: Any) -> None:
        raise ValueError(f"secret {(await call_next()).for_model}")

    def redact(event: Any) -> Any:
        return attrs.evolve(event.output, for_model=str(event.output.for_model).replace("secret", "***"))

    redactor = hooked(name="Redactor", marks={"band": "security"}, transform_tool_result=redact)
    seen = await reach("say", either_way(hooked(around_tool_call=around), redactor, turned=turned))

    assert "***" in repr(seen.told)
    assert "secret" not in repr((seen.told, [event for event in seen.events if isinstance(event, ToolFinished)]))


# ---- reissued requests


@both_orders
@both_forms
@each_of("answer", [Deny("not there"), Ask("there?")])
async def test_a_request_to_another_place_is_decided_for_that_place(answer: object, is_async: bool, turned: bool):
    other = Other("from elsewhere")
    policy = hooked(
        is_async=is_async, decide_model_request=lambda event: answer if "elsewhere" in event.target else None
    )

    plugins = either_way(policy, reissuing(lambda request: request, "other/m"), turned=turned)
    on, result = await said("from here", plugins=[*plugins, other])

    assert (result.why, other.requests, on.model.requests) == (Why.DENIED, [], [])


@both_orders
@both_forms
async def test_a_reissued_request_is_what_was_decided_about_and_nothing_else(is_async: bool, turned: bool):
    """A transform that came before the freeze of the first request sees the second one too."""
    seen: list[str] = []

    def saying(text: str) -> Callable[[Any], Any]:
        return lambda request: attrs.evolve(request, messages=(Message.user(text),))

    redactor = hooked(name="Redactor", transform_model_request=lambda event: saying("redacted")(event.request))
    policy = hooked(is_async=is_async, decide_model_request=lambda event: seen.append(event.request.messages[-1].text))
    plugins = either_way(policy, reissuing(saying("the secret")), turned=turned)
    on, _ = await said("fine", plugins=[*plugins, redactor])

    assert [request.messages[-1].text for request in on.model.requests] == ["redacted"]
    assert seen == ["redacted", "redacted"]


@both_orders
async def test_a_reissued_request_offers_no_tool_that_a_policy_took_away(turned: bool):
    def narrow(event: Any) -> Any:
        return attrs.evolve(event.request, tools=tuple(each for each in event.request.tools if each.name != "danger"))

    widens = reissuing(lambda request: attrs.evolve(request, tools=tuple(each.spec for each in on.session.tools)))
    plugins = either_way(hooked(transform_model_request=narrow), widens, turned=turned)
    async with stage(call("danger"), plugins=plugins, tools=[danger, quiet]) as on:
        with pytest.raises(Exception, match="can only be narrowed"):
            await on.session.say("go")

    assert on.model.requests == []


async def test_calls_of_a_reissued_reply_are_those_of_tools_that_it_was_offered():
    without = reissuing(lambda request: attrs.evolve(request, tools=()))

    on, _ = await said(call("quiet"), "fine", plugins=[without], tools=[quiet])

    assert "there is no tool" in on.read_by_model()[0]


async def test_three_reissues_are_all_even_one_below_the_other():
    async def twice(event: Any, call_next: Any) -> Any:
        try:
            return await call_next.reissue(event.request)
        except ProviderError:
            return await call_next.reissue(event.request)

    async with stage(*[DOWN] * 20, plugins=in_order(*(hooked(around_model_call=twice) for _ in range(3)))) as on:
        with pytest.raises(Exception, match=r"reissues|down"):
            await on.session.say("go")

    reissued = {made.operation_id for made in on.recorder.of(DecisionMade) if ".r" in made.operation_id}
    assert len(reissued) <= 3
    assert len(on.model.requests) <= 3


# ---- installed plugins without a grant

AROUND = """
from pluggent_hookspecs import Message, ModelResponse, ToolOutput, hookimpl

class Plugin:
    @hookimpl
    async def {hook}(self, event, call_next):
        return {value}
"""
UNGRANTED = {
    "reissues": ("around_model_call", "await call_next.reissue(event.request)"),
    "reissues with another model": ("around_model_call", "await call_next.reissue(event.request, model='o/m')"),
    "answers": ("around_model_call", "ModelResponse(Message.assistant('mine'))"),
    "answers a turn": ("around_turn", "Message.assistant('mine')"),
}


def put(folder: Any, name: str, hook: str, value: str) -> None:
    text = AROUND.format(hook=hook, value=value)
    install(folder, name, {f"hooks/{name}": f"{name}_x:Plugin"}, modules={f"{name}_x": text})


@pytest.mark.parametrize("name", ["aaa", "zzz"])
@pytest.mark.parametrize(("hook", "value"), UNGRANTED.values(), ids=UNGRANTED)
async def test_an_installed_plugin_does_nothing_in_place_of_a_call_without_a_grant(
    hook: str, value: str, name: str, tmp_path: Any
):
    put(tmp_path, name, hook, value)

    with importable(tmp_path):
        async with stage("real", installed=discover([str(tmp_path)])) as on:
            with pytest.raises(Exception, match=r"\[grants\]"):
                await on.session.say("go")

    assert on.model.requests == []
    assert "mine" not in str(on.session.history)


async def test_grants_of_one_plugin_are_not_those_of_its_neighbour(tmp_path: Any):
    for name in ("aaa", "zzz"):
        put(tmp_path, name, "around_tool_call", f"ToolOutput('{name}')")
    config = HostSettings(grants=Grants(may_respond=("zzz",), retriers=("aaa",), security=("aaa",)))

    with importable(tmp_path):
        on, _ = await said(call("quiet"), tools=[quiet], config=config, installed=discover([str(tmp_path)]))

    (told,) = results(on.session.history)
    assert "may_respond" in told
    assert "zzz" not in told


# ---- other attempts, other replies


@both_orders
@each_of("refused", [1, 2])
async def test_the_retry_plugin_does_not_try_again_what_a_ledger_refused(refused: int, turned: bool):
    asked: list[int] = []

    def reserve(event: Any) -> Any:
        asked.append(event.attempt)
        return Deny("too dear") if len(asked) >= refused else {"n": len(asked)}

    retry = Retry(RetrySettings(attempts=5, fallback=("scripted/other",)), clock=Time().clock)
    plugins = either_way(hooked(reserve=reserve, settle=None), retry, turned=turned)
    on, result = await said(*[DOWN] * 9, plugins=plugins)

    assert (result.why, result.detail) == (Why.DENIED, "too dear")
    assert (len(asked), len(on.model.requests)) == (refused, refused - 1)
