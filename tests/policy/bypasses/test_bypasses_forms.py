"""Forms in which a policy could be lost without a word, and names of tools that look like others."""

import asyncio
import functools
import types
from collections.abc import Callable
from typing import Any

import pluggy
import pytest
from each_of import each_of
from pluggent_hookspecs import Allow, Deny, PluginLoadError, hookimpl
from pluggent_testing.fakes import call
from policy_rules import both_forms, both_orders, hooked, on_danger
from policy_stage import Danger, reach, said


def no(self: object, event: object) -> Deny:
    return Deny("no")


async def async_no(self: object, event: object) -> Deny:
    await asyncio.sleep(0)
    return Deny("no")


def wrapped(function: Any) -> Any:
    @functools.wraps(function)
    def around(*args: Any) -> Any:
        return function(*args)

    return around


class Callee:
    def __init__(self, answer: Callable[..., Any]) -> None:
        self.answer = answer
        self.__name__ = "decide_tool_call"

    def __call__(self, event: object) -> Any:
        return self.answer(self, event)


class AsyncCallee(Callee):
    async def __call__(self, event: object) -> Any:
        return await self.answer(self, event)


def on_the_object() -> Any:
    made: Any = type("Form", (), {})()
    made.decide_tool_call = hookimpl(types.MethodType(no, made).__func__)
    return made


def as_module() -> Any:
    made = types.ModuleType("form")

    def decide_tool_call(event: object) -> Deny:
        return Deny("no")

    made.decide_tool_call = hookimpl(decide_tool_call)  # type: ignore[attr-defined] # a module has what it is given
    return made


class Proxy:
    def __init__(self) -> None:
        self.inner = type("Form", (), {"decide_tool_call": hookimpl(no)})()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


class Base:
    @hookimpl
    def decide_tool_call(self, event: Any) -> Any:
        return Deny("no")


class Unmarked(Base):
    def decide_tool_call(self, event: Any) -> Any:
        return Deny("no, and louder")


def fresh(function: Any) -> Any:
    """Return a copy of *function*, for markers are written on it."""
    return types.FunctionType(function.__code__, function.__globals__, "decide_tool_call")


def called(name: str, made: Callable[[], Any]) -> Callable[[], Any]:
    def form() -> Any:
        return type("Form", (), {name: made()})()

    return form


MEMBERS: dict[str, Callable[[], Any]] = {
    "a partial": lambda: hookimpl(functools.partial(no, None)),
    "an async partial": lambda: hookimpl(functools.partial(async_no, None)),
    "a partialmethod": lambda: functools.partialmethod(hookimpl(fresh(no))),
    "a marked callable": lambda: hookimpl(Callee(no)),
    "a marked async callable": lambda: hookimpl(AsyncCallee(async_no)),
    "a wrapped function": lambda: hookimpl(wrapped(fresh(no))),
    "a wrapped coroutine function": lambda: hookimpl(wrapped(fresh(async_no))),
    "wrapped after it was marked": lambda: wrapped(hookimpl(fresh(no))),
    "a staticmethod": lambda: staticmethod(hookimpl(fresh(no))),
    "a marked staticmethod": lambda: hookimpl(staticmethod(fresh(no))),
    "a classmethod": lambda: classmethod(hookimpl(fresh(no))),
    "a property": lambda: property(lambda _: hookimpl(fresh(no))),
    "pluggy's own marker": lambda: pluggy.HookimplMarker("pluggent")(fresh(no)),
    "the marker of another project": lambda: pluggy.HookimplMarker("pytest")(fresh(no)),
    "tryfirst": lambda: pluggy.HookimplMarker("pluggent")(fresh(no), tryfirst=True),
    "a coroutine function that blocks": lambda: hookimpl(blocking=True)(fresh(async_no)),
}
FORMS: dict[str, Callable[[], Any]] = {
    **{name: called("decide_tool_call", made) for name, made in MEMBERS.items()},
    **{repr(name): called(name, lambda: hookimpl(fresh(no)))
       for name in ("_decide_tool_call", "Decide_tool_call", "decide_t\N{CYRILLIC SMALL LETTER O}ol_call")},
    "set on the object": on_the_object,
    "a module": as_module,
    "a proxy": Proxy,
    "inherited": type("Heir", (Base,), {}),
    "overridden without a marker": Unmarked,
}  # fmt: skip


@each_of("name", FORMS)
@both_orders
async def test_a_policy_is_heard_in_any_form_or_the_host_does_not_open(name: str, turned: bool):
    """What must not be is a host that is open and does not ask."""
    try:
        seen = await reach("say", [hooked(name="Zz" if turned else "Aa", decide_tool_call=Allow()), FORMS[name]()])
    except PluginLoadError:
        return

    assert seen.ran == ()
    assert "Denied" in seen.told[0]


def generates(self: object, event: object) -> Any:
    yield Deny("no")


def of_another_parameter(self: object, call: object) -> Deny:
    return Deny("no")


class AsyncObject:
    async def __call__(self, event: object) -> Deny:
        return Deny("no")


@each_of(
    "members",
    [
        {"decide_tool_cal": hookimpl(fresh(no))}, {"decide_tool_call": fresh(no)}, {"decide_tool_call": AsyncObject()},
        {"decide_tool_call": hookimpl(generates)}, {"decide_tool_call": hookimpl(of_another_parameter)}, {},
        {"decide_plan": hookimpl(fresh(no))},
    ],
)  # fmt: skip
async def test_a_policy_that_would_never_be_asked_refuses_to_open_the_host(members: dict[str, Any]):
    with pytest.raises(PluginLoadError, match="app:never") as refused:
        await reach("say", [type("Never", (), members)()])

    assert "decide_tool_cal" not in members or "decide_tool_call" in str(refused.value)


# ---- names that look like others


@each_of(
    "name",
    ["d\N{CYRILLIC SMALL LETTER A}nger", "\N{FULLWIDTH LATIN SMALL LETTER D}anger", "danger\u200b", " danger",
     "danger\n", "DANGER", "danger\x00", "app:tools:tool/danger"],
)  # fmt: skip
@both_forms
async def test_a_call_of_a_name_that_looks_like_a_tools_runs_nothing(name: str, is_async: bool):
    danger = Danger()

    guard = on_danger(lambda: Deny("no"), is_async=is_async)
    on, _ = await said(call(name, "1", path="x"), "fine", plugins=[guard], tools=danger.tools())

    assert "there is no tool" in on.read_by_model()[0]
    assert danger.ran == []
