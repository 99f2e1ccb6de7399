"""Installed capabilities, opened when they are used, and the names of tools in rules."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from fake_distributions import POLICY_THAT_FAILS_TO_OPEN, SITE_POLICY, TOOLS, Living, Site, importable, states
from pluggent_hookspecs import ConfigError, PluginContext, PluginLoadError, PluginStateChanged
from pluggent_host.plugins.registry import named
from pluggent_host.settings import HostSettings, Timeouts
from pluggent_testing.fakes import call
from policy_stage import stage


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with importable(tmp_path):
        yield Site(tmp_path)


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
    site.add("acme-guard", "hooks/guard", SITE_POLICY)
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
