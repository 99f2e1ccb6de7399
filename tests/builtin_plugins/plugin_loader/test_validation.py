"""Every hook that pluggy would lose in silence, refused."""

import functools
import sys
import types
from typing import Any, cast

import pluggy
from each_of import each_of
from fake_distributions import refusal
from hypothesis import given, strategies as st
from pluggent_hookspecs import HOOKS, hookimpl
from pluggent_plugin_loader.loader import new_manager, register
from pluggent_plugin_loader.validation import near_misses


def refused(plugin: object, *kinds: str) -> str:
    manager = new_manager()
    register(manager, "app:other", Fine(), kinds=("hooks",))
    return refusal(manager, lambda: register(manager, "app:mine", plugin, kinds=kinds or ("hooks",), host_code=True))


class Fine:
    @hookimpl
    def decide_input(self, event: object) -> None:
        return None


class Near:
    """A policy with helpers, and methods that look like hooks."""

    @hookimpl
    def decide_input(self, event: object) -> None: ...

    def decide_tool_cal(self, event: object) -> None: ...

    def decide_tool_calls(self, call: object) -> None: ...

    def decide_tolo_call(self) -> None: ...

    def decide_calls(self, event: object) -> None: ...

    async def before_call(self, event: object) -> None: ...

    @staticmethod
    def aroud_turn(event: object) -> None: ...

    def observed(self, event: object) -> None: ...

    def settled(self) -> None: ...

    def decide_price(self, usage: object) -> None: ...

    def _before_call(self, event: object) -> None: ...

    @property
    def transform_inputs(self) -> object:
        raise AssertionError("plugin code ran")


def test_methods_that_are_nearly_hooks_and_have_no_marker_are_named() -> None:
    found = [sentence.split()[2] for sentence in near_misses(Near())]

    assert found == [
        "aroud_turn", "before_call", "decide_calls", "decide_tolo_call", "decide_tool_cal", "decide_tool_calls"
    ]  # fmt: skip
    assert any("did you mean 'decide_tool_call'?" in sentence for sentence in near_misses(Near()))


def test_a_module_that_imports_functions_is_asked_for_its_own_alone() -> None:
    module = types.ModuleType("acme_near")
    exec("def decide_outptu(event): ...", module.__dict__)  # noqa: S102 (a module of its own)
    vars(module)["decide_inptu"] = Near.decide_calls

    (sentence,) = near_misses(module)

    assert "decide_outptu" in sentence


@given(st.sampled_from([name for name in HOOKS if len(name) >= 10]), st.data())
def test_any_one_edit_of_the_name_of_a_hook_is_named(hook: str, data: st.DataObject) -> None:
    at = data.draw(st.integers(1, len(hook) - 1))
    letter = data.draw(st.sampled_from("abcxyz_"))
    name = data.draw(
        st.sampled_from([
            hook[:at] + letter + hook[at:], hook[:at] + hook[at + 1 :], hook[:at] + letter + hook[at + 1 :],
            hook[: at - 1] + hook[at] + hook[at - 1] + hook[at + 1 :],
        ])
    )  # fmt: skip

    def method(_: object) -> None: ...

    plugin: object = type("Plugin", (), {name: method})()

    assert len(near_misses(plugin)) == (0 if name in HOOKS or name.startswith("_") else 1)


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


def hook(parameters: str = "event", *, body: str = "return None", kind: str = "def") -> Any:
    """Return a new function, so that a marker on one case is not on the next."""
    namespace: dict[str, Any] = {}
    exec(f"{kind} hook({parameters}): {body}", namespace)  # noqa: S102 (what is written here)
    return namespace["hook"]


def attribute(value: object, name: str = "decide_input") -> object:
    return types.SimpleNamespace(**{name: value})


def method(value: object, name: str = "decide_input") -> object:
    return type("Plugin", (), {name: value})()


foreign = pluggy.HookimplMarker("pluggant")
raw = pluggy.HookimplMarker("pluggent")
GENERATOR = hook(body="yield")
WRAPPED_GENERATOR = functools.wraps(GENERATOR)(hook())

