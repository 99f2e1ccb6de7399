"""Which tools a session gets, from code and from installed packages, and under which names."""

import asyncio
import contextlib
import re

import pytest
from fake_distributions import importable, install
from pluggent_hookspecs import ConfigError, PluginLoadError, ToolSpec, hookimpl, tool
from pluggent_host import Host
from pluggent_host.plugins.discovery import discover
from pluggent_host.settings import HostSettings, Timeouts
from pluggent_testing.fakes import ScriptedModel, call
from talking import WAIT_S, hosting, results, talking

SEARCH = """
from pluggent_hookspecs import hookimpl, tool

@tool(effects=())
def search(query: str) -> str:
    '''Search.'''
    return "{plugin} found " + query

@tool(effects=("shell",))
def run(command: str) -> str:
    '''Run.'''
    return "ran " + command

class Plugin:
    @hookimpl
    def provide_tools(self, event):
        return [{offers}]
"""


@tool(effects=())
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@pytest.fixture
def site(tmp_path):
    """Return a folder of installed packages; what is put there can be imported."""
    folder = tmp_path / "site"
    folder.mkdir()
    with importable(folder):
        yield folder


def installed(site, name, offers="search, run", source=SEARCH):
    """Install a tool plugin called *name* whose entry is ``<name>-tools``."""
    module = name.replace("-", "_")
    source = source.replace("{plugin}", name).replace("{offers}", offers)
    install(site, name, {f"tools/{name}-tools": f"{module}.plugin:Plugin"}, modules={f"{module}.plugin": source})


@contextlib.asynccontextmanager
async def host_with(site, *replies, **options):
    """Open a host that finds the packages in *site* and nothing else."""
    model = ScriptedModel(*replies)
    async with Host.open(model="scripted/m", plugins=[model], installed=discover([str(site)]), **options) as host:
        yield host


async def names(host, *choices):
    """Return {name the model sees: capability id} of a session with *choices*."""
    async with await host.session(tools=choices) as session:
        return {tool.name: tool.capability for tool in session.tools}


# ---- from code --------------------------------------------------------------------------


class Plain:
    """A Tool object with *spec*."""

    def __init__(self, name="plain", **fields):
        self.spec = ToolSpec(name, **fields)

    async def call(self, arguments, context):
        return dict(arguments)


async def test_functions_and_tool_objects_can_be_given():
    async with hosting() as host:
        assert await names(host, add, Plain()) == {"add": "app:tools:tool/add", "plain": "app:tools:tool/plain"}


async def test_two_tools_of_one_name_in_code_are_an_error():
    async with hosting() as host:
        with pytest.raises(ConfigError, match="two tools given in code are called 'add'"):
            await host.session(tools=[add, Plain("add")])


@pytest.mark.parametrize("thing", [12, lambda x: x, print, object()])
async def test_a_thing_that_cannot_be_a_tool_is_an_error(thing):
    async with hosting() as host:
        with pytest.raises((TypeError, ValueError, ConfigError)):
            await host.session(tools=[thing])


async def test_a_plugin_in_code_brings_its_tools_into_every_session():
    class Brings:
        @hookimpl
        def provide_tools(self, event):
            return [add]

    async with hosting(call("add", a=1, b=2), "x", plugins=[Brings()]) as host, await host.session() as session:
        await session.say("go")

        assert results(session.history) == ["3"]
        assert [tool.capability for tool in session.tools] == ["app:brings:tool/add"]


class Source:
    """A plugin in code with a source of tools; counts how often it was asked."""

    def __init__(self, give):
        self.give = give
        self.asked = 0

    @hookimpl
    def provide_tools(self, event):
        return [self]

    async def tools(self):
        self.asked += 1
        return await self.give()


async def test_a_source_is_asked_when_the_first_session_opens_and_not_again():
    async def give():
        return [Plain("late")]

    source = Source(give)
    async with hosting(plugins=[source]) as host:
        assert source.asked == 0
        assert set(await names(host)) == {"late"}
        assert set(await names(host)) == {"late"}
        assert source.asked == 1


async def test_two_sessions_at_once_ask_a_source_once():
    async def give():
        await asyncio.sleep(0)
        return [Plain("late")]

    source = Source(give)
    async with hosting(plugins=[source]) as host:
        await asyncio.gather(names(host), names(host, add))

        assert source.asked == 1


