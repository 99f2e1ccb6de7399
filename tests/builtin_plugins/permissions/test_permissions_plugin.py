"""The plugin in a host: names are resolved when it opens, and every kind of operation is decided."""

from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest
from budgets import Lent
from fake_distributions import SITE_HEADER, Site, importable
from permitting import ID, call, rule, settings
from pluggent_hookspecs import (
    ApprovalEvent,
    ConfigError,
    Denied,
    Deny,
    HookError,
    MemoryItem,
    MemoryQuery,
    PluginContext,
    PluginLoadError,
    tool,
)
from pluggent_host import Host
from pluggent_host.settings import Grants, HostSettings
from pluggent_permissions.plugin import LONG, Permissions
from pluggent_plugin_loader.discovery import Discovery, discover
from pluggent_plugin_loader.settings import Selection
from pluggent_testing.fakes import ScriptedEmbedder, call as model_calls
from policy_stage import Stage, stage

TOOLS = SITE_HEADER + """
@tool(effects=("network_read",))
async def search(text: str) -> str:
    "Search."
    return f"found {text}"

@tool(effects=("shell",))
async def run(command: str) -> str:
    "Run."
    return f"ran {command}"

class Plugin:
    @hookimpl
    def provide_tools(self, event):
        return [search, run]
"""  # fmt: skip


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with importable(tmp_path):
        made = Site(tmp_path)
        made.add("acme-tools", "tools/acme", TOOLS)
        yield made


def installed(site: Site) -> Discovery:
    """Return what *site* has, with the permissions plugin and the memory of this environment."""
    here = discover()
    ours = tuple(item for item in here.distributions if item.name in (ID, "pluggent-memory-inmemory"))
    found = site.found()
    return found._replace(distributions=(*found.distributions, *ours), first_party=here.first_party)


@asynccontextmanager
async def on_stage(site: Site, section: Mapping[str, Any], *replies: Any, **more: Any) -> AsyncGenerator[Stage, None]:
    grants = more.pop("grants", Grants())
    config = HostSettings(plugins={ID: section}, grants=grants)
    async with stage(*replies, config=config, installed=installed(site), tools=["*"], **more) as on:
        yield on


# ---- opening


@pytest.mark.parametrize(
    ("pattern", "problem"),
    [
        ("serch", "'serch' matches no tool; did you mean 'search'?"),
        ("acme-tools:tool/serch", "matches no tool"),
        ("acme-tool:*", "matches no tool"),
        ("*mail*", "matches no tool"),
    ],
)
@pytest.mark.parametrize("side", ["when", "unless"])
async def test_a_rule_that_names_no_tool_keeps_the_host_from_opening(site: Site, side: str, pattern: str, problem: str):
    written = {"id": "typo", "decision": "deny", "when": {"effects": "shell"}} | {side: {"tool": pattern}}

    with pytest.raises(ConfigError) as caught:
        async with on_stage(site, {"rules": [written]}):
            pass

    assert problem in str(caught.value)
    assert "rule 'typo'" in str(caught.value)


async def test_a_short_name_of_two_tools_means_neither(site: Site):
    site.add("other-tools", "tools/other", TOOLS)

    with pytest.raises(ConfigError, match="means acme-tools:tool/search and other-tools:tool/search"):
        async with on_stage(site, {"rules": [rule("r", "deny", when={"tool": "search"})]}):
            pass


async def test_a_policy_for_many_machines_may_name_tools_that_are_not_there(site: Site):
    names = ["other-tools:tool/gone", "other-*", "acme-tools:tool/search"]
    section = {"rules": [rule("r", "deny", when={"tool": names}, tools_may_be_missing=True)]}

    async with on_stage(site, section, model_calls("search", text="x")) as on:
        await on.session.say("go")

        assert on.read_by_model() == ["Denied: this is not allowed here"]


@pytest.mark.parametrize("pattern", ["search", "acme-tools:tool/search", "acme-*:*", "se*"])
async def test_installed_tools_are_named_in_every_way(site: Site, pattern: str):
    section = {"rules": [rule("r", "deny", when={"tool": pattern}, tell_model="no")]}

    async with on_stage(site, section, model_calls("search", text="x")) as on:
        await on.session.say("go")

        assert on.read_by_model() == ["Denied: no"]


async def test_tools_of_application_code_are_named_by_id(site: Site):
    @tool(effects=())
    def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    section = {"rules": [rule("r", "deny", when={"tool": "app:tools:tool/add"}, tell_model="no sums")]}
    config = HostSettings(plugins={ID: section})
    async with stage(model_calls("add", a=1, b=2), config=config, installed=installed(site), tools=[add]) as on:
        await on.session.say("go")

        assert on.read_by_model() == ["Denied: no sums"]


