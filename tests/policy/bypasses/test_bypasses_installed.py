"""Attempts to get round a policy by installed plugins and from another host."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from bypassing import both_orders, every_way, policy
from fake_distributions import importable, install
from pluggent_hookspecs import Deny, PluginLoadError, hookimpl
from pluggent_host.plugins.discovery import Discovery, discover
from pluggent_host.settings import Grants, HostSettings
from pluggent_testing.fakes import call
from policy_stage import Danger, reach, results, stage

# ---- installed plugins


HEADER = "import asyncio\nfrom pluggent_hookspecs import Allow, Ask, Deny, Respond, ToolOutput, hookimpl\n"


def source(body: str, hook: str = "decide_tool_call") -> str:
    parameters = "event, call_next" if hook.startswith("around") else "event"
    start = "async def" if hook.startswith("around") or "await" in body else "def"
    return f"{HEADER}class Plugin:\n    @hookimpl\n    {start} {hook}(self, {parameters}):\n        {body}\n"


class Site:
    """A folder of installed distributions."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def add(self, name: str, text: str) -> None:
        module = name.replace("-", "_")
        install(self.folder, name, {f"hooks/{name}": f"{module}:Plugin"}, modules={module: text})

    def found(self) -> Discovery:
        return discover([str(self.folder)])


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with importable(tmp_path):
        yield Site(tmp_path)


installed_orders = pytest.mark.parametrize("names", [("aaa", "zzz"), ("zzz", "aaa")], ids=["first", "last"])
FORMS = {"sync": "return {}", "async": "await asyncio.sleep(0); return {}"}
both_sources = pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)


@installed_orders
@both_sources
@every_way
async def test_the_deny_of_an_installed_policy_wins(site: Site, names: tuple[str, str], form: str, way: str) -> None:
    site.add(names[0], source(form.format("Deny('installed no') if event.tool.name == 'danger' else None")))
    site.add(names[1], source(form.format("Allow()")))

    seen = await reach(way, installed=site.found())

    assert seen.ran == ()
    assert "Denied: installed no" in seen.told


@installed_orders
@both_sources
async def test_an_installed_plugin_answers_only_with_the_operators_grant(
    site: Site, names: tuple[str, str], form: str
) -> None:
    site.add(names[0], source(form.format("Respond('cached')")))
    site.add(names[1], source(form.format("None")))
    granted = HostSettings(grants=Grants(may_respond=(names[0],)))

    without = await reach("say", installed=site.found())
    with_grant = await reach("say", installed=site.found(), config=granted)

    assert (without.ran, with_grant.ran) == ((), ())
    assert without.told == ("Denied: a policy failed, so this was not done",)
    assert with_grant.told == ("cached",)
    assert any("may_respond" in vote.reason for vote in without.votes)


@installed_orders
async def test_an_installed_around_answers_only_with_the_operators_grant(site: Site, names: tuple[str, str]) -> None:
    site.add(names[0], source("return ToolOutput('mine')", "around_tool_call"))
    site.add(names[1], source("return await call_next()", "around_tool_call"))
    granted = HostSettings(grants=Grants(may_respond=(names[0],)))

    without = await reach("say", installed=site.found())
    with_grant = await reach("say", installed=site.found(), config=granted)

    assert (without.ran, with_grant.ran) == ((), ())
    assert "may_respond" in without.told[0]
    assert with_grant.told == ("mine",)


@installed_orders
async def test_only_a_listed_retrier_calls_twice(site: Site, names: tuple[str, str]) -> None:
    site.add(names[0], source("await call_next(); return await call_next()", "around_tool_call"))
    site.add(names[1], source("return await call_next()", "around_tool_call"))
    granted = HostSettings(grants=Grants(retriers=(names[0],)))

    without = await reach("say", installed=site.found())
    with_grant = await reach("say", installed=site.found(), config=granted)

    assert without.ran == ("x",)
    assert "retriers" in without.told[0]
    assert with_grant.ran == ("x", "x")


@installed_orders
async def test_calling_next_twice_at_the_same_time_runs_the_call_once(site: Site, names: tuple[str, str]) -> None:
    body = "return (await asyncio.gather(call_next(), call_next(), return_exceptions=True))[0]"
    site.add(names[0], source(body, "around_tool_call"))
    site.add(names[1], source("return await call_next()", "around_tool_call"))

    seen = await reach("say", installed=site.found())

    assert seen.ran == ("x",)


@installed_orders
async def test_the_allow_of_an_installed_plugin_lifts_nothing_without_a_grant(
    site: Site, names: tuple[str, str]
) -> None:
    site.add(names[0], source("return Allow()"))
    site.add(names[1], source("return None"))
    asks = HostSettings(effects={"app:tools:tool/danger": ("shell",)})

    without = await reach("say", installed=site.found(), config=asks)
    with_grant = await reach("say", installed=site.found(), config=asks._replace(grants=Grants(may_allow=(names[0],))))

    assert without.ran == ()
    assert with_grant.ran == ("x",)