async def test_a_source_that_fails_is_named():
    async def give():
        raise ConnectionError("nobody there")

    async with hosting(plugins=[Source(give)]) as host:
        with pytest.raises(PluginLoadError, match=r"'app:source'.*ConnectionError: nobody there"):
            await host.session()


async def test_a_source_that_hangs_is_given_up():
    async def give():
        await asyncio.Event().wait()

    async with hosting(plugins=[Source(give)], config=HostSettings(timeouts=Timeouts(source_s=0.01))) as host:
        with pytest.raises(PluginLoadError, match=r"did not list its tools within 0\.01 s"):
            await asyncio.wait_for(host.session(), WAIT_S)


@pytest.mark.parametrize("given", [None, 12, [12], ["add"]])
async def test_a_source_that_gives_no_tools_is_named(given):
    async def give():
        return given

    async with hosting(plugins=[Source(give)]) as host:
        with pytest.raises(PluginLoadError, match="'app:source'"):
            await host.session()


async def test_two_tools_of_one_name_in_one_plugin_are_an_error():
    async def give():
        return [Plain("twin"), Plain("twin")]

    async with hosting(plugins=[Source(give)]) as host:
        with pytest.raises(PluginLoadError, match="two tools called 'twin'"):
            await host.session()


@pytest.mark.parametrize(
    "parameters",
    [{"type": 12}, {"type": "array"}, {"type": "object", "required": "n"}, {"$ref": "http://nobody.test/"}],
)
async def test_a_tool_with_a_bad_schema_harms_nobody_else(parameters):
    async with hosting(
        (call("plain", n=1), call("add", a=1, b=2)), "x", tools=[Plain(parameters=parameters), add]
    ) as host:
        try:
            session = await host.session()
        except PluginLoadError as error:
            assert "bad parameters" in str(error)  # noqa: PT017 (both ways are fine)
            return
        await session.say("go")

        assert session.history[2].is_error
        assert results(session.history)[1] == "3"


@pytest.mark.parametrize("name", ["weather report", "näher", "a" * 65, "", "a/b"])
async def test_names_that_no_vendor_takes_are_made_ones_that_all_take(name):
    async with hosting(tools=[Plain(name)]) as host, await host.session() as session:
        (tool,) = session.tools
        assert re.fullmatch("[A-Za-z0-9_-]{1,64}", tool.name)
        assert tool.capability == f"app:tools:tool/{name}"


class Given:
    """A Tool object that returns what *value* makes of its arguments, awaitable or not."""

    spec = ToolSpec("given", "Given.", {"type": "object", "properties": {"n": {"type": "integer", "default": 7}}}, ())

    def __init__(self, value):
        self.value = value

    def call(self, arguments, context):
        return self.value(arguments)


async def test_a_tool_object_gets_checked_arguments():
    async def echo(arguments):
        return {"got": arguments["n"]}

    async with talking(call("given"), "x", tools=[Given(echo)]) as session:
        await session.say("go")

        assert results(session.history) == ['{"got":7}']


async def test_a_tool_object_that_forgets_to_be_async_is_a_failed_call():
    async with talking(call("given"), "x", tools=[Given(lambda _: "now")]) as session:
        await session.say("go")

        assert results(session.history)[0].startswith("Error: 'given' failed: TypeError")


# ---- installed --------------------------------------------------------------------------


async def test_installed_tools_are_offered_only_to_sessions_that_choose_them(site):
    installed(site, "acme")
    async with host_with(site) as host:
        assert await names(host) == {}
        assert await names(host, "search") == {"search": "acme:tool/search"}


@pytest.mark.parametrize("choice", ["*", "acme", "acme-tools"])
async def test_a_plugin_is_chosen_with_all_its_tools(site, choice):
    installed(site, "acme")
    async with host_with(site) as host:
        assert await names(host, choice) == {"search": "acme:tool/search", "run": "acme:tool/run"}


async def test_a_tool_is_chosen_by_its_full_id(site):
    installed(site, "acme")
    installed(site, "other")
    async with host_with(site) as host:
        assert await names(host, "other:tool/search") == {"search": "other:tool/search"}


