"""How a record becomes a checked plugin, and every way in which it is refused instead."""

import functools
import inspect
import subprocess
import sys
import types
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import attrs
import pluggy
import pytest
from fake_distributions import POLICY, importable, install
from pluggent_hookspecs import HOOKS, ConfigError, PluginLoadError, Secret, hookimpl
from pluggent_host.catalog import PluginRecord, catalog
from pluggent_host.discovery import discover
from pluggent_host.loading import Loaded, load, new_manager, register
from pluggent_host.settings import Selection

HEADER = "import attrs\nfrom pluggent_hookspecs import hookimpl, Secret\n"


@pytest.fixture
def manager() -> pluggy.PluginManager:
    return new_manager()


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Path]:
    with importable(tmp_path):
        yield tmp_path


def record_of(site: Path, source: str, *, entry: str = "hooks/guard", value: str = "acme_guard:Plugin") -> PluginRecord:
    """Install a distribution ``acme-guard`` with one module and return its record."""
    install(site, "acme-guard", {entry: value}, version="1.2", modules={"acme_guard": source})
    (record,) = catalog(discover([str(site)]), Selection(), "0.1.0").records
    return record


def contents(manager: pluggy.PluginManager) -> object:
    """Return all that a manager holds, for comparison."""
    impls = {name: [impl.plugin_name for impl in getattr(manager.hook, name).get_hookimpls()] for name in HOOKS}
    return [name for name, _ in manager.list_name_plugin()], impls, sorted(vars(manager.hook))


def refusal(manager: pluggy.PluginManager, action: Callable[[], object]) -> str:
    """Return what the error says; the manager must be as it was."""
    before = contents(manager)
    with pytest.raises(PluginLoadError) as caught:
        action()
    assert contents(manager) == before
    assert caught.value.__cause__ is not None
    return str(caught.value)


def refused(plugin: object, *kinds: str) -> str:
    manager = new_manager()
    register(manager, "app:other", Fine(), kinds=("hooks",))
    return refusal(manager, lambda: register(manager, "app:mine", plugin, kinds=kinds or ("hooks",), host_code=True))


class Fine:
    @hookimpl
    def decide_input(self, event: object) -> None:
        return None


# ---- what works


def test_a_policy_is_loaded_and_registered_under_its_plugin_id(site: Path, manager: pluggy.PluginManager) -> None:
    loaded = load(record_of(site, POLICY), manager)

    assert isinstance(loaded, Loaded)
    assert loaded.hooks == ("decide_input",)
    assert loaded.import_ms > 0
    (impl,) = manager.hook.decide_input.get_hookimpls()
    assert (impl.plugin_name, impl.plugin) == ("acme-guard", loaded.plugin)


def test_a_capability_is_registered_under_its_capability_id(site: Path, manager: pluggy.PluginManager) -> None:
    source = POLICY.replace("decide_input", "provide_tools").replace("None", "[]")

    load(record_of(site, source, entry="tools/search"), manager)

    assert [name for name, _ in manager.list_name_plugin()] == ["acme-guard:tools/search"]


def test_a_function_can_be_the_factory(site: Path, manager: pluggy.PluginManager) -> None:
    record = record_of(site, f"{POLICY}\ndef make(): return Plugin()\n", value="acme_guard:make")

    assert load(record, manager).hooks == ("decide_input",)


def test_a_module_without_state_can_be_the_plugin(site: Path, manager: pluggy.PluginManager) -> None:
    source = HEADER + "@hookimpl\ndef observe(event): ...\n"

    loaded = load(record_of(site, source, value="acme_guard"), manager)

    assert inspect.ismodule(loaded.plugin)
    assert loaded.hooks == ("observe",)


