"""In which order implementations run, and why; nothing else may change it."""

import itertools
import random
import types
from collections.abc import Callable
from typing import Any

import pytest
from each_of import each_of
from hypothesis import given, strategies as st
from pluggent_hookspecs import HOOKS, ConfigError, HookKind, hookimpl
from pluggent_host.hooks.chains import Chains, build
from pluggent_host.plugins.loader import new_manager, register
from pluggent_host.settings import Grants, HostSettings

TO_FREEZE = ["host-first", "normal", "late", "security", "host-last"]
DEFAULTS = HostSettings()
ONION = ["host-first", "security", "normal", "late", "host-last"]


def plugin(hook: str = "decide_input", **options: Any) -> object:
    """Return a plugin with one implementation of *hook*, marked with *options*."""

    async def around(self: object, event: object, call_next: Callable[[], Any]) -> object:
        return await call_next()

    def plain(self: object, event: object) -> None:
        return None

    beside = {
        "transform_delta": {"transform_output": hookimpl(incremental=1)(_named(plain, "transform_output"))},
        "reserve": {"settle": hookimpl(_named(plain, "settle"))},
        "settle": {"reserve": hookimpl(_named(plain, "reserve"))},
    }
    function = around if HOOKS[hook].kind is HookKind.AROUND else plain
    return type("Plugin", (), {hook: hookimpl(**options)(_named(function, hook)), **beside.get(hook, {})})()


