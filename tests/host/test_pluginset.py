"""Lifetimes of plugins: opened in order, left in reverse, and what becomes of those that fail."""

import asyncio
import subprocess
import sys
import textwrap
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from fake_distributions import importable, install
from naming import shown
from pluggent_hookspecs import (
    ConfigError,
    PluginContext,
    PluginLoadError,
    PluginStateChanged,
    TurnStarted,
    hookimpl,
)
from pluggent_host import Host
from pluggent_host.discovery import Discovery, discover
from pluggent_host.pluginset import named
from pluggent_host.settings import Grants, HostSettings, Selection, Timeouts
from pluggent_host.testing.fakes import call
from policy_stage import Danger, in_order, stage

SHORT = HostSettings(timeouts=Timeouts(open_s=0.05, close_s=0.05))


class Living:
    """A plugin with a lifetime that writes down when it was opened and left."""

    def __init__(self, name: str, diary: list[str]) -> None:
        self.name = name
        self.diary = diary

    @asynccontextmanager
    async def open(self, context: PluginContext) -> AsyncIterator[None]:
        await asyncio.sleep(0)
        self.diary.append(f"open {self.name}")
        try:
            yield
        finally:
            await asyncio.sleep(0)
            self.diary.append(f"leave {self.name}")

    @hookimpl
    def decide_input(self, event):
        return None


# ---- order


async def test_lifetimes_are_entered_in_order_of_id_and_left_in_reverse() -> None:
    diary: list[str] = []
    first, second, third = in_order(*(Living(name, diary) for name in "abc"))

    async with stage(plugins=[third, first, second]):
        diary.append("open host")

    assert diary == ["open a", "open b", "open c", "open host", "leave c", "leave b", "leave a"]


async def test_a_plugin_is_told_who_it_is() -> None:
    seen: list[PluginContext] = []

    class Curious(Living):
        def open(self, context):
            seen.append(context)
            return super().open(context)

    async with stage(plugins=[Curious("a", [])]):
        pass

    assert seen[0].plugin == "app:curious"
    assert seen[0].host_version


async def test_lifetimes_are_left_when_the_body_of_the_host_fails() -> None:
    diary: list[str] = []

    with pytest.raises(ValueError, match="mine"):
        async with stage(plugins=[Living("a", diary)]):
            raise ValueError("mine")

    assert diary == ["open a", "leave a"]


async def test_lifetimes_are_left_when_the_host_is_cancelled() -> None:
    diary: list[str] = []
    opened = asyncio.Event()

    async def main() -> None:
        async with stage(plugins=[Living("a", diary)]):
            opened.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(main())
    await opened.wait()
    task.cancel()
    await asyncio.wait((task,))

    assert task.cancelled()
    assert diary == ["open a", "leave a"]


async def test_an_observer_is_open_as_long_as_it_is_told_something() -> None:
    diary: list[str] = []

    class Observer(Living):
        @hookimpl
        async def observe(self, event):
            await asyncio.sleep(0)
            if isinstance(event, TurnStarted):
                diary.append("told")

    async with stage("hello", plugins=[Observer("a", diary)]) as on:
        await on.session.say("go")

    assert diary == ["open a", "told", "leave a"]


# ---- opening that fails


class FailsToOpen(Living):
    error: BaseException = ValueError("no connection")

    @asynccontextmanager
    async def open(self, context: PluginContext) -> AsyncIterator[None]:
        raise self.error
        yield


@pytest.mark.parametrize(
    "error", [ValueError("no connection"), ConfigError("acme", ["wrong"]), asyncio.CancelledError()], ids=shown
)
async def test_a_hook_plugin_that_fails_to_open_refuses_to_open_the_host(error: BaseException) -> None:
    diary: list[str] = []
    failing = FailsToOpen("b", diary)
    failing.error = error

    with pytest.raises((PluginLoadError, ConfigError)):
        async with stage(plugins=in_order(Living("a", diary), failing, Living("c", diary))):
            diary.append("host")

    assert diary == ["open a", "leave a"]


EXITS = """
import asyncio, sys
from contextlib import asynccontextmanager
from pluggent_host import Host
from pluggent_hookspecs import PluggentError, hookimpl

class Exits:
    @asynccontextmanager
    async def open(self, context):
        if sys.argv[1] == "open":
            raise SystemExit(3)
        yield
        raise SystemExit(3)

    @hookimpl
    def decide_input(self, event):
        return None

async def main():
    try:
        async with Host.open(plugins=[Exits()], installed=False):
            print("opened")
    except PluggentError as error:
        print("refused", error.plugin)

asyncio.run(main())
print("over")
"""