def test_hooks_may_be_static_async_inherited_wrapped_or_on_the_instance(manager: pluggy.PluginManager) -> None:
    @hookimpl
    def on_instance(event: object) -> None: ...

    class Base:
        @staticmethod
        @hookimpl
        def decide_output(event: object) -> None: ...

    class Plugin(Base):
        def __init__(self) -> None:
            self.observe = on_instance

        @hookimpl
        async def decide_input(self, event: object) -> None: ...

        @hookimpl
        async def around_turn(self, event: object, call_next: Callable[[], Awaitable[object]]) -> object:
            return await call_next()

        @asynccontextmanager
        async def open(self, context: object) -> AsyncIterator[None]:
            yield

        @property
        def connection(self) -> object:
            raise RuntimeError("a property is not run to look for hooks")

    hooks = register(manager, "app:mine", Plugin(), kinds=("hooks",), host_code=True)

    assert set(hooks) == {"decide_output", "observe", "decide_input", "around_turn"}
    (impl,) = manager.hook.observe.get_hookimpls()
    assert impl.function is on_instance


def test_application_code_may_mix_kinds(manager: pluggy.PluginManager) -> None:
    class Plugin(Fine):
        @hookimpl
        def provide_tools(self, event: object) -> list[object]:
            return []

    assert register(manager, "app:mine", Plugin(), kinds=("hooks", "tools")) == ("provide_tools", "decide_input")


def test_two_managers_do_not_share_anything(manager: pluggy.PluginManager) -> None:
    plugin = Fine()

    register(manager, "app:mine", plugin, kinds=("hooks",))
    register(new_manager(), "app:mine", plugin, kinds=("hooks",))

    assert len(manager.hook.decide_input.get_hookimpls()) == 1


# ---- settings

SETTINGS = (
    HEADER
    + """
from collections.abc import Mapping
from typing import Literal

@attrs.frozen
class Rule:
    tool: str
    times: int = 1

@attrs.frozen
class Settings:
    rules: tuple[Rule, ...] = ()
    mode: Literal["strict", "lax"] = "strict"
    enabled: bool = True
    timeout_s: float = 1.0
    limit: int | str | None = None
    words: list[str] = attrs.Factory(list)
    servers: Mapping[str, Rule] = attrs.Factory(dict)
    key: Secret | None = None
    name: str = attrs.field(default="x", validator=attrs.validators.min_len(1))

class Plugin:
    Settings = Settings
    def __init__(self, settings):
        self.settings = settings
    @hookimpl
    def observe(self, event): ...
"""
)


def settings_of(site: Path, section: Mapping[str, Any] | object | None) -> Any:
    plugin: Any = load(record_of(site, SETTINGS), new_manager(), section).plugin
    return plugin.settings


def test_a_section_is_structured_into_the_plugins_settings(site: Path) -> None:
    section = {
        "rules": [{"tool": "a"}, {"tool": "b", "times": 2}],
        "mode": "lax",
        "enabled": False,
        "timeout_s": 2,
        "limit": "many",
        "words": ["x"],
        "servers": {"one": {"tool": "c"}},
        "key": "env:ACME_KEY",
    }

    made = settings_of(site, types.MappingProxyType(section))

    assert [(rule.tool, rule.times) for rule in made.rules] == [("a", 1), ("b", 2)]
    assert (made.mode, made.enabled, made.timeout_s, made.limit) == ("lax", False, 2.0, "many")
    assert (made.words, made.servers["one"].tool, made.key) == (["x"], "c", Secret("env:ACME_KEY"))


@pytest.mark.parametrize("section", [None, {}])
def test_without_a_section_the_defaults_stand(site: Path, section: object) -> None:
    assert settings_of(site, section).mode == "strict"


def test_an_instance_of_the_settings_is_taken_as_it_is(site: Path) -> None:
    record = record_of(site, SETTINGS)
    module: Any = __import__("acme_guard")
    mine = module.Settings(mode="lax")

    plugin: Any = load(record, new_manager(), mine).plugin

    assert plugin.settings is mine


