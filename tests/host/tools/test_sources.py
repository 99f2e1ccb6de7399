"""Sources of tools, known only after connecting: several of a plugin, some fail, some change during a session."""

import asyncio
import json
from contextlib import asynccontextmanager
from importlib import import_module

import pytest
from cli_support import Cli
from fake_distributions import importable, install
from pluggent_hookspecs import ConfigError, PluginLoadError, PluginStateChanged, ToolSpec, hookimpl
from pluggent_host import Host
from pluggent_host.settings import HostSettings, Timeouts
from pluggent_plugin_loader.discovery import discover
from pluggent_testing.fakes import ScriptedModel, call
from talking import WAIT_S, hosting, results, talking
from tool_sources import Brings, Changing, Hanging, Listed, Meeting, Named

QUICK = HostSettings(timeouts=Timeouts(source_s=0.01))


async def offered(host, *choices):
    """Return the names of the tools of a new session."""
    async with await host.session(tools=choices) as session:
        return {tool.name for tool in session.tools}


@asynccontextmanager
async def observed(host):
    """Return a function that waits for the next state of a plugin that observers see."""
    async with host.events(PluginStateChanged) as events:
        waiting = aiter(events)
        yield waiting.__anext__


async def test_the_sources_of_a_plugin_are_asked_side_by_side():
    barrier = asyncio.Barrier(2)
    async with hosting(plugins=[Brings(Meeting(barrier, "one"), Meeting(barrier, "two"))]) as host:
        assert await asyncio.wait_for(offered(host), WAIT_S) == {"one", "two"}


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        (
            Listed(ConnectionError("refused"), name="git"),
            "could not list its tools in its source 'git': ConnectionError: refused",
        ),
        (Listed("svn", prefix="git_"), "offers 'svn' although its prefix is 'git_'"),
        (Listed(SystemExit("x")), "could not list its tools: SystemExit: x"),
        (Listed(KeyError("x")), "could not list its tools: KeyError: 'x'"),
        (Listed(asyncio.CancelledError()), "could not list its tools: CancelledError"),
    ],
)
async def test_a_source_that_fails_leaves_the_others_their_tools_and_is_observed(broken, reason):
    async with hosting(plugins=[Brings(Listed("one"), Named("plain"), broken)]) as host, observed(host) as upcoming:
        assert await offered(host) == {"one", "plain"}
        event = await upcoming()

    assert (event.plugin, event.state, event.reason) == ("app:brings", "active", reason)


async def test_each_source_has_its_own_deadline_and_one_that_swallows_its_cancellation_holds_no_other():
    hanging = Hanging()
    plugins = [Brings(hanging, Listed("one"))]
    async with hosting(plugins=plugins, config=QUICK) as host, observed(host) as upcoming:
        assert await asyncio.wait_for(offered(host), WAIT_S) == {"one"}
        assert (await upcoming()).reason == "did not list its tools within 0.01 s"
        hanging.let_go.set()


@pytest.mark.parametrize(
    "sources",
    [(Listed("one"), Listed(OSError("gone"), required=True)), (Listed(OSError("gone")),)],
    ids=["required", "the only one"],
)
async def test_a_plugin_fails_with_a_required_source_or_without_any_tool(sources):
    async with hosting(plugins=[Brings(*sources)]) as host:
        with pytest.raises(PluginLoadError, match=r"'app:brings'.*OSError: gone"):
            await host.session()


async def test_a_plugin_may_stay_without_tools_if_its_sources_are_not_required():
    async with hosting(plugins=[Brings(Listed(OSError("gone"), required=False))]) as host:
        assert await offered(host) == set()


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
    async with hosting(plugins=[Brings(Named("plain"), source)]) as host, observed(host) as upcoming:
        assert await offered(host) == await offered(host) == {"plain"}
        source.now("one")
        assert await offered(host) == {"plain", "one"}
        reasons = [(await upcoming()).reason, (await upcoming()).reason]

    assert source.asked == 2
    assert reasons == ["could not list its tools: OSError: gone", ""]


