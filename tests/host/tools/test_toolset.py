"""Which tools a session gets, from code and from installed packages, and under which names."""

import asyncio
import contextlib
import json
import re
from typing import Any

import pytest
from fake_distributions import importable, install
from pluggent_hookspecs import ConfigError, PluginLoadError, ToolSpec, thaw
from pluggent_host import Host
from pluggent_host.settings import HostSettings
from pluggent_plugin_loader.discovery import discover
from pluggent_testing.fakes import ScriptedModel, call
from saved import add
from talking import hosting, results, talking
from tool_sources import Brings, Listed, Named

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


class Plain:
    """A Tool object with *fields* as its spec that returns what *give* makes of its arguments, awaitable or not."""

    def __init__(self, name="plain", give: Any = dict, **fields):
        self.spec = ToolSpec(name, **fields)
        self.give = give

    def call(self, arguments, context):
        return self.give(arguments)


async def test_functions_and_tool_objects_can_be_given():
    async with hosting() as host:
        assert await names(host, add, Plain()) == {"add": "app:tools:tool/add", "plain": "app:tools:tool/plain"}
        with pytest.raises(ConfigError, match="two tools given in code are called 'add'"):
            await host.session(tools=[add, Plain("add")])


NULLABLE = {
    "type": "object",
    "properties": {
        "city": {"type": "string"},
        "verbose": {"type": "boolean", "default": False},
        "note": {"type": ["string", "null"]},
        "places": {"type": "array", "items": {"type": "object", "properties": {"zip": {"type": "string"}}}},
    },
    "required": ["city"],
}


async def test_null_for_an_optional_argument_that_allows_none_is_an_argument_not_given():
    given = {"city": "Oslo", "verbose": None, "note": None, "places": [{"zip": None}]}

    async def give(arguments):
        return json.dumps(thaw(arguments))

    plain = Plain(give=give, effects=(), parameters=NULLABLE)
    async with talking(call("plain", **given), "x", call("plain", city=None), "x", tools=[plain]) as session:
        await session.say("go")
        await session.say("go")

        first, second = results(session.history)
        assert json.loads(first) == {"city": "Oslo", "verbose": False, "note": None, "places": [{}]}
        assert '$.city: null is not of type "string"' in second


async def test_null_for_a_parameter_with_a_default_is_that_default():
    async def far(km: int = 5, unit: str | None = "x") -> str:
        """Go far."""
        return f"{km} {unit}"

    async with talking(call("far", km=None, unit=None), "x", tools=[far]) as session:
        await session.say("go")

        assert results(session.history) == ["5 None"]


@pytest.mark.parametrize("thing", [12, lambda x: x, print, object()])
async def test_a_thing_that_cannot_be_a_tool_is_an_error(thing):
    async with hosting() as host:
        with pytest.raises((TypeError, ValueError, ConfigError)):
            await host.session(tools=[thing])


async def test_a_plugin_in_code_brings_its_tools_into_every_session():
    async with talking(call("add", a=1, b=2), "x", plugins=[Brings(add)]) as session:
        await session.say("go")

        assert results(session.history) == ["3"]
        assert [tool.capability for tool in session.tools] == ["app:brings:tool/add"]


async def test_a_source_is_asked_once_when_the_first_sessions_open():
    source = Listed("late")
    async with hosting(plugins=[Brings(source)]) as host:
        assert source.asked == 0
        await asyncio.gather(names(host), names(host, add))
        assert set(await names(host)) == {"late"}
        assert source.asked == 1


class Gives:
    """A source that gives *given*, whatever that is."""

    def __init__(self, given):
        self.given = given

    async def tools(self):
        return self.given


@pytest.mark.parametrize(
    ("source", "says"),
    [
        (Listed(Plain("twin"), Plain("twin")), "two tools called 'twin'"),
        *((Gives(given), "'app:brings'") for given in (None, 12, [12], ["add"])),
    ],
    ids=["twins", "None", "number", "numbers", "texts"],
)
async def test_a_source_that_fails_or_gives_anything_but_tools_is_named(source, says):
    async with hosting(plugins=[Brings(source)]) as host:
        with pytest.raises(PluginLoadError, match=says):
            await host.session()


@pytest.mark.parametrize(
    "parameters",
    [{"type": 12}, {"type": "array"}, {"type": "object", "required": "n"}, {"$ref": "http://absent.test/"}],
)
async def test_a_tool_with_a_bad_schema_harms_no_other(parameters):
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
    async with talking(tools=[Plain(name)]) as session:
        (tool,) = session.tools
        assert re.fullmatch("[A-Za-z0-9_-]{1,64}", tool.name)
        assert tool.capability == f"app:tools:tool/{name}"