async def test_outside_of_its_lifetime_it_raises_which_denies():
    plugin = Permissions(settings({"rules": [rule("r", "allow")]}))

    for _ in range(2):
        with pytest.raises(HookError, match="not open"):
            plugin.decide_tool_call(call())

        async with plugin.open(cast("PluginContext", object())):  # no rule names a tool, so nothing is asked
            assert plugin.decide_tool_call(call()) is not None


async def test_bad_settings_keep_the_host_from_opening(site: Site):
    with pytest.raises(ConfigError, match=r"plugins\.pluggent-permissions\.rules\[0\]\.when\.tol: unknown"):
        async with on_stage(site, {"rules": [rule("r", "deny", when={"tol": "x"})]}):
            pass


async def test_safe_mode_keeps_the_policy(site: Site):
    section = {"rules": [rule("r", "deny", when={"tool": "app:tools:tool/add"})]}
    config = HostSettings(plugins={ID: section}, selection=Selection(mode="safe"))

    def add(a: int, b: int) -> int:
        return a + b

    async with stage(model_calls("add", a=1, b=2), config=config, installed=installed(site), tools=[add]) as on:
        await on.session.say("go")

        assert on.read_by_model() == ["Denied: this is not allowed here"]


# ---- deciding


@pytest.mark.parametrize(
    ("command", "grants", "ran"),
    [
        ("ls", Grants(), False),
        ("ls", Grants(may_allow=(ID,)), True),
        ("ls; id", Grants(may_allow=(ID,)), False),
    ],
)
async def test_an_allow_lifts_the_hosts_own_question_only_with_the_grant(
    site: Site, command: str, grants: Grants, ran: bool
):
    section = {"rules": [rule("r", "allow", when={"arguments": {"command": {"equals": "ls"}}})]}

    async with on_stage(site, section, model_calls("run", command=command), grants=grants) as on:
        await on.session.say("go")

        assert on.decisions("tool_call")[-1].verdict == ("allow" if ran else "ask")
        assert on.read_by_model() == (["ran ls"] if ran else [])


async def test_an_ask_is_put_to_a_person_with_its_reason(site: Site):
    asked: list[tuple[tuple[str, str], ...]] = []

    def approve(event: ApprovalEvent) -> bool:
        asked.append(event.asks)
        return True

    section = {"rules": [rule("care", "ask", when={"tool": "search"}, tell_user="really search?")]}
    async with on_stage(site, section, model_calls("search", text="x"), approver=approve) as on:
        await on.session.say("go")

        assert on.read_by_model() == ["found x"]
    assert asked == [((ID, "really search? (rule 'care')"),)]


async def test_a_denial_is_recorded_with_the_rule_and_may_end_the_turn(site: Site):
    section = {"rules": [rule("never", "deny", when={"tool": "search"}, ends_turn=True)]}

    async with on_stage(site, section, model_calls("search", text="x"), "not reached") as on:
        result = await on.session.say("go")

        made = on.decisions("tool_call")[-1]
        assert (made.verdict, made.by) == ("deny", ID)
        assert made.reason == "acme-tools:tool/search is denied (rule 'never')"
        assert result.text != "not reached"


@pytest.mark.parametrize(
    ("when", "denied"),
    [
        ({"model": "scripted/*"}, True),
        ({"model": "SCRIPTED/M"}, True),
        ({"model": "openai/*"}, False),
        ({"provider": "scripted"}, True),
        ({"provider": "app:scriptedmodel:provider/scripted"}, True),
        ({"provider": "pluggent-openai:*"}, False),
        ({"model": "scripted/m", "principal": "eve"}, True),
        ({"model": "scripted/m", "principal": "bob"}, False),
        ({"target": {"host": "evil.example"}}, True),  # "scripted:" is not a URL: unknown
    ],
)
async def test_models_are_refused_by_name_provider_place_and_person(site: Site, when: Any, denied: bool):
    section = {"rules": [rule("m", "deny", on="model_request", when=when, tell_user="not this model")]}

    async with on_stage(site, section, "hello", principal="eve") as on:
        result = await on.session.say("hi")

        assert (result.why == "denied") is denied
        assert (len(on.model.requests) == 0) is denied


@pytest.mark.parametrize(
    ("when", "denied"),
    [
        ({"model": "scripted/m"}, True),
        ({"model": "openai/*"}, False),
        ({"provider": "scripted"}, True),
        ({"provider": "app:scriptedembedder:embedder/scripted"}, True),
        ({"principal": "eve"}, True),
        ({"principal": "bob"}, False),
    ],
)
async def test_embeddings_are_refused_by_model_embedder_and_person(when: Any, denied: bool):
    policy = Permissions(settings({"rules": [rule("e", "deny", on="embedding", when=when)]}))
    embedder = ScriptedEmbedder()

    async with Host.open(plugins=[policy, embedder], installed=False) as host:
        if denied:
            with pytest.raises(Denied, match="rule 'e'"):
                await host.embed("scripted/m", ["text"], principal="eve")
        else:
            await host.embed("scripted/m", ["text"], principal="eve")

    assert len(embedder.requests) == (0 if denied else 1)


