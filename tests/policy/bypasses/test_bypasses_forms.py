"""Forms in which a policy could be lost without a word, and names and arguments that look like others."""

import asyncio
import functools
import types
from collections.abc import Callable
from typing import Any

import pluggy
import pytest
from bypassing import both_forms, both_orders, policy
from pluggent_hookspecs import Allow, Deny, PluginLoadError, ToolCall, hookimpl, tool
from pluggent_testing.fakes import call
from policy_stage import reach, stage

# ---- forms in which a policy could be lost


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


def plugin_of(**members: Any) -> Any:
    return type("Form", (), members)()


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
        self.inner = plugin_of(decide_tool_call=hookimpl(no))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


class Base:
    @hookimpl
    def decide_tool_call(self, event: Any) -> Any:
        return Deny("no")


class Heir(Base):
    pass


class Unmarked(Base):
    def decide_tool_call(self, event: Any) -> Any:
        return Deny("no, and louder")


def fresh(function: Any) -> Any:
    """Return a copy of *function*, for markers are written on it."""
    return types.FunctionType(function.__code__, function.__globals__, "decide_tool_call")


FORMS: dict[str, Callable[[], Any]] = {
    "a-partial": lambda: plugin_of(decide_tool_call=hookimpl(functools.partial(no, None))),
    "an-async-partial": lambda: plugin_of(decide_tool_call=hookimpl(functools.partial(async_no, None))),
    "a-partialmethod": lambda: plugin_of(decide_tool_call=functools.partialmethod(hookimpl(fresh(no)))),
    "a-marked-callable": lambda: plugin_of(decide_tool_call=hookimpl(Callee(no))),
    "a-marked-async-callable": lambda: plugin_of(decide_tool_call=hookimpl(AsyncCallee(async_no))),
    "a-wrapped-function": lambda: plugin_of(decide_tool_call=hookimpl(wrapped(fresh(no)))),
    "a-wrapped-coroutine-function": lambda: plugin_of(decide_tool_call=hookimpl(wrapped(fresh(async_no)))),
    "wrapped-after-it-was-marked": lambda: plugin_of(decide_tool_call=wrapped(hookimpl(fresh(no)))),
    "a-staticmethod": lambda: plugin_of(decide_tool_call=staticmethod(hookimpl(fresh(no)))),
    "a-marked-staticmethod": lambda: plugin_of(decide_tool_call=hookimpl(staticmethod(fresh(no)))),
    "a-classmethod": lambda: plugin_of(decide_tool_call=classmethod(hookimpl(fresh(no)))),
    "a-property": lambda: plugin_of(decide_tool_call=property(lambda _: hookimpl(fresh(no)))),
    "set-on-the-object": on_the_object,
    "a-module": as_module,
    "a-proxy": Proxy,
    "inherited": Heir,
    "overridden-without-a-marker": Unmarked,
    "pluggys-own-marker": lambda: plugin_of(decide_tool_call=pluggy.HookimplMarker("pluggent")(fresh(no))),
    "the-marker-of-another-project": lambda: plugin_of(decide_tool_call=pluggy.HookimplMarker("pytest")(fresh(no))),
    "tryfirst": lambda: plugin_of(decide_tool_call=pluggy.HookimplMarker("pluggent")(fresh(no), tryfirst=True)),
    "a-coroutine-function-that-blocks": lambda: plugin_of(decide_tool_call=hookimpl(blocking=True)(fresh(async_no))),
    "a-private-name": lambda: plugin_of(_decide_tool_call=hookimpl(fresh(no))),
    "a-name-in-capitals": lambda: plugin_of(Decide_tool_call=hookimpl(fresh(no))),
    "a-name-that-looks-the-same": lambda: plugin_of(decide_tоol_call=hookimpl(fresh(no))),
}


@both_orders
@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
async def test_a_policy_is_heard_in_any_form_or_the_host_does_not_open(form: Callable[[], Any], turned: bool):
    """What must not be is a host that is open and does not ask."""

    class Aa:
        @hookimpl
        def decide_tool_call(self, event: Any) -> Any:
            return Allow()

    class Zz(Aa):
        pass

    try:
        seen = await reach("say", [Zz() if turned else Aa(), form()])
    except PluginLoadError:
        return

    assert seen.ran == ()
    assert "Denied" in seen.told[0]


# ---- names that look like others

LOOKALIKES = [
    "d\N{CYRILLIC SMALL LETTER A}nger", "\N{FULLWIDTH LATIN SMALL LETTER D}anger", "danger\u200b", " danger",
    "danger\n", "DANGER", "danger\x00", "app:tools:tool/danger",
]  # fmt: skip


@pytest.mark.parametrize("name", LOOKALIKES, ids=ascii)
@both_forms
async def test_a_call_of_a_name_that_looks_like_a_tools_runs_nothing(name: str, is_async: bool):
    ran: list[str] = []

    @tool(effects=("shell",))
    def danger(path: str) -> None:
        """Do it."""
        ran.append(path)

    guard = policy(lambda: Deny("no"), is_async=is_async)
    async with stage(call(name, "1", path="x"), "fine", plugins=[guard], tools=[danger]) as on:
        await on.session.say("go")

        assert "there is no tool" in on.read_by_model()[0]
    assert ran == []


ARGUMENTS = {
    "a-key-twice": '{"path": "good", "path": "evil"}',
    "a-key-twice-in-escapes": '{"path": "good", "p\\u0061th": "evil"}',
    "a-key-that-looks-the-same": '{"path": "good", "p\N{CYRILLIC SMALL LETTER A}th": "evil"}',
    "a-bare-value": '"evil"',
    "two-objects": '{"path": "good"} {"path": "evil"}',
    "a-comment": '{"path": "good" /* , "path": "evil" */}',
    "a-list-of-calls": '[{"path": "evil"}]',
    "a-byte-order-mark": '\ufeff{"path": "evil"}',
    "single-quotes": "{'path': 'evil'}",
    "a-tail": '{"path": "good"}\x00{"path": "evil"}',
    "half-an-escape": '{"path": "evil\\ud800"}',
    "too-deep": '{"path": ' + "[" * 100 + "]" * 100 + "}",
    "far-too-big": '{"path": ' + "9" * 5000 + "}",
    "not-a-number": '{"path": NaN}',
}


@both_forms
@pytest.mark.parametrize("text", ARGUMENTS.values(), ids=ARGUMENTS)
async def test_no_writing_of_arguments_shows_the_policy_another_value_than_the_tool(text: str, is_async: bool):
    seen: list[str] = []
    ran: list[str] = []

    class Guard:
        @hookimpl
        def decide_tool_call(self, event: Any) -> Any:
            seen.append(event.arguments["path"])
            return Deny("no") if event.arguments["path"] == "evil" else None

    class AsyncGuard:
        @hookimpl
        async def decide_tool_call(self, event: Any) -> Any:
            return Guard().decide_tool_call(event)

    @tool(effects=("shell",))
    def danger(path: str) -> None:
        """Do it."""
        ran.append(path)

    async with stage(
        ToolCall("1", "danger", text), "fine", plugins=[AsyncGuard() if is_async else Guard()], tools=[danger]
    ) as on:
        await on.session.say("go")

    assert ran == [path for path in seen if path != "evil"]
    assert "evil" not in ran