async def test_a_name_that_two_plugins_bear_chooses_neither(site):
    installed(site, "acme")
    installed(site, "other")
    async with host_with(site) as host:
        with pytest.raises(ConfigError, match="'search' means acme:tool/search and other:tool/search"):
            await host.session(tools=["search"])


async def test_tools_of_one_name_get_qualified_names(site):
    installed(site, "acme", "search")
    installed(site, "other", "search")
    async with host_with(site, call("other_search", query="tea"), "x") as host:
        assert await names(host, "*") == {"acme_search": "acme:tool/search", "other_search": "other:tool/search"}
        session = await host.session(tools=["*"])
        await session.say("go")

        assert results(session.history) == ["other found tea"]


async def test_an_installed_tool_takes_no_name_from_one_in_code(site):
    installed(site, "acme", "search")

    @tool(effects=())
    def search(query: str) -> str:
        """Search."""
        return "mine"

    async with host_with(site) as host:
        assert await names(host, search, "*") == {"search": "app:tools:tool/search", "acme_search": "acme:tool/search"}


async def test_an_alias_of_the_operator_settles_a_name(site):
    installed(site, "acme", "search")
    installed(site, "other", "search")
    config = HostSettings(aliases={"tool/search": "other"})
    async with host_with(site, config=config) as host:
        assert await names(host, "*") == {"acme_search": "acme:tool/search", "search": "other:tool/search"}


async def test_an_unknown_tool_is_named_with_the_nearest_one(site):
    installed(site, "acme")
    async with host_with(site) as host:
        with pytest.raises(ConfigError, match="there is no tool 'serch'; did you mean 'search'"):
            await host.session(tools=["serch"])
        with pytest.raises(ConfigError, match="there is no tool 'zzz'; installed: acme-tools, run, search"):
            await host.session(tools=["zzz"])


async def test_an_unknown_tool_where_none_is_installed_is_said_so(site):
    async with host_with(site) as host:
        with pytest.raises(ConfigError, match="there is no tool 'search'; none is installed"):
            await host.session(tools=["search"])


async def test_a_broken_plugin_is_an_error_only_for_those_who_name_it(site):
    installed(site, "acme")
    installed(site, "broken", source="raise ZeroDivisionError('oops')")
    async with host_with(site) as host:
        assert set(await names(host, "*")) == {"search", "run"}
        with pytest.raises(PluginLoadError, match="ZeroDivisionError: oops"):
            await host.session(tools=["broken"])


BADLY_NAMED = """
from pluggent_hookspecs import hookimpl, tool

def search(query: str) -> str:
    '''Search.'''
    return query

class Plugin:
    @hookimpl
    def provide_tools(self, event):
        return [tool(name="two words")(search)]
"""


async def test_a_plugin_whose_tool_has_an_impossible_name_is_broken(site):
    installed(site, "acme")
    installed(site, "broken", source=BADLY_NAMED)
    async with host_with(site) as host:
        assert set(await names(host, "*")) == {"search", "run"}
        with pytest.raises(PluginLoadError, match=r"'broken'.*two words"):
            await host.session(tools=["broken"])


async def test_installed_tools_are_judged_by_their_effects(site):
    installed(site, "acme")
    async with host_with(site) as host, await host.session(tools=["acme"]) as session:
        assert {tool.name: tool.default for tool in session.tools} == {"search": "allow", "run": "ask"}


async def test_the_operators_effects_stand_above_the_plugins(site):
    installed(site, "acme")
    config = HostSettings(effects={"acme:tool/run": (), "acme:tool/search": ("network_write",)})
    async with host_with(site, config=config) as host, await host.session(tools=["acme"]) as session:
        assert {tool.name: (tool.default, tool.effects) for tool in session.tools} == {
            "run": ("allow", frozenset()), "search": ("ask", frozenset({"network_write"})),
        }  # fmt: skip


async def test_nothing_of_a_plugin_is_imported_before_a_session_wants_it(site):
    installed(site, "acme", source="raise SystemExit('imported')")
    async with host_with(site) as host:
        assert await names(host, add) == {"add": "app:tools:tool/add"}


async def test_a_choice_that_is_given_twice_is_one(site):
    installed(site, "acme", "search")
    async with host_with(site) as host:
        assert await names(host, "search", "acme", "*", "search") == {"search": "acme:tool/search"}