class Surly(Listed):
    """A source whose name cannot be read."""

    @property
    def name(self):
        raise RuntimeError("go away")


async def test_a_name_that_two_sources_give_stays_with_the_first():
    first, second = Surly(Named("one", "mine")), Listed(Named("one", "yours"), "two")
    async with talking(plugins=[Brings(first, second)]) as session:
        assert {tool.name: tool.spec.description for tool in session.tools} == {"one": "mine", "two": "fine"}


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
            raise ConnectionError("refused")
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


@pytest.mark.parametrize(
    ("choice", "effect", "says"),
    [
        ("acme:tool/svn_*", "acme:tool/files_read", r"there is no tool 'acme:tool/svn_\*'"),
        ("acme", "acme:tool/git_lgo", "'acme:tool/git_lgo' is not one of its tools; did you mean 'acme:tool/git_log'"),
    ],
)
async def test_a_choice_or_effects_that_mean_no_tool_are_an_error(site, choice, effect, says):
    with pytest.raises(ConfigError, match=says):
        await chosen(site, choice, config=HostSettings(effects={effect: ()}))


async def test_effects_are_not_missed_on_a_tool_whose_source_was_not_asked_or_failed(site):
    config = HostSettings(effects={"acme:tool/files_read": (), "acme:tool/dead_thing": ()})

    assert (await chosen(site, "acme:tool/git_*", config=config))[0] == {"git_log", "git_diff"}


def test_the_command_shows_a_source_that_fails(tmp_path):
    cli = Cli(tmp_path)
    install(cli.site, "acme", {"tools/acme": "acme_sources:Plugin"}, modules={"acme_sources": SOURCES})
    problem = "could not list its tools in its source 'dead': ConnectionError: refused"

    listed = cli("tools")
    document = json.loads(cli("tools", "--json").out)
    looked = cli("doctor", PLUGGENT_MODE="allow", PLUGGENT_ALLOW="acme,pluggent-offline")

    assert "git_log" in listed.out
    assert f"plugin 'acme' {problem}" in listed.err.replace("\n", " ")
    assert document["broken"] == {"acme:tools/acme": problem}
    assert looked.code == 1
    assert "refused" in looked.out


def offers(model):
    """Return the names of the tools that each request to *model* offered."""
    return [sorted(tool.name for tool in request.tools) for request in model.requests]


def meaning(session):
    """Return {name: (capability, description)} of the tools of *session*."""
    return {tool.name: (tool.capability, tool.spec.description) for tool in session.tools}


class Changer(Named):
    """A tool that gives *source* the *tools*, from then on; calls after it wait for it."""

    def __init__(self, source, *tools):
        super().__init__("change")
        self.spec = ToolSpec("change", "fine", effects=(), exclusive=True)
        self.change = lambda: source.now(*tools)

    async def call(self, arguments, context):
        self.change()
        return await super().call(arguments, context)


def two_plugins(*sources):
    """Return a plugin for each of two *sources*."""
    first, second = sources
    return [Brings(first), type("Other", (Brings,), {})(second)]


async def test_the_next_round_is_offered_the_tools_that_there_are_now():
    source = Changing("old")
    model = ScriptedModel(call("change"), call("new"), "done")
    async with talking(model=model, tools=[Changer(source, "new")], plugins=[Brings(source)]) as session:
        await session.say("go")

        assert offers(model) == [["change", "old"], ["change", "new"], ["change", "new"]]
        assert results(session.history) == ["change is fine", "new is fine"]
        assert set(meaning(session)) == {"change", "new"}
    assert source.asked == 2


