"""Tools that are known only after connecting: several sources of a plugin, and what becomes of those that fail."""

import asyncio
import json
from contextlib import asynccontextmanager
from importlib import import_module

import pytest
from cli_support import Cli
from fake_distributions import importable, install
from pluggent_hookspecs import ConfigError, PluginLoadError, PluginStateChanged, ToolSpec
from pluggent_host import Host
from pluggent_host.plugins.discovery import discover
from pluggent_host.settings import HostSettings, Timeouts
from pluggent_testing.fakes import ScriptedModel
from talking import WAIT_S, hosting
from tool_sources import Brings, Changing, Hanging, Listed, Meeting, Named

QUICK = HostSettings(timeouts=Timeouts(source_s=0.01))


async def offered(host, *choices):
    """Return the names of the tools of a new session."""
    async with await host.session(tools=choices) as session:
        return {tool.name for tool in session.tools}


@asynccontextmanager
async def told(host):
    """Return a function that waits for the next state of a plugin that is told."""
    async with host.events(PluginStateChanged) as events:
        waiting = aiter(events)
        yield waiting.__anext__


async def test_the_sources_of_a_plugin_are_asked_side_by_side():
    barrier = asyncio.Barrier(2)
    async with hosting(plugins=[Brings(Meeting(barrier, "one"), Meeting(barrier, "two"))]) as host:
        assert await asyncio.wait_for(offered(host), WAIT_S) == {"one", "two"}


async def test_a_source_that_fails_leaves_the_others_their_tools_and_is_told():
    broken = Listed(ConnectionError("nobody there"), name="git")
    async with hosting(plugins=[Brings(Listed("one"), Named("plain"), broken)]) as host, told(host) as upcoming:
        assert await offered(host) == {"one", "plain"}
        event = await upcoming()

    assert (event.plugin, event.state) == ("app:brings", "active")
    assert event.reason == "could not list its tools in its source 'git': ConnectionError: nobody there"


async def test_each_source_has_its_own_deadline_and_one_that_swallows_its_cancellation_holds_nobody():
    hanging = Hanging()
    async with hosting(plugins=[Brings(hanging, Listed("one"))], config=QUICK) as host:
        assert await asyncio.wait_for(offered(host), WAIT_S) == {"one"}
        hanging.let_go.set()


async def test_a_required_source_that_fails_makes_its_plugin_fail():
    plugin = Brings(Listed("one"), Listed(OSError("gone"), required=True))
    async with hosting(plugins=[plugin]) as host:
        with pytest.raises(PluginLoadError, match=r"'app:brings'.*OSError: gone"):
            await host.session()


async def test_a_plugin_without_any_tool_left_fails_unless_its_sources_may():
    async with hosting(plugins=[Brings(Listed(OSError("gone")))]) as host:
        with pytest.raises(PluginLoadError, match="OSError: gone"):
            await host.session()
    async with hosting(plugins=[Brings(Listed(OSError("gone"), required=False))]) as host:
        assert await offered(host) == set()


@pytest.mark.parametrize("error", [SystemExit("x"), asyncio.CancelledError(), KeyError("x")])
async def test_whatever_a_source_raises_is_its_own_failure(error):
    async with hosting(plugins=[Brings(Listed("one"), Listed(error))]) as host:
        assert await offered(host) == {"one"}


async def test_a_source_that_failed_is_asked_again_when_the_next_session_opens():
    source = Listed(OSError("gone"))
    async with hosting(plugins=[Brings(Named("plain"), source)]) as host:
        assert await offered(host) == {"plain"}
        source.gives = ("one",)
        assert await offered(host) == {"plain", "one"}
        assert await offered(host) == {"plain", "one"}

    assert source.asked == 2


async def test_a_source_that_has_a_revision_is_not_asked_again_before_it_grows():
    source = Changing(OSError("gone"))
    async with hosting(plugins=[Brings(Named("plain"), source)]) as host:
        assert await offered(host) == await offered(host) == {"plain"}
        source.now("one")
        assert await offered(host) == {"plain", "one"}

    assert source.asked == 2


async def test_a_source_that_mends_is_told_too():
    source = Changing(OSError("gone"))
    async with hosting(plugins=[Brings(Named("plain"), source)]) as host, told(host) as upcoming:
        await offered(host)
        source.now("one")
        await offered(host)
        reasons = [(await upcoming()).reason, (await upcoming()).reason]

    assert reasons == ["could not list its tools: OSError: gone", ""]


async def test_a_name_that_two_sources_give_stays_with_the_first():
    first, second = Listed(Named("one", "mine")), Listed(Named("one", "yours"), "two")
    async with hosting(plugins=[Brings(first, second)]) as host, await host.session() as session:
        assert {tool.name: tool.spec.description for tool in session.tools} == {"one": "mine", "two": "fine"}


class Surly(Listed):
    """A source that does not even say whether it has a name."""

    @property
    def name(self):
        raise RuntimeError("go away")


