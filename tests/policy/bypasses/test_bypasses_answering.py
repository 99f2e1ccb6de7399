"""Attempts to get round a policy by answering instead, and from around a call."""

import asyncio
from collections.abc import Awaitable, Callable

import attrs
import pytest
from bypassing import Friendly, OddError, both_forms, both_orders, every_way, policy
from naming import shown
from pluggent_hookspecs import Ask, Decision, Deny, Message, Respond, ToolFinished, hookimpl
from policy_stage import either_way, reach

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