@pytest.mark.parametrize(
    ("now", "called", "result"),
    [
        ("new", "new", "there is no tool 'new'"),
        (Named("old"), "old", "old is fine"),
        (OSError("gone"), "old", "or is gone, so it was not run"),
    ],
    ids=["not offered in this round", "the same tools", "source is gone"],
)
async def test_a_call_after_a_change_runs_the_tool_that_was_offered_or_none(now, called, result):
    source = Changing("old")
    replies = (call("change"), call(called)), "done"
    async with talking(*replies, tools=[Changer(source, now)], plugins=[Brings(source)]) as session:
        said = await session.say("go")

        assert said.text == "done"
        assert result in results(session.history)[1]


async def test_a_required_source_that_is_gone_loses_its_tools_and_the_turn_continues():
    source = Changing("old", required=True)
    model = ScriptedModel(call("change"), call("old"), "done")
    async with talking(model=model, tools=[Changer(source, OSError("gone"))], plugins=[Brings(source)]) as session:
        assert (await session.say("go")).text == "done"

        assert offers(model)[1:] == [["change"], ["change"]]


@pytest.mark.parametrize("approved", [False, True])
async def test_a_tool_whose_definition_changed_since_the_offer_is_not_run(approved):
    """The server changes what its tool does while a policy takes its time, or a person."""
    changed, first = Named("old", "something else"), Named("old")
    source = Changing(first)

    class Meanwhile:
        @hookimpl
        async def decide_tool_call(self, event):
            source.now(changed)

    async def approve(event):
        source.now(changed)
        return True

    asks = HostSettings(effects={"app:brings:tool/old": ("shell",)})
    options = {"approver": approve, "config": asks} if approved else {"policies": [Meanwhile()]}
    model = ScriptedModel(call("old"), "done")
    async with talking(model=model, plugins=[Brings(source)], **options) as session:
        await session.say("go")

        assert results(session.history) == [
            "Error: 'old' has changed since it was offered, or is gone, so it was not run. Look at the tools again."
        ]
        assert model.requests[1].tools[0].description == "something else"
    assert (first.calls, changed.calls) == (0, 0)


async def test_names_that_the_model_has_seen_stay_with_their_tools():
    early, late = Changing("find"), Changing()
    async with talking("one", call("find"), "two", plugins=two_plugins(early, late)) as session:
        await session.say("first")
        late.now(Named("find", "an impostor"))
        await session.say("second")

        assert meaning(session) == {
            "find": ("app:brings:tool/find", "fine"), "app_other_find": ("app:other:tool/find", "an impostor"),
        }  # fmt: skip
        assert results(session.history) == ["find is fine"]


async def test_a_choice_by_name_keeps_meaning_the_tool_that_it_meant():
    early, late = Changing("find"), Changing()
    plugins = two_plugins(early, late)
    async with hosting("a", plugins=plugins) as host, await host.session(tools=["find"]) as session:
        late.now(Named("find", "an impostor"))
        await session.say("x")

        assert meaning(session)["find"] == ("app:brings:tool/find", "fine")


async def test_a_name_that_a_source_took_later_stays_with_it_when_an_earlier_one_comes_to_have_it_too():
    early, late = Changing(), Changing(Named("find", "mine"))
    async with talking("a", "b", plugins=[Brings(Named("plain"), early, late)]) as session:
        early.now(Named("find", "yours"))
        await session.say("x")
        assert meaning(session)["find"][1] == "mine"

        late.now()
        await session.say("y")
        assert meaning(session)["find"][1] == "yours"


async def test_a_tool_called_by_hand_is_the_one_that_is_there_now():
    source = Changing("old")
    async with talking(plugins=[Brings(source)]) as session:
        source.now("new")

        assert (await session.call_tool("new", {})).for_model == "new is fine"


async def test_sessions_that_see_a_change_at_once_ask_once_and_not_again_while_nothing_changes():
    source = Changing("old")
    async with hosting(plugins=[Brings(source)]) as host, await host.session() as one, await host.session() as other:
        await one.say("before")
        assert source.asked == 1

        source.now("new")
        await asyncio.gather(one.say("x"), other.say("y"))

        assert set(meaning(one)) == set(meaning(other)) == {"new"}
    assert source.asked == 2