def test_every_problem_of_a_section_is_named_with_its_path(site: Path) -> None:
    section = {
        "rules": [{"tool": "a"}, {"tol": "b"}, {"tool": 3}, "text"],
        "mode": "loose",
        "enabled": "false",
        "timeout_s": "2",
        "limit": 2.5,
        "words": "abc",
        "servers": {"one": {"tool": "c", "times": True}},
        "key": "sk-very-secret",
        "name": "",
        "moode": 1,
    }

    with pytest.raises(ConfigError) as caught:
        settings_of(site, section)

    assert set(caught.value.problems) == {
        "plugins.acme-guard.rules[1].tool: is required",
        "plugins.acme-guard.rules[1].tol: unknown; did you mean 'tool'?",
        "plugins.acme-guard.rules[2].tool: expected text, got a whole number",
        "plugins.acme-guard.rules[3]: expected a table, got text",
        "plugins.acme-guard.mode: expected one of 'strict', 'lax'",
        "plugins.acme-guard.enabled: expected true or false, got text",
        "plugins.acme-guard.timeout_s: expected a number, got text",
        "plugins.acme-guard.limit: expected int | str | None",
        "plugins.acme-guard.words: expected a list, got text",
        "plugins.acme-guard.servers.one.times: expected a whole number, got true or false",
        "plugins.acme-guard.key: a secret is given as env:NAME, file:PATH or keyring:SERVICE/USER, never as itself",
        "plugins.acme-guard.moode: unknown; did you mean 'mode'?",
    }
    assert "sk-very-secret" not in str(caught.value)


def test_what_the_settings_class_itself_refuses_is_named_too(site: Path) -> None:
    with pytest.raises(ConfigError, match=r"plugins\.acme-guard: Length of 'name' must be >= 1"):
        settings_of(site, {"name": ""})


def test_a_required_setting_is_missed_even_without_a_section(site: Path) -> None:
    source = SETTINGS.replace("rules: tuple[Rule, ...] = ()", "city: str")

    with pytest.raises(ConfigError, match=r"plugins\.acme-guard\.city: is required"):
        load(record_of(site, source), new_manager())


def test_settings_for_a_plugin_that_takes_none_are_an_error(site: Path) -> None:
    with pytest.raises(ConfigError, match=r"plugins\.acme-guard: this plugin takes no settings"):
        load(record_of(site, POLICY), new_manager(), {"mode": "lax"})


def test_settings_of_the_wrong_type_are_an_error(site: Path) -> None:
    with pytest.raises(ConfigError, match=r"expected a table or Settings, got text"):
        settings_of(site, "lax")


def test_dataclasses_serve_as_settings(site: Path, manager: pluggy.PluginManager) -> None:
    source = (
        HEADER
        + """
import dataclasses
class Plugin:
    @dataclasses.dataclass(frozen=True)
    class Settings:
        city: str = "Rome"
    def __init__(self, settings): self.settings = settings
    @hookimpl
    def observe(self, event): ...
"""
    )

    plugin: Any = load(record_of(site, source), manager, {"city": "Oslo"}).plugin

    assert plugin.settings.city == "Oslo"


# ---- what cannot be imported or made


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("import no_such_thing", "pip install no-such-thing"),
        ("import acme_guard.more", "No module named 'acme_guard.more'"),
        ("1 / 0", "ZeroDivisionError: division by zero"),
        ("raise SystemExit(3)", "SystemExit: 3"),
        (
            "try:\n  1 / 0\nexcept Exception as e:\n  raise OSError('no luck') from e",
            "no luck, because of Zero",
        ),
        ("class Bad(Exception):\n  def __str__(self): 1 / 0\nraise Bad", "Bad: (its text cannot be read)"),
        ("class Plugins: pass", "there is no 'Plugin' in it; did you mean 'Plugins'?"),
        ("Plugin = 3", "it is an object, not a factory"),
        ("class Plugin:\n  def __init__(self, settings): ...", "its factory needs settings, but names no Settings"),
        ("class Plugin:\n  class Settings: ...", "its Settings is no attrs class and no dataclass"),
        ("import attrs\nclass Plugin:\n  @attrs.frozen\n  class Settings: ...", "takes them as its one parameter"),
        ("def Plugin(): 1 / 0", "cannot be made by guard = acme_guard:Plugin [pluggent.hooks]: ZeroDivisionError"),
        ("def Plugin(): raise SystemExit", "SystemExit"),
        ("def Plugin(): return None", "a factory returns one"),
        ("async def Plugin(): return None", "its factory is async"),
        ("class Guard: ...\ndef Plugin(): return Guard", "a class is never registered itself"),
    ],
)
def test_a_broken_plugin_is_a_load_error(site: Path, manager: pluggy.PluginManager, source: str, says: str) -> None:
    record = record_of(site, source)

    said = refusal(manager, lambda: load(record, manager))

    assert says in said
    assert said.startswith("plugin 'acme-guard' (acme-guard 1.2) ")
    assert "guard = acme_guard:Plugin [pluggent.hooks]" in said
    assert said.endswith("or leave it out: pluggent --without acme-guard")


