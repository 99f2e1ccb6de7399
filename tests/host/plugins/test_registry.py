"""Lifetimes of plugins, installed policies, capabilities opened on their first use, names of tools in rules."""

import asyncio
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from each_of import each_of
from fake_distributions import POLICY_THAT_FAILS_TO_OPEN, SITE_POLICY, TOOLS, Living, Site, importable, states
from pluggent_hookspecs import ConfigError, PluginContext, PluginLoadError, PluginStateChanged, TurnStarted, hookimpl
from pluggent_host import Grants, Host, HostSettings, Selection
from pluggent_host.plugins.registry import named
from pluggent_host.settings import Timeouts
from pluggent_plugin_loader.discovery import discover
from pluggent_testing.fakes import call
from policy_stage import Danger, in_order, stage

SHORT = HostSettings(timeouts=Timeouts(open_s=0.05, close_s=0.05))


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with importable(tmp_path):
        yield Site(tmp_path)


async def refused(says: str, **options: Any) -> None:
    """Check that a host with *options* does not open, for a reason that matches *says*."""
    with pytest.raises((ConfigError, PluginLoadError), match=says):
        async with stage(**options):
            pass


async def test_lifetimes_are_entered_in_order_of_id_and_left_in_reverse() -> None:
    diary: list[str] = []
    first, second, third = in_order(*(Living(name, diary) for name in "abc"))

    with pytest.raises(ValueError, match="mine"):  # noqa: PT012
        async with stage(plugins=[third, first, second]):
            diary.append("host")
            raise ValueError("mine")

    assert diary == ["open a", "open b", "open c", "host", "leave c", "leave b", "leave a"]


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


async def test_a_plugin_is_given_its_id_and_is_open_as_long_as_it_observes() -> None:
    diary: list[str] = []
    contexts: list[PluginContext] = []

    class Observer(Living):
        def open(self, context):
            contexts.append(context)
            return super().open(context)

        @hookimpl
        async def observe(self, event):
            await asyncio.sleep(0)
            if isinstance(event, TurnStarted):
                diary.append("observed")

    async with stage("hello", plugins=[Observer("a", diary)]) as on:
        await on.session.say("go")

    assert diary == ["open a", "observed", "leave a"]
    assert contexts[0].plugin == "app:observer"
    assert contexts[0].host_version


async def nothing() -> None: ...


async def never() -> None:
    await asyncio.Event().wait()


async def swallow() -> None:
    try:
        await never()
    except asyncio.CancelledError:
        await asyncio.sleep(0.2)


def failing(error: BaseException) -> Callable[[], Awaitable[None]]:
    async def fail() -> None:
        raise error

    return fail


class Faulty(Living):
    """A plugin that does *opening* while it is opened and *closing* while it is closed."""

    def __init__(
        self, *, opening: Callable[[], Awaitable[None]] = nothing, closing: Callable[[], Awaitable[None]] = nothing
    ) -> None:
        super().__init__("faulty", [])
        self.opening, self.closing = opening, closing

    @asynccontextmanager
    async def open(self, context: PluginContext) -> AsyncIterator[None]:
        await self.opening()
        yield  # after `swallow` this is too late: the host gave up
        await self.closing()


@pytest.mark.parametrize(
    ("opening", "says"),
    [
        (failing(ValueError("no connection")), "app:b_faulty.*no connection"),
        (failing(ConfigError("acme", ["wrong"])), "wrong"),
        (failing(asyncio.CancelledError()), "app:b_faulty"),
        (never, "app:b_faulty"),
        (swallow, "app:b_faulty"),
    ],
    ids=["fails", "wrong settings", "cancelled", "late", "swallows its cancellation"],
)
async def test_a_hook_plugin_that_does_not_open_refuses_to_open_the_host(
    opening: Callable[[], Awaitable[None]], says: str
) -> None:
    diary: list[str] = []
    plugins = in_order(Living("a", diary), Faulty(opening=opening), Living("c", diary))
    started = time.perf_counter()

    async with asyncio.timeout(2):
        await refused(says, plugins=plugins, config=SHORT)

    assert time.perf_counter() - started < 1
    assert diary == ["open a", "leave a"]