@pytest.mark.parametrize(("when", "says"), [("open", "refused app:exits"), ("close", "opened")])
def test_a_plugin_that_exits_while_it_is_opened_or_left_does_not_end_the_program(when: str, says: str) -> None:
    # In a process of its own: a SystemExit of a task would end the loop of this one.
    done = subprocess.run(  # noqa: S603 (this interpreter)
        [sys.executable, "-c", EXITS, when], capture_output=True, text=True, timeout=20, check=False
    )

    assert done.stdout.splitlines() == [says, "over"], done.stderr


async def test_the_error_names_the_plugin_and_its_cause() -> None:
    with pytest.raises(PluginLoadError, match="app:failstoopen") as caught:
        async with stage(plugins=[FailsToOpen("a", [])]):
            pass

    assert "no connection" in str(caught.value)


class NeverOpens(Living):
    @asynccontextmanager
    async def open(self, context: PluginContext) -> AsyncIterator[None]:
        await asyncio.Event().wait()
        yield


class SwallowsWhileOpening(Living):
    @asynccontextmanager
    async def open(self, context: PluginContext) -> AsyncIterator[None]:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await asyncio.sleep(0.2)
        yield  # too late: it was given up


@pytest.mark.parametrize("plugin", [NeverOpens, SwallowsWhileOpening])
async def test_opening_has_a_deadline_that_nobody_passes(plugin: type[Living]) -> None:
    diary: list[str] = []
    started = time.perf_counter()

    async with asyncio.timeout(2):
        with pytest.raises(PluginLoadError, match=plugin.__name__.lower()):
            async with stage(plugins=in_order(Living("a", diary), plugin("b", diary)), config=SHORT):
                diary.append("host")

    assert time.perf_counter() - started < 1
    assert diary == ["open a", "leave a"]


async def test_open_that_is_no_context_manager_is_a_load_error() -> None:
    class Odd:
        def open(self, context):
            return "opened"

        @hookimpl
        def decide_input(self, event):
            return None

    with pytest.raises(PluginLoadError, match="app:odd"):
        async with stage(plugins=[Odd()]):
            pass


# ---- closing that fails


class FailsToClose(Living):
    error: BaseException = ValueError("it is gone")

    @asynccontextmanager
    async def open(self, context: PluginContext) -> AsyncIterator[None]:
        self.diary.append(f"open {self.name}")
        yield
        raise self.error