async def test_a_source_whose_attributes_raise_says_nothing_with_them():
    async with hosting(plugins=[Brings(Surly("one"))]) as host:
        assert await offered(host) == {"one"}


# ---- installed --------------------------------------------------------------------------

SOURCES = """
from pluggent_hookspecs import ToolSpec, hookimpl

asked = []

class Tool:
    def __init__(self, name):
        self.spec = ToolSpec(name, effects=())
    async def call(self, arguments, context):
        return self.spec.name

class Source:
    def __init__(self, name, *tools, fails=False):
        self.name, self.prefix, self.given, self.fails = name, name + "_", tools, fails
    async def tools(self):
        asked.append(self.name)
        if self.fails:
            raise ConnectionError("nobody there")
        return [Tool(name) for name in self.given]

class Plugin:
    @hookimpl
    def provide_tools(self, event):
        return [Source("git", "git_log", "git_diff"), Source("files", "files_read"), Source("dead", fails=True)]
"""


@pytest.fixture
def site(tmp_path):
    """Return a folder with the package acme, whose tools come from three sources."""
    folder = tmp_path / "site"
    folder.mkdir()
    install(folder, "acme", {"tools/acme": "acme_sources:Plugin"}, modules={"acme_sources": SOURCES})
    with importable(folder):
        yield folder


async def chosen(site, *choices, **options):
    """Return the names that a session with *choices* has, and the sources that were asked for it."""
    model = ScriptedModel()
    async with Host.open(model="scripted/m", plugins=[model], installed=discover([str(site)]), **options) as host:
        names = await offered(host, *choices)
        return names, import_module("acme_sources").asked


@pytest.mark.parametrize(
    ("choice", "names", "asked"),
    [
        ("acme:tool/git_*", {"git_log", "git_diff"}, ["git"]),
        ("acme:tool/g*", {"git_log", "git_diff"}, ["git"]),
        ("git_l*", {"git_log"}, ["git"]),
        ("files_read", {"files_read"}, ["files"]),
        ("acme:tool/files_read", {"files_read"}, ["files"]),
        ("acme", {"git_log", "git_diff", "files_read"}, ["git", "files", "dead"]),
        ("*", {"git_log", "git_diff", "files_read"}, ["git", "files", "dead"]),
    ],
)
async def test_only_sources_that_can_bear_a_chosen_name_are_asked(site, choice, names, asked):
    assert await chosen(site, choice) == (names, asked)


async def test_a_pattern_that_means_nothing_is_an_error(site):
    with pytest.raises(ConfigError, match="there is no tool 'acme:tool/svn_\\*'"):
        await chosen(site, "acme:tool/svn_*")


async def test_a_tool_that_belies_the_prefix_of_its_source_makes_the_source_fail():
    plugin = Brings(Named("plain"), Listed("svn", prefix="git_"))
    async with hosting(plugins=[plugin]) as host, told(host) as upcoming:
        assert await offered(host) == {"plain"}
        assert (await upcoming()).reason == "offers 'svn' although its prefix is 'git_'"


async def test_effects_are_not_missed_on_a_tool_whose_source_was_not_asked_or_failed(site):
    config = HostSettings(effects={"acme:tool/files_read": (), "acme:tool/dead_thing": ()})
    names, _ = await chosen(site, "acme:tool/git_*", config=config)
    assert names == {"git_log", "git_diff"}

    missed = HostSettings(effects={"acme:tool/git_lgo": ()})
    with pytest.raises(
        ConfigError, match="'acme:tool/git_lgo' is not one of its tools; did you mean 'acme:tool/git_log'"
    ):
        await chosen(site, "acme", config=missed)


def test_the_command_shows_a_source_that_fails(tmp_path):
    cli = Cli(tmp_path)
    install(cli.site, "acme", {"tools/acme": "acme_sources:Plugin"}, modules={"acme_sources": SOURCES})
    problem = "could not list its tools in its source 'dead': ConnectionError: nobody there"

    listed = cli("tools")
    document = json.loads(cli("tools", "--json").out)
    looked = cli("doctor")

    assert "git_log" in listed.out
    assert f"plugin 'acme' {problem}" in listed.err.replace("\n", " ")
    assert document["broken"] == {"acme:tools/acme": problem}
    assert looked.code == 1
    assert "nobody there" in looked.out


class Undeclared(Named):
    """A tool of which nobody has said what it does."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.spec = ToolSpec(name, "fine")


async def test_what_a_source_brings_was_not_written_by_the_application_that_gives_the_source():
    brought, own = Undeclared("brought"), Undeclared("own")
    async with hosting(plugins=[Brings(Listed(brought))], tools=[own]) as host, await host.session("s") as session:
        first = await session.call_tool("brought", {})
        second = await session.call_tool("own", {})

    assert (first.is_error, brought.calls) == (True, 0)
    assert "approval" in str(first.for_model)
    assert (second.is_error, own.calls) == (False, 1)
