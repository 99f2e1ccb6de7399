"""Every hook that pluggy would lose in silence, refused."""

import functools
import sys
import types
from collections.abc import AsyncIterator, Generator
from typing import Any, cast

import pluggy
import pytest
from each_of import each_of
from fake_distributions import refusal
from pluggent_hookspecs import hookimpl
from pluggent_host.plugins.loader import new_manager, register


@pytest.fixture
def manager() -> pluggy.PluginManager:
    return new_manager()


def refused(plugin: object, *kinds: str) -> str:
    manager = new_manager()
    register(manager, "app:other", Fine(), kinds=("hooks",))
    return refusal(manager, lambda: register(manager, "app:mine", plugin, kinds=kinds or ("hooks",), host_code=True))


class Fine:
    @hookimpl
    def decide_input(self, event: object) -> None:
        return None


async def _around(event: object, call_next: object) -> None: ...


class AsyncCallable:
    async def __call__(self, event: object) -> None: ...


class Proxy:
    def __init__(self, inner: object) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


class Broken:
    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(name)


def plain(event: object) -> None: ...


def as_method(event: object, call_next: object) -> None: ...


def itself(plugin: object) -> object:
    return plugin


def with_attribute(value: object, name: str = "decide_input") -> object:
    return types.SimpleNamespace(**{name: value})


def with_method(value: object, name: str = "decide_input") -> object:
    return type("Plugin", (), {name: value})()


foreign = pluggy.HookimplMarker("pluggant")
raw = pluggy.HookimplMarker("pluggent")


def generator(event: object) -> Generator[None]:
    yield


async def async_generator(event: object) -> AsyncIterator[None]:
    yield


@functools.wraps(generator)
def wrapped_generator(event: object) -> object:
    return generator(event)


def fresh(function: Any) -> Any:
    """Return a copy, so that a marker on one case is not on the next."""
    copy = types.FunctionType(function.__code__, function.__globals__, function.__name__, function.__defaults__)
    copy.__kwdefaults__ = function.__kwdefaults__
    copy.__dict__.update(vars(function))
    return copy


def takes_more(event: object, limit: int = 3) -> None: ...


def takes_another(evt: object) -> None: ...


def takes_nothing() -> None: ...


def takes_any(*event: object) -> None: ...


def takes_keyword(event: object, *, limit: int) -> None: ...


async def asynchronous(event: object) -> None: ...