@installed_orders
async def test_only_listed_approvers_are_asked(site: Site, names: tuple[str, str]) -> None:
    site.add(names[0], source("return True", "resolve_approval"))
    site.add(names[1], source("return None"))
    asks = HostSettings(effects={"app:tools:tool/danger": ("shell",)})

    without = await reach("say", installed=site.found(), config=asks)
    with_grant = await reach("say", installed=site.found(), config=asks._replace(grants=Grants(approvers=(names[0],))))

    assert without.ran == ()
    assert with_grant.ran == ("x",)


@installed_orders
@both_sources
async def test_an_installed_rewriter_does_not_get_past_an_installed_policy(
    site: Site, names: tuple[str, str], form: str
) -> None:
    site.add(names[0], source(form.format("{**event.arguments, 'path': 'evil'}"), "transform_tool_call"))
    site.add(names[1], source(form.format("Deny('evil') if event.arguments['path'] == 'evil' else None")))

    seen = await reach("say", installed=site.found())

    assert seen.ran == ()
    assert seen.told == ("Denied: evil",)


@installed_orders
@pytest.mark.parametrize(
    "text",
    [
        source("return None").replace("decide_tool_call", "decide_tool_cal"),
        source("return None").replace("    @hookimpl\n", ""),
        "import no_such_module_anywhere\n",
        "raise SystemExit(0)\n",
        f"{HEADER}class Plugin:\n    def __init__(self): raise ValueError('no')\n",
        f"{HEADER}class Plugin: pass\n",
    ],
    ids=["misspelt", "unmarked", "missing-module", "exits", "raises", "no-hooks"],
)
async def test_a_broken_installed_policy_refuses_to_open_the_host(
    site: Site, names: tuple[str, str], text: str
) -> None:
    site.add(names[0], text)
    site.add(names[1], source("return None"))

    with pytest.raises(PluginLoadError, match=names[0]):
        await reach("say", installed=site.found())


@pytest.mark.parametrize("folders", [("one", "two"), ("two", "one")])
async def test_the_order_of_folders_on_the_path_changes_nothing(tmp_path: Path, folders: tuple[str, str]) -> None:
    Site(tmp_path / "one").add("acme-deny", source("return Deny('acme no')"))
    Site(tmp_path / "two").add("beta-cache", source("return Respond('cached')"))
    paths = [tmp_path / folder for folder in folders]

    with importable(*paths):
        seen = await reach(
            "say",
            installed=discover([str(path) for path in paths]),
            config=HostSettings(grants=Grants(may_respond=("beta-cache",))),
        )

    assert seen.ran == ()
    assert seen.told == ("Denied: acme no",)


# ---- two hosts


@both_orders
async def test_two_hosts_share_no_policy(turned: bool) -> None:
    strict, free = Danger(), Danger()
    deny = policy(lambda: Deny("no"))
    first = stage(
        call("danger", path="x"), plugins=[deny] if not turned else [], tools=(free if turned else strict).tools()
    )
    async with first as a:
        second = stage(
            call("danger", path="x"), plugins=[deny] if turned else [], tools=(strict if turned else free).tools()
        )
        async with second as b:
            await asyncio.gather(a.session.say("go"), b.session.say("go"))

    assert strict.ran == []
    assert free.ran == ["x"]


async def test_one_policy_object_serves_two_hosts_and_closing_one_leaves_it_in_the_other() -> None:
    danger, deny = Danger(), policy(lambda: Deny("no"))

    async with stage(call("danger", path="x"), plugins=[deny], tools=danger.tools()) as on:
        async with stage(plugins=[deny]):
            pass
        await on.session.say("go")

    assert danger.ran == []


async def test_a_second_session_of_a_host_has_the_same_policies() -> None:
    danger = Danger()
    plugins = [policy(lambda: Deny("no"))]

    async with stage(call("danger", path="x"), plugins=plugins, tools=danger.tools()) as on:
        other = await on.host.session(tools=danger.tools(), origin="sub-agent", principal="somebody else")
        await other.say("go")

    assert danger.ran == []
    assert results(other.history) == ["Denied: no"]


async def test_every_call_of_a_batch_is_decided() -> None:
    danger = Danger(effects=())
    asked: list[str] = []

    class Policy:
        @hookimpl
        async def decide_tool_call(self, event):
            await asyncio.sleep(0)
            asked.append(event.arguments["path"])
            return Deny("odd") if int(event.arguments["path"]) % 2 else None

    calls = tuple(call("danger", f"c{number}", path=str(number)) for number in range(6))
    async with stage(calls, plugins=[Policy()], tools=danger.tools()) as on:
        await on.session.say("go")

    assert asked == ["0", "1", "2", "3", "4", "5"]
    assert danger.ran == ["0", "2", "4"]
    assert results(on.session.history) == ["did 0", "Denied: odd", "did 2", "Denied: odd", "did 4", "Denied: odd"]