def _named(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    copy = types.FunctionType(function.__code__, function.__globals__, name)
    copy.__name__ = name
    return copy


def chains(plugins: dict[str, object], settings: HostSettings = DEFAULTS, **versions: str) -> Chains:
    manager = new_manager()
    for name, item in plugins.items():
        register(manager, name, item, kinds=("hooks",), host_code=name.startswith("app:"))
    return build(manager, settings, versions)


def order(plugins: dict[str, object], hook: str = "decide_input", **settings: Any) -> list[str]:
    return [impl.plugin for impl in chains(plugins, HostSettings(**settings))[hook]]


# ---- rule 12: bands


@each_of("hook", [name for name, info in HOOKS.items() if info.kind is not HookKind.PROVIDE])
def test_bands_stand_by_closeness_to_the_freeze_and_security_is_outermost_around(hook: str) -> None:
    bands = ONION if HOOKS[hook].kind is HookKind.AROUND else TO_FREEZE
    plugins = {f"app:{band}": plugin(hook, band=band) for band in sorted(bands)}

    assert order(plugins, hook) == [f"app:{band}" for band in bands]


def test_every_kind_of_result_transform_has_security_after_the_ordinary_ones() -> None:
    for hook in ("transform_tool_result", "transform_model_response", "transform_output", "transform_memory_result"):
        assert order({"app:a": plugin(hook, band="security"), "app:b": plugin(hook)}, hook) == ["app:b", "app:a"]


@pytest.mark.parametrize("hook", ["transform_tool_call", "around_tool_call"])
def test_before_and_after_never_cross_a_band(hook: str) -> None:
    plugins = {
        "app:security": plugin(hook, band="security", before=("app:host-first", "app:normal"), after=("app:late",)),
        "app:normal": plugin(hook, before=("app:host-first", "app:security"), after=("app:security",)),
        "app:late": plugin(hook, band="late", before=("app:normal", "app:security")),
        "app:host-first": plugin(hook, band="host-first", after=("app:normal", "app:security")),
    }

    bands = [band for band in (ONION if hook.startswith("around") else TO_FREEZE) if f"app:{band}" in plugins]
    assert order(plugins, hook) == [f"app:{band}" for band in bands]


def test_the_security_band_needs_the_operators_grant() -> None:
    plugins = {"acme-redact": plugin(band="security")}

    with pytest.raises(ConfigError, match=r"acme-redact.*security") as caught:
        chains(plugins)

    assert "[grants] security" in str(caught.value)
    assert order(plugins, grants=Grants(security=("acme-redact",))) == ["acme-redact"]


def test_the_grant_of_one_plugin_is_not_that_of_another() -> None:
    with pytest.raises(ConfigError, match="acme-other"):
        chains({"acme-other": plugin(band="security")}, HostSettings(grants=Grants(security=("acme-redact",))))


@pytest.mark.parametrize("band", ["host-first", "host-last"])
def test_the_host_bands_belong_to_the_application(band: str) -> None:
    granted = HostSettings(grants=Grants(security=("acme-eager",)))

    with pytest.raises(ConfigError, match=r"acme-eager.*application"):
        chains({"acme-eager": plugin(band=band)}, granted)

    assert order({"app:mine": plugin(band=band)}) == ["app:mine"]


def test_every_band_that_was_not_granted_is_named_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        chains({"acme-one": plugin(band="security"), "acme-two": plugin(band="host-last")})

    assert len(caught.value.problems) == 2


# ---- order inside a band


@given(st.permutations(["acme-a", "acme-b", "acme-c", "app:d"]))
def test_registration_order_never_shows(names: list[str]) -> None:
    assert order({name: plugin() for name in names}) == ["acme-a", "acme-b", "acme-c", "app:d"]


@given(st.permutations(["a", "b", "c", "d"]), st.integers(0, 4))
def test_the_operators_list_comes_before_plugin_ids(names: list[str], listed: int) -> None:
    wanted = tuple(names[:listed])

    assert order({name: plugin() for name in "abcd"}, order=wanted) == [*wanted, *sorted(set("abcd") - set(wanted))]


@given(st.lists(st.tuples(st.sampled_from("abcde"), st.sampled_from("abcde")), max_size=6), st.randoms())
def test_before_and_after_hold_or_form_a_circle(pairs: list[tuple[str, str]], shuffle: random.Random) -> None:
    names = list("abcde")
    shuffle.shuffle(names)
    plugins = {name: plugin(before=tuple(late for early, late in pairs if early == name)) for name in names}

    try:
        placed = order(plugins)
    except ConfigError as error:
        assert "circle" in str(error)  # noqa: PT017 (a circle is one of two right outcomes)
        assert circular(pairs)
    else:
        assert sorted(placed) == sorted(names)
        assert all(placed.index(early) < placed.index(late) for early, late in pairs)


def circular(pairs: list[tuple[str, str]]) -> bool:
    left = list(pairs)
    while left:
        rest = [(early, late) for early, late in left if any(other == early for _, other in left)]
        if len(rest) == len(left):
            return True
        left = rest
    return False


def test_after_is_before_the_other_way_round() -> None:
    assert order({"a": plugin(after=("b",)), "b": plugin()}) == ["b", "a"]
    assert order({"a": plugin(), "b": plugin(before=("a",))}) == ["b", "a"]


def test_before_and_after_win_over_the_operators_list() -> None:
    assert order({"a": plugin(after=("b",)), "b": plugin()}, order=("a", "b")) == ["b", "a"]


def test_ids_that_are_not_there_are_no_obstacle() -> None:
    assert order({"a": plugin(after=("nobody",)), "b": plugin(before=("nobody",))}) == ["a", "b"]


def test_a_circle_names_everybody_in_it_and_the_hook() -> None:
    plugins = {"a": plugin(after=("b",)), "b": plugin(after=("c",)), "c": plugin(after=("a",)), "d": plugin()}

    with pytest.raises(ConfigError, match="circle") as caught:
        chains(plugins)

    (problem,) = caught.value.problems
    assert "decide_input" in problem
    assert all(name in problem for name in ("a", "b", "c"))


def test_a_plugin_cannot_stand_before_itself() -> None:
    with pytest.raises(ConfigError, match="circle"):
        chains({"a": plugin(before=("a",))})


# ---- what is said about it


def test_each_place_has_its_reason() -> None:
    plugins = {"a": plugin(after=("c",)), "b": plugin(), "c": plugin(), "app:d": plugin(band="late")}

    found = chains(plugins, HostSettings(order=("b",)))["decide_input"]

    assert {impl.plugin: impl.why for impl in found} == {
        "b": "band normal, place in [order]",
        "c": "band normal, by plugin id",
        "a": "band normal, after c, by plugin id",
        "app:d": "band late, by plugin id",
    }


def test_a_hook_that_nobody_implements_has_an_empty_chain() -> None:
    assert chains({"a": plugin()})["decide_output"] == ()


def test_provide_hooks_are_in_no_chain() -> None:
    class Model:
        @hookimpl
        def provide_providers(self, event):
            return []

        @hookimpl
        def decide_input(self, event):
            return None

    manager = new_manager()
    register(manager, "app:model", Model(), kinds=("hooks", "provider"), host_code=True)

    assert set(build(manager, HostSettings(), {}).by_hook) == {"decide_input"}


def test_the_digest_names_who_is_there_in_which_version_band_and_order() -> None:
    compositions = [
        chains({"a": plugin(), "b": plugin()}),
        chains({"a": plugin()}),
        chains({"a": plugin(), "b": plugin()}, a="1.0"),
        chains({"a": plugin(), "b": plugin()}, a="1.1"),
        chains({"a": plugin(), "b": plugin()}, HostSettings(order=("b",))),
        chains({"a": plugin(), "b": plugin(band="late")}),
        chains({"a": plugin(), "b": plugin("decide_output")}),
    ]

    for one, other in itertools.combinations(compositions, 2):
        assert one.digest != other.digest


def test_the_same_composition_has_the_same_digest_however_it_came_about() -> None:
    assert chains({"a": plugin(), "b": plugin()}).digest == chains({"b": plugin(), "a": plugin()}).digest


def test_chains_know_what_is_async_and_what_blocks() -> None:
    class Plugin:
        @hookimpl
        async def decide_input(self, event):
            return None

        @hookimpl(blocking=True)
        def decide_output(self, event):
            return None

    found = chains({"app:a": Plugin()})

    assert [(impl.is_async, impl.blocking) for hook in ("decide_input", "decide_output") for impl in found[hook]] == [
        (True, False),
        (False, True),
    ]
