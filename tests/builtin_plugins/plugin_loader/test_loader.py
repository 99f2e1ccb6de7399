"""How a record becomes a plugin, and what is said when it cannot."""

import inspect
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from types import FrameType

import attrs
import pluggy
import pytest
from fake_distributions import CASE_HEADER, POLICY, importable, record_of, refusal
from pluggent_hookspecs import PluginLoadError, hookimpl
from pluggent_plugin_loader.loader import Loaded, load, new_manager, register


@pytest.fixture
def manager() -> pluggy.PluginManager:
    return new_manager()


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Path]:
    with importable(tmp_path):
        yield tmp_path


class Fine:
    @hookimpl
    def decide_input(self, event: object) -> None:
        return None


def test_a_policy_is_loaded_and_registered_under_its_plugin_id(site: Path, manager: pluggy.PluginManager) -> None:
    loaded = load(record_of(site, POLICY), manager)

    assert isinstance(loaded, Loaded)
    assert loaded.hooks == ("decide_input",)
    (impl,) = manager.hook.decide_input.get_hookimpls()
    assert (impl.plugin_name, impl.plugin) == ("acme-guard", loaded.plugin)


def test_a_capability_is_registered_under_its_capability_id(site: Path, manager: pluggy.PluginManager) -> None:
    source = POLICY.replace("decide_input", "provide_tools").replace("None", "[]")

    load(record_of(site, source, entry="tools/search"), manager)

    assert [name for name, _ in manager.list_name_plugin()] == ["acme-guard:tools/search"]


@pytest.mark.parametrize(
    ("source", "value", "hook"),
    [
        (f"{POLICY}\ndef make(): return Plugin()\n", "acme_guard:make", "decide_input"),
        (f"{CASE_HEADER}@hookimpl\ndef observe(event): ...\n", "acme_guard", "observe"),
    ],
    ids=["function", "module"],
)
def test_a_function_can_be_the_factory_and_a_module_the_plugin(
    source: str, value: str, hook: str, site: Path, manager: pluggy.PluginManager
) -> None:
    loaded = load(record_of(site, source, value=value), manager)

    assert loaded.hooks == (hook,)
    assert inspect.ismodule(loaded.plugin) == (value == "acme_guard")


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


def test_no_property_of_a_plugin_is_run_to_look_for_hooks(manager: pluggy.PluginManager) -> None:
    class Slotted:
        __slots__ = ("kept",)

        @hookimpl
        def decide_output(self, event: object) -> None: ...

    class Hidden(Fine):
        @property
        def decide_output(self) -> object:
            raise RuntimeError("it is run")

    assert register(manager, "app:slotted", Slotted(), kinds=("hooks",), host_code=True) == ("decide_output",)
    with pytest.raises(PluginLoadError, match="decide_output: it is a property"):
        register(manager, "app:hidden", Hidden(), kinds=("hooks",), host_code=True)


def test_application_code_may_mix_kinds_and_two_managers_share_nothing(manager: pluggy.PluginManager) -> None:
    class Plugin(Fine):
        @hookimpl
        def provide_tools(self, event: object) -> list[object]:
            return []

    plugin = Plugin()

    assert register(manager, "app:mine", plugin, kinds=("hooks", "tools")) == ("provide_tools", "decide_input")
    register(new_manager(), "app:mine", plugin, kinds=("hooks", "tools"))
    assert len(manager.hook.decide_input.get_hookimpls()) == 1


@pytest.mark.parametrize(
    ("source", "says"),
    [
        (
            "import no_such_thing",
            "Install the package that provides 'no_such_thing', which it does not say that it req",
        ),
        ("import acme_guard.more", "No module named 'acme_guard.more'"),
        ("1 / 0", "ZeroDivisionError: division by zero"),
        ("raise SystemExit(3)", "SystemExit: 3"),
        ("try:\n  1 / 0\nexcept Exception as e:\n  raise OSError('no luck') from e", "no luck"),
        ("try:\n  1 / 0\nexcept Exception as e:\n  raise OSError('no luck') from e", ", because of ZeroDivisionError"),
        ("class Bad(Exception):\n  def __str__(self): 1 / 0\nraise Bad", "Bad: (its text cannot be read)"),
        ("class Plugins: pass", "there is no 'Plugin' in it; did you mean 'Plugins'?"),
        ("Plugin = 3", "it is an object, not a factory"),
        ("class Plugin:\n  def __init__(self, settings): ...", "its factory needs settings, but names no Settings"),
        ("class Plugin:\n  class Settings: ...", "its Settings is neither an attrs class nor a dataclass"),
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


@pytest.mark.parametrize(
    ("source", "line"),
    [
        ("x = 1\n\n1 / 0", "acme_guard.py:3"),
        ("x = 1\ndef broken(:", "acme_guard.py:2"),
        ("import json\njson.loads('{')", "acme_guard.py:2"),
        ("\nimport acme_helper", "acme_helper.py:2"),
        ("\nimport no_such_thing", "acme_guard.py:2"),
        ("\ndef Plugin():\n    return 1 / 0", "acme_guard.py:3"),
    ],
    ids=["its own", "syntax", "below it the standard library", "of a helper", "missing module", "factory"],
)
def test_the_error_of_a_plugin_names_file_and_line(
    site: Path, manager: pluggy.PluginManager, source: str, line: str
) -> None:
    (site / "acme_helper.py").write_text("\nraise RuntimeError('no')\n")
    record = record_of(site, source)

    assert f"(at {site}/{line})" in refusal(manager, lambda: load(record, manager))


def test_a_missing_module_is_mended_with_the_packages_that_the_plugin_requires(
    site: Path, manager: pluggy.PluginManager
) -> None:
    # attrs is there, and the extra was not asked for; the module no_such_thing comes with a package of another name.
    requires = ["attrs>=20", "attrs>=2000", "acme-things[fast]>=2", "other-thing; extra == 'more'"]
    record = record_of(site, "import no_such_thing", requires=requires)

    said = refusal(manager, lambda: load(record, manager))

    assert "Install what it requires: pip install 'acme-things[fast]>=2' 'attrs>=2000', or leave it out" in said


@contextmanager
def interrupts(handler: Callable[[int, FrameType | None], object]) -> Iterator[None]:
    before = signal.signal(signal.SIGINT, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_keyboard_interrupt_of_the_plugin_itself_is_its_failure(site: Path, manager: pluggy.PluginManager) -> None:
    record = record_of(site, "raise KeyboardInterrupt")

    with interrupts(lambda *_: None):  # a handler that raises nothing, such as that of the command
        said = refusal(manager, lambda: load(record, manager))

    assert "KeyboardInterrupt" in said


def test_an_interrupt_while_a_plugin_is_imported_is_raised_as_it_is(site: Path, manager: pluggy.PluginManager) -> None:
    def interrupted(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    record = record_of(site, f"import os, signal\nos.kill({os.getpid()}, signal.SIGINT)\nx = 1\n")

    for handler in (interrupted, signal.default_int_handler):
        with interrupts(handler), pytest.raises(KeyboardInterrupt):
            load(record, manager)


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