@pytest.mark.parametrize(
    "closing",
    [failing(ValueError("gone")), failing(asyncio.CancelledError()), never, swallow],
    ids=["fails", "cancelled", "late", "swallows its cancellation"],
)
async def test_a_plugin_that_does_not_close_does_not_hold_the_others(
    closing: Callable[[], Awaitable[None]], caplog: pytest.LogCaptureFixture
) -> None:
    diary: list[str] = []
    plugins = in_order(Living("a", diary), Faulty(closing=closing), Living("c", diary))
    started = time.perf_counter()

    async with asyncio.timeout(2), stage(plugins=plugins, config=SHORT):
        pass

    assert time.perf_counter() - started < 1
    assert diary == ["open a", "open c", "leave c", "leave a"]
    assert "b_faulty" in caplog.text


EXITS = """
import asyncio
from contextlib import asynccontextmanager
from pluggent_host import Host
from pluggent_hookspecs import PluggentError, hookimpl

class Exits:
    def __init__(self, when):
        self.when = when

    @asynccontextmanager
    async def open(self, context):
        if self.when == "open":
            raise SystemExit(3)
        yield
        raise SystemExit(3)

    @hookimpl
    def decide_input(self, event):
        return None

async def main(when):
    try:
        async with Host.open(plugins=[Exits(when)], installed=False):
            print("opened")
    except PluggentError as error:
        print("refused", error.plugin)

for when in ("open", "close"):
    asyncio.run(main(when))
    print("over")
"""


def test_a_plugin_that_exits_while_it_is_opened_or_left_does_not_end_the_program() -> None:
    # In a process of its own: a SystemExit of a task would end the loop of this one.
    done = subprocess.run(  # noqa: S603 (this interpreter)
        [sys.executable, "-c", EXITS], capture_output=True, text=True, timeout=20, check=False
    )

    assert done.stdout.splitlines() == ["refused app:exits", "over", "opened", "over"], done.stderr


async def test_open_that_is_not_a_context_manager_is_a_load_error() -> None:
    class Odd:
        def open(self, context):
            return "opened"

        @hookimpl
        def decide_input(self, event):
            return None

    await refused("app:odd", plugins=[Odd()])


BROKEN = "raise ValueError('no connection')"
REQUIRED = HostSettings(required={"acme-guard": ()})
BLOCKED = Selection(block=("acme-guard",))
OPTIONAL = Grants(optional=("acme-guard",))
NOT_ALLOWED = [HostSettings(selection=Selection(mode="allow", allow=allow)) for allow in [(), ("acme-tools",)]]


@pytest.mark.parametrize("source", [POLICY_THAT_FAILS_TO_OPEN, BROKEN], ids=["open", "import"])
async def test_an_optional_policy_that_fails_is_left_out_and_shown_as_failed(source: str, site: Site) -> None:
    site.add("acme-guard", "hooks/guard", source)
    config, danger = HostSettings(grants=OPTIONAL), Danger()

    async with stage(call("danger", path="x"), tools=danger.tools(), installed=site.found(), config=config) as on:
        await on.session.say("go")
        ((_, state, reason),) = on.host.plugins

    assert (state, danger.ran) == ("failed", ["x"])
    assert "no connection" in reason


@pytest.mark.parametrize(
    ("config", "state"),
    [
        (REQUIRED, "active"),
        (HostSettings(required={"acme-guard": ("decide_tool_call",)}), "active"),
        (HostSettings(selection=BLOCKED), "blocked"),
    ],
    ids=["required", "required hook", "blocked"],
)
async def test_a_host_opens_with_its_required_policy_or_without_a_blocked_one(
    config: HostSettings, state: str, site: Site
) -> None:
    site.add("acme-guard", "hooks/guard", SITE_POLICY)

    async with stage(installed=site.found(), config=config) as on:
        assert states(on) == {"acme-guard": state}