def test_a_package_without_its_module_is_to_be_reinstalled(site: Path, manager: pluggy.PluginManager) -> None:
    record = record_of(site, "", value="acme_lost.plugin:Plugin")

    said = refusal(manager, lambda: load(record, manager))

    assert "Reinstall it (pip install --force-reinstall acme-guard), or" in said


def test_an_interrupt_is_nobodys_fault(site: Path, manager: pluggy.PluginManager) -> None:
    with pytest.raises(KeyboardInterrupt):
        load(record_of(site, "raise KeyboardInterrupt"), manager)


def test_a_plugin_is_loaded_once(site: Path, manager: pluggy.PluginManager) -> None:
    record = record_of(site, POLICY)
    load(record, manager)

    assert "'acme-guard' is registered already" in refusal(manager, lambda: load(record, manager))


def test_plugins_that_equal_each_other_are_refused(manager: pluggy.PluginManager) -> None:
    @attrs.frozen
    class Same(Fine): ...

    register(manager, "app:one", Same(), kinds=("hooks",))

    said = refusal(manager, lambda: register(manager, "app:two", Same(), kinds=("hooks",)))

    assert "compare plugins by identity" in said


# ---- hooks that would be lost in silence


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
    "private": (with_attribute(hookimpl(fresh(plain)), "_decide_input"), "_decide_input: a private name is no hook"),
    "not fired": (with_attribute(hookimpl(fresh(plain)), "decide_plan"), "so it would guard nothing"),
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


@pytest.mark.parametrize("case", LOST)
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


def test_an_installed_policy_that_lost_its_marker_is_named_with_its_version(
    site: Path, manager: pluggy.PluginManager
) -> None:
    record = record_of(site, POLICY.replace("@hookimpl", "@staticmethod").replace("self, ", ""))

    said = refusal(manager, lambda: load(record, manager))

    assert said == (
        "plugin 'acme-guard' (acme-guard 1.2) is refused, loaded from guard = acme_guard:Plugin [pluggent.hooks]: "
        "decide_input: it is not marked with @hookimpl, so it would never be called: mark it, or give it another name. "
        "Mend it, or leave it out: pluggent --without acme-guard"
    )


@pytest.mark.parametrize("version", ["falsy", "plain"])
def test_a_refused_plugin_leaves_nothing_behind(manager: pluggy.PluginManager, version: str) -> None:
    class Falsy(Fine):
        def __bool__(self) -> bool:
            return version == "plain"

        @hookimpl
        def observe(self, wrong: object) -> None: ...

    refusal(manager, lambda: register(manager, "app:mine", Falsy(), kinds=("hooks",)))

    assert not manager.has_plugin("app:mine")


def test_cattrs_is_imported_only_for_settings(site: Path) -> None:
    record_of(site, SETTINGS)
    code = (
        "import sys\n"
        "from pluggent_host.catalog import catalog\n"
        "from pluggent_host.discovery import discover\n"
        "from pluggent_host.loading import load, new_manager\n"
        "from pluggent_host.settings import Selection\n"
        f"sys.path.insert(0, {str(site)!r})\n"
        "(record,) = catalog(discover(sys.path[:1]), Selection(), '0.1.0').records\n"
        "load(record, new_manager())\n"
        "print('cattrs' in sys.modules, 'asyncio' in sys.modules)\n"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)  # noqa: S603

    assert done.stdout.split() == ["False", "False"]