async def test_a_tool_object_gets_checked_arguments_and_fails_if_it_forgets_to_be_async():
    async def echo(arguments):
        return {"got": arguments["n"]}

    parameters = {"type": "object", "properties": {"n": {"type": "integer", "default": 7}}}
    given = Plain("given", echo, parameters=parameters, effects=())
    forgets = Plain("forgets", lambda _: "now", effects=())
    async with talking((call("given"), call("forgets")), "x", tools=[given, forgets]) as session:
        await session.say("go")

        assert results(session.history)[0] == '{"got":7}'
        assert results(session.history)[1].startswith("Error: 'forgets' failed: TypeError")


@pytest.mark.parametrize(
    ("choices", "chosen"),
    [
        ((), {}),
        (("search",), {"search": "acme:tool/search"}),
        *((choice, {"search": "acme:tool/search", "run": "acme:tool/run"})
          for choice in (("*",), ("acme",), ("acme-tools",), ("search", "acme", "*", "search"))),
    ],
)  # fmt: skip
async def test_installed_tools_are_offered_only_to_sessions_that_choose_them(site, choices, chosen):
    installed(site, "acme")
    async with host_with(site) as host:
        assert await names(host, *choices) == chosen


@pytest.mark.parametrize(
    ("own", "aliases", "named"),
    [
        ((), {}, {"acme_search": "acme:tool/search", "other_search": "other:tool/search"}),
        ((), {"tool/search": "other"}, {"acme_search": "acme:tool/search", "search": "other:tool/search"}),
        ((Plain("search"),), {}, {"search": "app:tools:tool/search", "acme_search": "acme:tool/search",
                                  "other_search": "other:tool/search"}),
    ],
    ids=["qualified", "alias of the operator", "one in code"],
)  # fmt: skip
async def test_tools_of_one_name_get_qualified_names_unless_one_is_preferred(site, own, aliases, named):
    installed(site, "acme", "search")
    installed(site, "other", "search")
    async with host_with(site, config=HostSettings(aliases=aliases)) as host:
        assert await names(host, *own, "*") == named


async def test_a_name_that_two_plugins_claim_chooses_neither_and_a_full_id_one(site):
    installed(site, "acme")
    installed(site, "other")
    async with host_with(site, call("search", query="tea"), "x") as host:
        with pytest.raises(ConfigError, match="'search' means acme:tool/search and other:tool/search"):
            await host.session(tools=["search"])
        session = await host.session(tools=["other:tool/search"])
        await session.say("go")

        assert results(session.history) == ["other found tea"]


@pytest.mark.parametrize(
    ("choice", "plugins", "says"),
    [
        ("serch", ["acme"], "there is no tool 'serch'; did you mean 'search'"),
        ("zzz", ["acme"], "there is no tool 'zzz'; installed: acme-tools, run, search"),
        ("search", [], "there is no tool 'search'; none is installed"),
    ],
)
async def test_an_unknown_tool_is_named_with_the_nearest_one(site, choice, plugins, says):
    for name in plugins:
        installed(site, name)
    async with host_with(site) as host:
        with pytest.raises(ConfigError, match=says):
            await host.session(tools=[choice])


@pytest.mark.parametrize(
    ("effects", "judged"),
    [
        ({}, {"search": ("allow", frozenset()), "run": ("ask", frozenset({"shell"}))}),
        (
            {"acme:tool/run": (), "acme:tool/search": ("network_write",)},
            {"search": ("ask", frozenset({"network_write"})), "run": ("allow", frozenset())},
        ),
    ],
    ids=["the plugin's", "the operator's"],
)
async def test_installed_tools_are_judged_by_their_effects_and_first_by_the_operators(site, effects, judged):
    installed(site, "acme")
    config = HostSettings(effects=effects)
    async with host_with(site, config=config) as host, await host.session(tools=["acme"]) as session:
        assert {tool.name: (tool.default, tool.effects) for tool in session.tools} == judged


@pytest.mark.parametrize(
    ("tool", "effects", "says"),
    [
        ("acme:tool/serch", ("network_read",), "did you mean 'acme:tool/search'"),
        ("acme:tool/search", ("network",), "there is no effect 'network'"),
    ],
)
async def test_effects_of_a_tool_or_effects_that_are_not_there_are_an_error(site, tool, effects, says):
    installed(site, "acme")
    with pytest.raises(ConfigError, match=says):
        async with host_with(site, config=HostSettings(effects={tool: effects})) as host:
            await host.session(tools=["*"])


class Undeclared(Named):
    """A tool that does not declare its effects."""

    def __init__(self, name):
        super().__init__(name)
        self.spec = ToolSpec(name, "fine")


async def test_what_a_source_brings_was_not_written_by_the_application_that_gives_the_source():
    brought, own = Undeclared("brought"), Undeclared("own")
    async with talking(plugins=[Brings(Listed(brought))], tools=[own]) as session:
        first = await session.call_tool("brought", {})
        second = await session.call_tool("own", {})

    assert (first.is_error, brought.calls) == (True, 0)
    assert "approval" in str(first.for_model)
    assert (second.is_error, own.calls) == (False, 1)
