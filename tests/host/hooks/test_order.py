"""In which order implementations run, and why: bands (rule 12), before and after, the operator's list, plugin ids."""

import random
import types
from collections.abc import Callable
from typing import Any

import pytest
from each_of import each_of
from hypothesis import given, strategies as st
from pluggent_hookspecs import HOOKS, ConfigError, HookKind, hookimpl
from pluggent_host.hooks.order import Chains, build
from pluggent_host.settings import Grants, HostSettings
from pluggent_plugin_loader.loader import new_manager, register

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


@each_of("hook", [name for name, info in HOOKS.items() if info.kind is not HookKind.PROVIDE])
def test_bands_stand_by_closeness_to_the_freeze_and_security_is_outermost_around(hook: str) -> None:
    bands = ONION if HOOKS[hook].kind is HookKind.AROUND else TO_FREEZE
    plugins = {f"app:{band}": plugin(hook, band=band) for band in sorted(bands)}

    assert order(plugins, hook) == [f"app:{band}" for band in bands]


@each_of("hook", ["transform_tool_call", "around_tool_call"])
def test_before_and_after_never_cross_a_band(hook: str) -> None:
    plugins = {
        "app:security": plugin(hook, band="security", before=("app:host-first", "app:normal"), after=("app:late",)),
        "app:normal": plugin(hook, before=("app:host-first", "app:security"), after=("app:security",)),
        "app:late": plugin(hook, band="late", before=("app:normal", "app:security")),
        "app:host-first": plugin(hook, band="host-first", after=("app:normal", "app:security")),
    }

    bands = [band for band in (ONION if hook.startswith("around") else TO_FREEZE) if f"app:{band}" in plugins]
    assert order(plugins, hook) == [f"app:{band}" for band in bands]


def test_the_security_band_needs_the_operators_grant_to_that_plugin() -> None:
    plugins = {"acme-redact": plugin(band="security")}

    for grants in (Grants(), Grants(security=("acme-other",))):
        with pytest.raises(ConfigError, match=r"acme-redact.*security") as caught:
            chains(plugins, HostSettings(grants=grants))
        assert "[grants] security" in str(caught.value)

    assert order(plugins, grants=Grants(security=("acme-redact",))) == ["acme-redact"]


@each_of("band", ["host-first", "host-last"])
def test_the_host_bands_belong_to_the_application(band: str) -> None:
    granted = HostSettings(grants=Grants(security=("acme-eager",)))

    with pytest.raises(ConfigError, match=r"acme-eager.*application"):
        chains({"acme-eager": plugin(band=band)}, granted)

    assert order({"app:mine": plugin(band=band)}) == ["app:mine"]


def test_every_band_that_was_not_granted_is_named_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        chains({"acme-one": plugin(band="security"), "acme-two": plugin(band="host-last")})

    assert len(caught.value.problems) == 2


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


@each_of(
    ("first", "second", "listed", "placed"),
    [
        ({"after": ("b",)}, {}, (), ["b", "a"]),
        ({}, {"before": ("a",)}, (), ["b", "a"]),
        ({"after": ("b",)}, {}, ("a", "b"), ["b", "a"]),  # they win over the operator's list
        ({"after": ("absent",)}, {"before": ("absent",)}, (), ["a", "b"]),
    ],
)
def test_after_is_before_the_other_way_round(first: Any, second: Any, listed: Any, placed: list[str]) -> None:
    assert order({"a": plugin(**first), "b": plugin(**second)}, order=listed) == placed


def test_a_circle_names_the_hook_and_all_in_it() -> None:
    plugins = {"a": plugin(after=("b",)), "b": plugin(after=("c",)), "c": plugin(after=("a",)), "d": plugin()}

    with pytest.raises(ConfigError, match="circle") as caught:
        chains(plugins)
    with pytest.raises(ConfigError, match="circle"):
        chains({"a": plugin(before=("a",))})

    (problem,) = caught.value.problems
    assert [name for name in ("decide_input", "a", "b", "c") if name not in problem] == []


def test_each_place_has_its_reason() -> None:
    plugins = {"a": plugin(after=("c",)), "b": plugin(), "c": plugin(), "app:d": plugin(band="late")}

    found = chains(plugins, HostSettings(order=("b",)))["decide_input"]

    assert {impl.plugin: impl.why for impl in found} == {
        "b": "band normal, place in [order]",
        "c": "band normal, by plugin id",
        "a": "band normal, after c, by plugin id",
        "app:d": "band late, by plugin id",
    }


def test_provide_hooks_and_hooks_that_no_plugin_implements_have_no_chain() -> None:
    class Model:
        @hookimpl
        def provide_providers(self, event):
            return []

        @hookimpl
        def decide_input(self, event):
            return None

    manager = new_manager()
    register(manager, "app:model", Model(), kinds=("hooks", "provider"), host_code=True)
    found = build(manager, HostSettings(), {})

    assert set(found.by_hook) == {"decide_input"}
    assert found["decide_output"] == ()


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

    assert len({each.digest for each in compositions}) == len(compositions)
    assert chains({"b": plugin(), "a": plugin()}).digest == compositions[0].digest


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