LOST: dict[str, tuple[object, str]] = {
    "unmarked function": (with_attribute(plain), "decide_input: it is not marked with @hookimpl"),
    "unmarked method": (with_method(as_method), "decide_input: it is not marked with @hookimpl"),
    "async __call__": (with_attribute(AsyncCallable()), "it is a AsyncCallable object, which pluggy does not see"),
    "marked async __call__": (with_attribute(hookimpl(AsyncCallable())), "it is a AsyncCallable object"),
    "partial": (with_attribute(functools.partial(plain)), "it is a partial object, which pluggy does not see"),
    "partialmethod": (with_method(functools.partialmethod(plain)), "it is a partial object"),
    "proxy": (Proxy(Fine()), "decide_input: it answers through __getattr__"),
    "proxy that raises": (Broken(), "it answers through __getattr__"),
    "property": (with_method(property(itself)), "it is a property"),
    "class": (with_method(Fine), "it is a class"),
    "None": (with_method(None), "it is None"),
    "above staticmethod": (with_method(hookimpl(staticmethod(fresh(plain)))), "stands above @staticmethod"),
    "above classmethod": (with_method(hookimpl(cast("Any", classmethod(as_method)))), "stands above @staticmethod"),
    "wrong project": (with_attribute(foreign(fresh(plain))), "it is marked for the project 'pluggant'"),
    "raw marker": (with_attribute(raw(fresh(plain))), "it is marked by pluggy itself"),
    "tryfirst": (with_attribute(raw(tryfirst=True)(hookimpl(fresh(plain)))), "tryfirst is not for pluggent's hooks"),
    "optional": (with_attribute(raw(optionalhook=True)(hookimpl(fresh(plain)))), "optionalhook is not for"),
    "wrapper": (with_attribute(raw(wrapper=True)(hookimpl(fresh(generator)))), "wrapper is not for"),
    "renamed": (with_attribute(raw(specname="observe")(hookimpl(fresh(plain)))), "specname is not for"),
    "unknown hook": (
        with_attribute(hookimpl(fresh(plain)), "decide_toolcall"),
        "decide_toolcall: there is no such hook; did you mean 'decide_tool_call'?",
    ),
    "unknown hook, marked above": (
        with_method(hookimpl(staticmethod(fresh(plain))), "decide_toolcall"),
        "decide_toolcall: there is no such hook",
    ),
    "private": (with_attribute(hookimpl(fresh(plain)), "_decide_input"), "_decide_input: a private name is not a hook"),
    "of no operation": (with_attribute(hookimpl(fresh(plain)), "decide_plan"), "decide_plan: there is no such hook"),
    "another kind": (with_attribute(hookimpl(fresh(plain)), "provide_tools"), "it does not belong to kind hooks"),
    "more parameters": (
        with_attribute(hookimpl(fresh(takes_more))),
        "its parameters are event, limit; they must be event",
    ),
    "another parameter": (with_attribute(hookimpl(fresh(takes_another))), "its parameters are evt; they must be event"),
    "no parameter": (with_attribute(hookimpl(fresh(takes_nothing))), "its parameters are nothing; they must be event"),
    "any parameters": (with_attribute(hookimpl(fresh(takes_any))), "they must be event"),
    "a keyword": (with_attribute(hookimpl(fresh(takes_keyword))), "its parameters are event, limit"),
    "self forgotten": (with_method(hookimpl(fresh(plain))), "its parameters are nothing"),
    "call_next forgotten": (
        with_attribute(hookimpl(fresh(asynchronous)), "around_turn"),
        "its parameters are event; they must be event, call_next",
    ),
    "generator": (with_attribute(hookimpl(fresh(generator))), "it is a generator"),
    "async generator": (with_attribute(hookimpl(fresh(async_generator))), "it is a generator"),
    "wrapped generator": (with_attribute(hookimpl(wrapped_generator)), "it is a generator"),
    "sync around": (
        with_attribute(hookimpl(fresh(as_method)), "around_turn"),
        "write async def",
    ),
    "blocking async": (
        with_attribute(hookimpl(blocking=True)(fresh(asynchronous))),
        "blocking=True is for synchronous",
    ),
    "nothing at all": (types.SimpleNamespace(), "it implements no hook; this kind has"),
    "only a lifetime": (with_method(_around, "open"), "it implements no hook"),
    "a class": (Fine, "a class is never registered itself"),
    "None itself": (None, "there is no object"),
}


@each_of("case", LOST)
def test_a_hook_that_would_be_lost_is_refused(case: str) -> None:
    plugin, says = LOST[case]

    said = refused(plugin)

    assert said.startswith("plugin 'app:mine' (given in application code) is refused: ")
    assert says in said


def test_an_async_implementation_of_a_synchronous_hook_is_refused() -> None:
    plugin = with_attribute(hookimpl(fresh(asynchronous)), "provide_tools")

    assert "this hook is synchronous" in refused(plugin, "tools")


def test_a_capability_may_not_bring_a_policy_along() -> None:
    class Plugin(Fine):
        @hookimpl
        def provide_tools(self, event: object) -> list[object]:
            return []

    assert "decide_input: it does not belong to kind tools, which has provide_tools" in refused(Plugin(), "tools")


def test_all_problems_of_a_plugin_are_told_at_once() -> None:
    class Plugin:
        def decide_input(self, event: object) -> None: ...

        @hookimpl
        def observe(self, evt: object) -> None: ...

        @hookimpl
        def obserev(self, event: object) -> None: ...

    said = refused(Plugin())

    assert "decide_input: it is not marked" in said
    assert "observe: its parameters are evt" in said
    assert "obserev: there is no such hook; did you mean 'observe'?" in said


def test_what_pluggy_itself_does_not_see_is_noticed_after_registration() -> None:
    class Blind(pluggy.PluginManager):
        def parse_hookimpl_opts(self, plugin: object, name: str) -> None:
            return None

    blind = Blind("pluggent")
    blind.add_hookspecs(sys.modules["pluggent_hookspecs.hooks"])

    said = refusal(blind, lambda: register(blind, "app:mine", Fine(), kinds=("hooks",)))

    assert "pluggy does not see decide_input" in said


@pytest.mark.parametrize("version", ["falsy", "plain"])
def test_a_refused_plugin_leaves_nothing_behind(manager: pluggy.PluginManager, version: str) -> None:
    class Falsy(Fine):
        def __bool__(self) -> bool:
            return version == "plain"

        @hookimpl
        def observe(self, wrong: object) -> None: ...

    refusal(manager, lambda: register(manager, "app:mine", Falsy(), kinds=("hooks",)))

    assert not manager.has_plugin("app:mine")