@pytest.mark.parametrize(
    ("source", "config", "says"),
    [
        (POLICY_THAT_FAILS_TO_OPEN, HostSettings(), r"acme-guard.*no connection"),
        (SITE_POLICY, HostSettings(required={"acme-guard": ("decide_output",)}), "decide_output"),
        (SITE_POLICY, HostSettings(required={"acme-other": ()}), "acme-other"),
        (SITE_POLICY, HostSettings(required={"acme-guard": ()}, selection=BLOCKED), "acme-guard"),
        (SITE_POLICY, HostSettings(required={"acme-guard": ()}, selection=Selection(mode="allow")), "acme-guard"),
        (BROKEN, HostSettings(required={"acme-guard": ()}, grants=OPTIONAL), "acme-guard"),
        *((SITE_POLICY, config, "acme-guard") for config in NOT_ALLOWED),
    ],
    ids=["fails", "hook", "missing", "blocked", "not-allowed", "optional", "nothing-allowed", "another-allowed"],
)
async def test_a_policy_that_does_not_run_refuses_to_open_the_host(
    source: str, config: HostSettings, says: str, site: Site
) -> None:
    """Rule 14: every state but active and blocked by the operator."""
    site.add("acme-guard", "hooks/guard", source)
    site.add("acme-tools", "tools/tools", TOOLS)

    await refused(says, installed=site.found(), config=config)


async def test_a_plugin_given_in_code_satisfies_no_requirement() -> None:
    """Rule 29."""
    await refused("app:living", plugins=[Living("a", [])], config=HostSettings(required={"app:living": ()}))


async def test_an_incompatible_hook_plugin_refuses_to_open_the_host(site: Site) -> None:
    site.add("acme-guard", "hooks/guard", SITE_POLICY, requires=("pluggent-hookspecs>=7",))

    await refused(r"acme-guard.*incompatible", installed=site.found())


async def test_one_distribution_with_hooks_in_two_places_refuses_to_open_the_host(tmp_path: Path) -> None:
    """Rules 14 and 27."""
    folders = [tmp_path / "one", tmp_path / "two"]
    for folder in folders:
        Site(folder).add("acme-guard", "hooks/guard", SITE_POLICY)

    with importable(*folders):
        await refused("acme-guard", installed=discover([str(folder) for folder in folders]))


async def test_a_hook_package_that_was_not_accepted_refuses_to_open_the_host(site: Site) -> None:
    site.add("acme-guard", "hooks/guard", SITE_POLICY)

    with pytest.raises(ConfigError, match="acme-guard"):
        async with Host.open(installed=site.found(), acknowledged=lambda _: False):
            pass


BROKEN_TOOLS = {
    "import": "raise ValueError('broken')",
    "exit": "raise SystemExit(3)",
    "provide": TOOLS.replace("return [ping]", "raise ValueError('broken')"),
    "provides-nonsense": TOOLS.replace("return [ping]", "return [42]"),
    "provides-bad-name": TOOLS.replace("return [ping]", "return [tool(name='two words')(ping)]"),
    "provides-none": TOOLS.replace("return [ping]", "return None"),
    "open": TOOLS + POLICY_THAT_FAILS_TO_OPEN.partition("return Deny('no')\n")[2],
}


@pytest.mark.parametrize("source", BROKEN_TOOLS.values(), ids=BROKEN_TOOLS)
async def test_a_broken_capability_disables_itself_alone_and_is_an_error_where_it_is_named(
    source: str, site: Site
) -> None:
    site.add("acme-broken", "tools/broken", source)
    site.add("acme-tools", "tools/fine", TOOLS)

    try:
        async with stage(call("ping"), tools=["*"], installed=site.found()) as on:
            await on.session.say("go")
            found = states(on)
        await refused("acme-broken", tools=["broken"], installed=site.found())
    except SystemExit as escaped:
        pytest.fail(f"{escaped!r} came out")

    assert on.read_by_model() == ["pong"]
    assert found["acme-tools"] == "active"
    assert found["acme-broken"] in ("failed", "active")  # what it offers may turn out to be no tool only later


async def test_a_capability_is_neither_imported_nor_opened_before_it_is_used(site: Site) -> None:
    site.add("acme-tools", "tools/fine", "raise ValueError('imported')")

    async with stage("hello", installed=site.found()) as on:
        await on.session.say("go")
        assert states(on) == {"acme-tools": "available"}


OPENING = """
    diary = []

    @asynccontextmanager
    async def open(self, context):
        self.diary.append(f"open {context.plugin}")
        self.diary.append(await context.tools_named("p*"))
        yield
        self.diary.append("leave")
"""