LOST: dict[str, tuple[object, str]] = {
    "unmarked function": (attribute(hook()), "decide_input: it is not marked with @hookimpl"),
    "unmarked method": (method(hook("self, event")), "decide_input: it is not marked with @hookimpl"),
    "async __call__": (attribute(AsyncCallable()), "it is a AsyncCallable object, which pluggy does not see"),
    "marked async __call__": (attribute(hookimpl(AsyncCallable())), "it is a AsyncCallable object"),
    "partial": (attribute(functools.partial(hook())), "it is a partial object, which pluggy does not see"),
    "partialmethod": (method(functools.partialmethod(hook())), "it is a partial object"),
    "proxy": (Proxy(Fine()), "decide_input: it answers through __getattr__"),
    "proxy that raises": (Broken(), "it answers through __getattr__"),
    "property": (method(property(hook("self"))), "it is a property"),
    "class": (method(Fine), "it is a class"),
    "None": (method(None), "it is None"),
    "above staticmethod": (method(hookimpl(staticmethod(hook()))), "stands above @staticmethod"),
    "above classmethod": (method(hookimpl(cast("Any", classmethod(hook("cls, event"))))), "stands above @staticmethod"),
    "wrong project": (attribute(foreign(hook())), "it is marked for the project 'pluggant'"),
    "raw marker": (attribute(raw(hook())), "it is marked by pluggy itself"),
    "tryfirst": (attribute(raw(tryfirst=True)(hookimpl(hook()))), "tryfirst is not for pluggent's hooks"),
    "optional": (attribute(raw(optionalhook=True)(hookimpl(hook()))), "optionalhook is not for"),
    "wrapper": (attribute(raw(wrapper=True)(hookimpl(hook(body="yield")))), "wrapper is not for"),
    "renamed": (attribute(raw(specname="observe")(hookimpl(hook()))), "specname is not for"),
    "unknown hook": (attribute(hookimpl(hook()), "decide_toolcall"),
                     "decide_toolcall: there is no such hook; did you mean 'decide_tool_call'?"),
    "unknown hook, marked above": (method(hookimpl(staticmethod(hook())), "decide_toolcall"),
                                   "decide_toolcall: there is no such hook"),
    "in a class inside": (method(Fine, "Inner"), "Inner: it is a class inside, so its hooks (decide_input) are not"),
    "private": (attribute(hookimpl(hook()), "_decide_input"), "_decide_input: a private name is not a hook"),
    "of no operation": (attribute(hookimpl(hook()), "decide_plan"), "decide_plan: there is no such hook"),
    "another kind": (attribute(hookimpl(hook()), "provide_tools"), "it does not belong to kind hooks"),
    "more parameters": (attribute(hookimpl(hook("event, limit=3"))),
                        "its parameters are event, limit; they must be event"),
    "another parameter": (attribute(hookimpl(hook("evt"))), "its parameters are evt; they must be event"),
    "no parameter": (attribute(hookimpl(hook(""))), "its parameters are nothing; they must be event"),
    "any parameters": (attribute(hookimpl(hook("*event"))), "they must be event"),
    "a keyword": (attribute(hookimpl(hook("event, *, limit"))), "its parameters are event, limit"),
    "self forgotten": (method(hookimpl(hook())), "its parameters are nothing"),
    "call_next forgotten": (attribute(hookimpl(hook(kind="async def")), "around_turn"),
                            "its parameters are event; they must be event, call_next"),
    "generator": (attribute(hookimpl(hook(body="yield"))), "it is a generator"),
    "async generator": (attribute(hookimpl(hook(body="yield", kind="async def"))), "it is a generator"),
    "wrapped generator": (attribute(hookimpl(WRAPPED_GENERATOR)), "it is a generator"),
    "sync around": (attribute(hookimpl(hook("event, call_next")), "around_turn"), "write async def"),
    "blocking async": (attribute(hookimpl(blocking=True)(hook(kind="async def"))),
                       "blocking=True is for synchronous"),
    "nothing at all": (types.SimpleNamespace(), "it implements no hook; this kind has"),
    "only a lifetime": (method(hook("event, call_next", kind="async def"), "open"), "it implements no hook"),
    "a class": (Fine, "a class is never registered itself"),
    "None itself": (None, "there is no object"),
}  # fmt: skip


@each_of("case", LOST)
def test_a_hook_that_would_be_lost_is_refused(case: str) -> None:
    plugin, says = LOST[case]

    said = refused(plugin)

    assert said.startswith("plugin 'app:mine' (given in application code) is refused: ")
    assert says in said


def test_a_capability_may_not_bring_a_policy_or_an_async_implementation_along() -> None:
    class Plugin(Fine):
        @hookimpl
        def provide_tools(self, event: object) -> list[object]:
            return []

    asynchronous_tools = attribute(hookimpl(hook(kind="async def")), "provide_tools")

    assert "decide_input: it does not belong to kind tools, which has provide_tools" in refused(Plugin(), "tools")
    assert "this hook is synchronous" in refused(asynchronous_tools, "tools")


def test_all_problems_of_a_plugin_are_named_at_once() -> None:
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


def test_a_refused_plugin_that_is_falsy_leaves_nothing_behind() -> None:
    class Falsy(Fine):
        def __bool__(self) -> bool:
            return False

        @hookimpl
        def observe(self, wrong: object) -> None: ...

    refused(Falsy())