@pytest.mark.parametrize("error", [ValueError("it is gone"), asyncio.CancelledError()], ids=shown)
async def test_a_close_that_fails_does_not_stop_the_others(
    error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    diary: list[str] = []
    failing = FailsToClose("b", diary)
    failing.error = error

    async with stage(plugins=in_order(Living("a", diary), failing, Living("c", diary))):
        pass

    assert diary == ["open a", "open b", "open c", "leave c", "leave a"]
    assert "b_failstoclose" in caplog.text


class NeverCloses(Living):
    @asynccontextmanager
    async def open(self, context: PluginContext) -> AsyncIterator[None]:
        yield
        await asyncio.Event().wait()


class SwallowsWhileClosing(Living):
    @asynccontextmanager
    async def open(self, context: PluginContext) -> AsyncIterator[None]:
        yield
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await asyncio.sleep(0.2)


@pytest.mark.parametrize("plugin", [NeverCloses, SwallowsWhileClosing])
async def test_a_plugin_that_swallows_cancellation_cannot_hold_the_close(plugin: type[Living]) -> None:
    diary: list[str] = []
    started = time.perf_counter()

    async with asyncio.timeout(2):
        async with stage(plugins=in_order(Living("a", diary), plugin("b", diary)), config=SHORT):
            pass

    assert time.perf_counter() - started < 1
    assert diary == ["open a", "leave a"]


async def test_a_closed_host_hands_out_nothing() -> None:
    async with stage() as on:
        pass

    with pytest.raises(Exception, match="closed"):
        await on.host.session()


# ---- installed plugins

HEADER = """
import asyncio
from contextlib import asynccontextmanager
from pluggent_hookspecs import Deny, hookimpl, tool
"""
POLICY = (
    HEADER
    + """
class Plugin:
    @hookimpl
    def decide_tool_call(self, event):
        return Deny('no')
"""
)
POLICY_THAT_FAILS_TO_OPEN = (
    POLICY
    + """
    @asynccontextmanager
    async def open(self, context):
        raise ValueError("no connection")
        yield
"""
)
TOOLS = (
    HEADER
    + """
@tool(effects=())
async def ping() -> str:
    "Answer."
    return "pong"

class Plugin:
    @hookimpl
    def provide_tools(self, event):
        return [ping]
"""
)


class Site:
    """A folder of installed distributions."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def add(self, name: str, entry: str, source: str, **more: Any) -> None:
        module = name.replace("-", "_")
        install(self.folder, name, {entry: f"{module}:Plugin"}, modules={module: textwrap.dedent(source)}, **more)

    def found(self) -> Discovery:
        return discover([str(self.folder)])


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with importable(tmp_path):
        yield Site(tmp_path)


def states(on: Any) -> Mapping[str, str]:
    return {record.id: state for record, state, _ in on.host.plugins}


async def test_an_installed_policy_is_active_from_the_beginning(site: Site) -> None:
    site.add("acme-guard", "hooks/guard", POLICY)
    danger = Danger()

    async with stage(call("danger", path="x"), tools=danger.tools(), installed=site.found()) as on:
        await on.session.say("go")
        found = states(on)

    assert found == {"acme-guard": "active"}
    assert danger.ran == []


async def test_a_policy_that_fails_to_open_refuses_to_open_the_host(site: Site) -> None:
    site.add("acme-guard", "hooks/guard", POLICY_THAT_FAILS_TO_OPEN)

    with pytest.raises(PluginLoadError, match=r"acme-guard.*no connection"):
        async with stage(installed=site.found()):
            pass


@pytest.mark.parametrize(
    "source", [POLICY_THAT_FAILS_TO_OPEN, "raise ValueError('no connection')"], ids=["open", "import"]
)
async def test_an_optional_policy_that_fails_is_left_out_and_shown_as_failed(source: str, site: Site) -> None:
    site.add("acme-guard", "hooks/guard", source)
    config = HostSettings(grants=Grants(optional=("acme-guard",)))
    danger = Danger()

    async with stage(call("danger", path="x"), tools=danger.tools(), installed=site.found(), config=config) as on:
        await on.session.say("go")
        ((_, state, reason),) = on.host.plugins

    assert (state, danger.ran) == ("failed", ["x"])
    assert "no connection" in reason


@pytest.mark.parametrize("hooks", [(), ("decide_tool_call",)])
async def test_a_required_policy_that_is_there_is_content(hooks: tuple[str, ...], site: Site) -> None:
    site.add("acme-guard", "hooks/guard", POLICY)

    async with stage(installed=site.found(), config=HostSettings(required={"acme-guard": hooks})) as on:
        assert states(on) == {"acme-guard": "active"}


@pytest.mark.parametrize(
    ("config", "says"),
    [
        (HostSettings(required={"acme-guard": ("decide_output",)}), "decide_output"),
        (HostSettings(required={"acme-other": ()}), "acme-other"),
        (HostSettings(required={"acme-guard": ()}, selection=Selection(block=("acme-guard",))), "acme-guard"),
        (HostSettings(required={"acme-guard": ()}, selection=Selection(mode="allow")), "acme-guard"),
    ],
    ids=["hook", "missing", "blocked", "not-allowed"],
)
async def test_a_required_policy_that_is_not_there_refuses_to_open_the_host(
    config: HostSettings, says: str, site: Site
) -> None:
    """Rule 14."""
    site.add("acme-guard", "hooks/guard", POLICY)

    with pytest.raises((ConfigError, PluginLoadError), match=says):
        async with stage(installed=site.found(), config=config):
            pass


async def test_a_required_policy_that_is_optional_and_fails_still_refuses_to_open_the_host(site: Site) -> None:
    site.add("acme-guard", "hooks/guard", "raise ValueError('no')")
    config = HostSettings(required={"acme-guard": ()}, grants=Grants(optional=("acme-guard",)))

    with pytest.raises((ConfigError, PluginLoadError), match="acme-guard"):
        async with stage(installed=site.found(), config=config):
            pass


async def test_a_plugin_given_in_code_satisfies_no_requirement() -> None:
    """Rule 29."""
    with pytest.raises(ConfigError, match="app:living"):
        async with stage(plugins=[Living("a", [])], config=HostSettings(required={"app:living": ()})):
            pass


@pytest.mark.parametrize(
    "selection", [Selection(mode="allow"), Selection(mode="allow", allow=("acme-tools",))], ids=["nothing", "another"]
)
async def test_a_hook_plugin_that_is_not_on_the_allow_list_refuses_to_open_the_host(
    selection: Selection, site: Site
) -> None:
    """Rule 14: every state but active and blocked by the operator."""
    site.add("acme-guard", "hooks/guard", POLICY)
    site.add("acme-tools", "tools/tools", TOOLS)

    with pytest.raises((ConfigError, PluginLoadError), match="acme-guard"):
        async with stage(installed=site.found(), config=HostSettings(selection=selection)):
            pass


async def test_a_hook_plugin_that_the_operator_blocked_is_left_out(site: Site) -> None:
    site.add("acme-guard", "hooks/guard", POLICY)
    config = HostSettings(selection=Selection(block=("acme-guard",)))

    async with stage(installed=site.found(), config=config) as on:
        assert states(on) == {"acme-guard": "blocked"}


async def test_an_incompatible_hook_plugin_refuses_to_open_the_host(site: Site) -> None:
    site.add("acme-guard", "hooks/guard", POLICY, requires=("pluggent-hookspecs>=7",))

    with pytest.raises(PluginLoadError, match=r"acme-guard.*incompatible"):
        async with stage(installed=site.found()):
            pass


async def test_one_distribution_with_hooks_in_two_places_refuses_to_open_the_host(tmp_path: Path) -> None:
    """Rules 14 and 27."""
    folders = [tmp_path / "one", tmp_path / "two"]
    for folder in folders:
        Site(folder).add("acme-guard", "hooks/guard", POLICY)

    with importable(*folders), pytest.raises(ConfigError, match="acme-guard"):
        async with stage(installed=discover([str(folder) for folder in folders])):
            pass


async def test_a_hook_package_that_was_not_accepted_refuses_to_open_the_host(site: Site) -> None:
    site.add("acme-guard", "hooks/guard", POLICY)

    with pytest.raises(ConfigError, match="acme-guard"):
        async with Host.open(installed=site.found(), acknowledged=lambda _: False):
            pass


# ---- capabilities


BROKEN_TOOLS = {
    "import": "raise ValueError('broken')",
    "exit": "raise SystemExit(3)",
    "provide": TOOLS.replace("return [ping]", "raise ValueError('broken')"),
    "provides-nonsense": TOOLS.replace("return [ping]", "return [42]"),
    "provides-none": TOOLS.replace("return [ping]", "return None"),
    "open": TOOLS + POLICY_THAT_FAILS_TO_OPEN.partition("return Deny('no')\n")[2],
}  # fmt: skip


@pytest.mark.parametrize("source", BROKEN_TOOLS.values(), ids=BROKEN_TOOLS)
async def test_a_broken_capability_disables_itself_and_nothing_else(source: str, site: Site) -> None:
    site.add("acme-broken", "tools/broken", source)
    site.add("acme-tools", "tools/fine", TOOLS)

    try:
        async with stage(call("ping"), tools=["*"], installed=site.found()) as on:
            await on.session.say("go")
            found = states(on)
    except SystemExit as escaped:
        pytest.fail(f"{escaped!r} came out")

    assert on.read_by_model() == ["pong"]
    assert found["acme-tools"] == "active"
    assert found["acme-broken"] in ("failed", "active")  # what it offers may turn out to be no tool only later


@pytest.mark.parametrize("source", BROKEN_TOOLS.values(), ids=BROKEN_TOOLS)
async def test_a_broken_capability_that_was_named_is_an_error_that_names_it(source: str, site: Site) -> None:
    site.add("acme-broken", "tools/broken", source)

    with pytest.raises((PluginLoadError, ConfigError), match="acme-broken"):
        async with stage(tools=["broken"], installed=site.found()):
            pass


async def test_a_capability_is_neither_imported_nor_opened_before_it_is_used(site: Site) -> None:
    site.add("acme-tools", "tools/fine", "raise ValueError('imported')")

    async with stage("hello", installed=site.found()) as on:
        await on.session.say("go")
        assert states(on) == {"acme-tools": "available"}


async def test_a_capability_is_opened_once_and_left_with_the_host(site: Site) -> None:
    diary = (
        TOOLS
        + """
    diary = []

    @asynccontextmanager
    async def open(self, context):
        self.diary.append(f"open {context.plugin}")
        yield
        self.diary.append("leave")
"""
    )
    site.add("acme-tools", "tools/fine", diary)

    async with stage(installed=site.found(), tools=["fine"]) as on:
        await asyncio.gather(on.host.session(), on.host.session())
        import acme_tools  # type: ignore[import-not-found]

        before = list(acme_tools.Plugin.diary)

    assert before == ["open acme-tools"]
    assert acme_tools.Plugin.diary == ["open acme-tools", "leave"]


async def test_a_capability_may_ask_for_the_names_of_tools_while_it_is_opened(site: Site) -> None:
    asking = (
        TOOLS
        + """
    @asynccontextmanager
    async def open(self, context):
        print("asked", await context.tools_named("ping*"))
        yield
"""
    )
    site.add("acme-tools", "tools/fine", TOOLS)
    site.add("beta-tools", "tools/asking", asking.replace("ping()", "pang()").replace("[ping]", "[pang]"))
    config = HostSettings(timeouts=Timeouts(open_s=0.5))

    async with asyncio.timeout(3):
        async with stage(installed=site.found(), tools=["asking"], config=config) as on:
            assert states(on)["beta-tools"] == "active"


async def test_a_slow_provide_hook_fails_its_plugin(site: Site) -> None:
    site.add("acme-tools", "tools/fine", TOOLS.replace("return [ping]", "import time; time.sleep(0.03); return [ping]"))
    config = HostSettings(timeouts=Timeouts(provide_s=0.01))

    with pytest.raises(PluginLoadError, match="acme-tools"):
        async with stage(installed=site.found(), tools=["fine"], config=config):
            pass


async def test_every_change_of_state_is_told(site: Site) -> None:
    site.add("acme-guard", "hooks/guard", POLICY)
    site.add("acme-tools", "tools/fine", TOOLS)
    site.add("acme-broken", "tools/broken", "raise ValueError('broken')")

    async with stage(installed=site.found(), tools=["*"]) as on:
        told = {event.plugin: event.state for event in on.recorder.of(PluginStateChanged)}

    assert told["acme-guard"] == "active"
    assert told["acme-tools:tools/fine"] == "active"
    assert told["acme-broken:tools/broken"] == "failed"


# ---- names in rules

KNOWN = {
    "acme:tool/search": "search",
    "acme:tool/save": "save",
    "beta:tool/search": "search",
    "app:tools:tool/add": "add",
}


@pytest.mark.parametrize(
    ("pattern", "means"),
    [
        ("save", ("acme:tool/save",)),
        ("acme:tool/search", ("acme:tool/search",)),
        ("acme:*", ("acme:tool/save", "acme:tool/search")),
        ("s*", ("acme:tool/save", "acme:tool/search", "beta:tool/search")),
        ("*:tool/search", ("acme:tool/search", "beta:tool/search")),
    ],
)
def test_a_rule_names_tools_by_id_short_name_or_pattern(pattern: str, means: tuple[str, ...]) -> None:
    """Rule 30."""
    assert named(pattern, KNOWN) == means


@pytest.mark.parametrize(
    ("pattern", "says"),
    [
        ("search", "acme:tool/search and beta:tool/search"),
        ("serch", "search"),
        ("gamma:*", "matches no tool"),
        ("x*", "matches"),
    ],
)
def test_a_rule_that_matches_nothing_or_two_by_a_short_name_is_an_error(pattern: str, says: str) -> None:
    """Rule 30."""
    with pytest.raises(ConfigError, match=says.replace("*", r"\*")):
        named(pattern, KNOWN)


async def test_a_hook_plugin_resolves_the_tools_of_its_rules_when_it_is_opened(site: Site) -> None:
    site.add("acme-tools", "tools/fine", TOOLS)
    found: list[tuple[str, ...]] = []

    class Rules(Living):
        @asynccontextmanager
        async def open(self, context: PluginContext) -> AsyncIterator[None]:
            found.append(await context.tools_named("ping"))
            yield

    async with stage(plugins=[Rules("a", [])], installed=site.found()):
        pass

    assert found == [("acme-tools:tool/ping",)]