async def test_a_capability_is_opened_once_and_left_with_the_host(site: Site) -> None:
    """It may ask for the names of tools while it is opened."""
    site.add("acme-tools", "tools/fine", TOOLS)
    site.add("beta-tools", "tools/asking", TOOLS.replace("ping()", "pang()").replace("[ping]", "[pang]") + OPENING)

    async with asyncio.timeout(3), stage(installed=site.found(), tools=["asking"]) as on:
        await asyncio.gather(on.host.session(), on.host.session())
        import beta_tools  # type: ignore[import-not-found]

        before = list(beta_tools.Plugin.diary)
        assert states(on)["beta-tools"] == "active"

    assert before == ["open beta-tools", ("acme-tools:tool/ping",)]
    assert beta_tools.Plugin.diary == [*before, "leave"]


async def test_a_slow_provide_hook_fails_its_plugin(site: Site) -> None:
    site.add("acme-tools", "tools/fine", TOOLS.replace("return [ping]", "import time; time.sleep(0.03); return [ping]"))
    config = HostSettings(timeouts=Timeouts(provide_s=0.01))

    await refused("acme-tools", installed=site.found(), tools=["fine"], config=config)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("return None", "its provide_tools returned None: return a list, which may be empty"),
        ("return itertools.repeat(ping)", "provide_tools gave more than 10000"),
        ("return (time.sleep(0.03) or each for each in [ping] * 2)", "provide_tools had not ended after 0.01 s"),
    ],
    ids=["nothing", "no end", "slow"],
)
async def test_what_a_provide_hook_gives_is_bounded(site: Site, given: str, says: str) -> None:
    site.add("acme-tools", "tools/fine", "import itertools, time\n" + TOOLS.replace("return [ping]", given))
    config = HostSettings(timeouts=Timeouts(provide_s=0.01 if "sleep" in given else 5.0))

    with pytest.raises(PluginLoadError, match=says):
        async with stage(installed=site.found(), tools=["fine"], config=config):
            pass


async def test_a_group_that_looks_like_one_of_the_host_is_named_when_it_opens(site: Site, caplog: Any) -> None:
    site.add("acme-tools", "tools/fine", TOOLS)
    entries = next(site.folder.glob("acme_tools*/entry_points.txt"))
    entries.write_text(entries.read_text().replace("pluggent.tools", "pluggent.tool"))

    async with stage(installed=site.found()):
        assert "[pluggent.tool] is not a group of this host; did you mean 'pluggent.tools'?" in caplog.text
    entries.write_text(entries.read_text().replace("pluggent.tool", "pluggent.policies"))
    await refused(r"\[pluggent.policies\] is not a group of this host", installed=site.found())


async def test_every_change_of_state_is_observed(site: Site) -> None:
    site.add("acme-guard", "hooks/guard", SITE_POLICY)
    site.add("acme-tools", "tools/fine", TOOLS)
    site.add("acme-broken", "tools/broken", BROKEN)

    async with stage(installed=site.found(), tools=["*"]) as on:
        observed = {event.plugin: event.state for event in on.recorder.of(PluginStateChanged)}

    wanted = {"acme-guard": "active", "acme-tools:tools/fine": "active", "acme-broken:tools/broken": "failed"}
    assert {plugin: observed[plugin] for plugin in wanted} == wanted


KNOWN = {
    "acme:tool/search": "search",
    "acme:tool/save": "save",
    "beta:tool/search": "search",
    "app:tools:tool/add": "add",
}


@each_of(
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


@each_of(
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
    with pytest.raises(ConfigError, match=says):
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


async def test_a_method_that_is_nearly_a_hook_is_reported_by_name_when_the_host_opens(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    source = SITE_POLICY.replace("decide_input", "decide_output")
    near = f"{source}\n    def decide_tool_cal(self, event):\n        return Deny('no')\n"
    site.add("acme-guard", "hooks/guard", near)

    class Policy:
        @hookimpl
        def decide_input(self, event: Any) -> None: ...

        def before_call(self, event: Any) -> None: ...

    async with Host.open(installed=site.found(), plugins=[Policy()]) as host:
        (state,) = [(state, reason) for record, state, reason in host.plugins if record.id == "acme-guard"]

    assert "plugin 'acme-guard': its method decide_tool_cal has no marker" in caplog.text
    assert "did you mean 'decide_tool_call'?" in caplog.text
    assert "plugin 'app:policy': its method before_call has no marker" in caplog.text
    assert (state[0], "decide_tool_cal" in state[1]) == ("active", True)