async def test_a_default_denies_embeddings_that_no_rule_allows():
    allow = rule("ours", "allow", on="embedding", when={"model": "scripted/ours"})
    policy = Permissions(settings({"defaults": {"embedding": "deny"}, "rules": [allow]}))

    async with Host.open(plugins=[policy, ScriptedEmbedder()], installed=False) as host:
        await host.embed("scripted/ours", ["text"])
        with pytest.raises(Denied, match="default for embedding"):
            await host.embed("scripted/theirs", ["text"])


async def test_only_listed_models_may_be_asked(site: Site):
    allow = rule("ours", "allow", on="model_request", when={"model": ["scripted/m"]})
    section = {"defaults": {"model_request": "deny"}, "rules": [allow]}

    async with on_stage(site, section, "hello") as on:
        assert (await on.session.say("hi")).text == "hello"
    async with on_stage(site, section | {"rules": []}, "hello") as on:
        assert (await on.session.say("hi")).why == "denied"


async def test_a_provider_called_by_the_id_of_its_plugin_does_not_get_round_a_rule():
    for model in ("offline/demo", "pluggent-offline/demo"):
        for when in (
            {"model": "offline/*"},
            {"provider": "offline"},
            {"provider": "pluggent-offline:provider/offline"},
        ):
            section = {"rules": [rule("m", "deny", on="model_request", when=when)]}
            async with Host.open(model=model, settings={ID: section}) as host, await host.session() as session:
                assert (await session.say("hi")).why == "denied"


OWN = {
    "defaults": {"memory_read": "deny", "memory_write": "deny"},
    "rules": [
        rule(
            "own", "allow", on=["memory_read", "memory_write"],
            when={"namespace": ["{principal}", "{principal}:*", "shared"]},
        ),
        rule("shared", "deny", on="memory_write", when={"namespace": "shared"}),
        rule("keys", "deny", on=["memory_read", "memory_write"], when={"key": "secret-*"}),
    ],
}  # fmt: skip


@pytest.mark.parametrize(
    ("principal", "namespace", "key", "reads", "writes"),
    [
        ("bob", "bob", "k", True, True),
        ("bob", "bob:notes", "k", True, True),
        ("bob", "bobby", "k", False, False),
        ("bob", "eve", "k", False, False),
        ("bob", "shared", "k", True, False),
        ("bob", "bob", "secret-1", False, False),
        ("bob", "bob", "SECRET-1", False, False),
        ("bob", "b\u200bob", "k", False, False),
        ("*", "eve", "k", False, False),
        ("*", "*", "k", True, True),
        ("[a-z]*", "eve", "k", False, False),
        ("", "eve", "k", False, False),
        ("", "", "k", False, False),
        ("", "shared", "k", True, False),
    ],
)
async def test_memory_is_each_persons_own(
    site: Site, principal: str, namespace: str, key: str, reads: bool, writes: bool
):
    async def allowed(doing: Any) -> bool:
        try:
            await doing
        except Denied:
            return False
        return True

    async with on_stage(site, OWN) as on:
        memory = on.host.memory(principal=principal)
        assert await allowed(memory.get(namespace, key)) is reads
        assert await allowed(memory.save([MemoryItem(namespace, key, "x")])) is writes
        assert await allowed(memory.delete(namespace, key)) is writes
        assert await allowed(memory.save([MemoryItem(namespace, key, "x"), MemoryItem("zoe", "k", "x")])) is False
        # A list or a search may show any key, so what forbids a key forbids them.
        assert await allowed(memory.list(MemoryQuery(namespace))) is False
        assert await allowed(memory.search(namespace, "x")) is False


async def test_a_host_without_settings_has_no_opinion(site: Site):
    async with on_stage(site, {}, model_calls("search", text="x")) as on:
        await on.session.say("go")

        assert on.read_by_model() == ["found x"]
        assert [vote.verdict for made in on.decisions() for vote in made.votes if vote.plugin == ID] == ["none"] * 3


async def test_it_refuses_like_every_policy_when_it_cannot_be_made(site: Site):
    site.add("broken-hooks", "hooks/broken", "raise ImportError('gone')")

    with pytest.raises(PluginLoadError):
        async with on_stage(site, {}):
            pass


async def test_long_arguments_are_looked_into_beside_the_event_loop():
    plugin = Permissions(settings({"rules": [rule("r", "deny", when={"arguments": {"**": {"glob": "*forbidden*"}}})]}))

    async with plugin.open(Lent()):
        short, long = (plugin.decide_tool_call(call(text="a" * size + "FORBIDDEN")) for size in (10, LONG))

        assert isinstance(short, Deny)
        assert not isinstance(long, Deny)
        assert isinstance(await long, Deny)  # type: ignore[misc] # an awaitable
