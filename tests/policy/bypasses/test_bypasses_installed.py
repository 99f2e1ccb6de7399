"""Attempts to get round a policy by installed plugins and from another host."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from each_of import each_of
from fake_distributions import importable, install
from pluggent_hookspecs import Deny, PluginLoadError
from pluggent_host.settings import Grants, HostSettings
from pluggent_plugin_loader.discovery import discover
from pluggent_testing.fakes import call
from policy_rules import ASKS, both_orders, on_danger
from policy_stage import Danger, Seen, reach, results, stage

# ---- installed plugins

HEADER = "import asyncio\nfrom pluggent_hookspecs import Allow, Ask, Deny, Respond, ToolOutput, hookimpl\n"
FORMS = ("return {}", "await asyncio.sleep(0); return {}")


def source(body: str, hook: str = "decide_tool_call") -> str:
    parameters = "event, call_next" if hook.startswith("around") else "event"
    start = "async def" if hook.startswith("around") or "await" in body else "def"
    return f"{HEADER}class Plugin:\n    @hookimpl\n    {start} {hook}(self, {parameters}):\n        {body}\n"


SILENT, PASSES = source("return None"), source("return await call_next()", "around_tool_call")
NOTHING_SET = HostSettings()
Site = Callable[..., Awaitable[list[Seen]]]


def add(folder: Path, name: str, text: str) -> None:
    """Install a distribution called *name* in *folder*."""
    install(folder, name, {f"hooks/{name}": f"{name}_x:Plugin"}, modules={f"{name}_x": text})


@pytest.fixture
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    """Return what reaches for ``danger`` with two installed plugins, before and after each other by name."""

    async def reached(
        first: str, second: str, grant: str = "", config: HostSettings = NOTHING_SET
    ) -> list[Seen]:  # fmt: skip
        seen: list[Seen] = []
        for name, other in (("aaa", "zzz"), ("zzz", "aaa")):
            folder = tmp_path_factory.mktemp("site")
            add(folder, name, first)
            add(folder, other, second)
            grants = Grants(**{grant: (name,)}) if grant else Grants()
            with importable(folder):
                found = discover([str(folder)])
                seen.append(await reach("say", installed=found, config=config._replace(grants=grants)))
        return seen

    return reached


TWICE = "await call_next(); return await call_next()"
AT_ONCE = "return (await asyncio.gather(call_next(), call_next(), return_exceptions=True))[0]"
RAN, RAN_NOT = ("x",), ()


@each_of(
    ("first", "second", "grant", "config", "without", "granted"),
    [
        *((source(form.format("Respond('cached')")), SILENT, "may_respond", NOTHING_SET,
           (RAN_NOT, "Denied: a policy failed, so this was not done"), (RAN_NOT, "cached")) for form in FORMS),
        (source("return ToolOutput('mine')", "around_tool_call"), PASSES, "may_respond", NOTHING_SET,
         (RAN_NOT, "may_respond"), (RAN_NOT, "mine")),
        (source(TWICE, "around_tool_call"), PASSES, "retriers", NOTHING_SET, (RAN, "retriers"), (("x", "x"), "did")),
        (source(AT_ONCE, "around_tool_call"), PASSES, "retriers", NOTHING_SET, (RAN, ""), (RAN, "")),
        (source("return Allow()"), SILENT, "may_allow", ASKS, (RAN_NOT, ""), (RAN, "did x")),
        (source("return True", "resolve_approval"), SILENT, "approvers", ASKS, (RAN_NOT, ""), (RAN, "did x")),
    ],
)  # fmt: skip
async def test_an_installed_plugin_does_only_what_the_operator_grants(
    site: Site, first: str, second: str, grant: str, config: HostSettings, without: Any, granted: Any
):
    for seen in await site(first, second, config=config):
        assert seen.ran == without[0]
        assert without[1] in seen.told[0]
        assert "Respond('" not in first or any("may_respond" in vote.reason for vote in seen.votes)
    for seen in await site(first, second, grant=grant, config=config):
        assert seen.ran == granted[0]
        assert granted[1] in seen.told[0]


@each_of("form", FORMS)
async def test_an_installed_rewriter_does_not_get_past_an_installed_policy(site: Site, form: str):
    rewrites = source(form.format("{**event.arguments, 'path': 'evil'}"), "transform_tool_call")
    denies = source(form.format("Deny('evil') if event.arguments['path'] == 'evil' else None"))

    assert [(seen.ran, seen.told) for seen in await site(rewrites, denies)] == [((), ("Denied: evil",))] * 2


@pytest.mark.parametrize("name", ["aaa", "zzz"])
@pytest.mark.parametrize(
    "text",
    [
        SILENT.replace("decide_tool_call", "decide_tool_cal"), SILENT.replace("    @hookimpl\n", ""),
        "import no_such_module_anywhere\n", "raise SystemExit(0)\n", f"{HEADER}class Plugin: pass\n",
        f"{HEADER}class Plugin:\n    def __init__(self): raise ValueError('no')\n",
    ],
    ids=["misspelt", "unmarked", "missing-module", "exits", "no-hooks", "raises"],
)  # fmt: skip
async def test_a_broken_installed_policy_refuses_to_open_the_host(name: str, text: str, tmp_path: Path):
    add(tmp_path, name, text)
    add(tmp_path, "mmm", SILENT)

    with importable(tmp_path), pytest.raises(PluginLoadError, match=name):
        await reach("say", installed=discover([str(tmp_path)]))


@pytest.mark.parametrize("folders", [("one", "two"), ("two", "one")])
async def test_the_order_of_folders_on_the_path_changes_nothing(tmp_path: Path, folders: tuple[str, str]):
    add(tmp_path / "one", "acme", source("return Deny('acme no')"))
    add(tmp_path / "two", "beta", source("return Respond('cached')"))
    paths = [tmp_path / folder for folder in folders]

    with importable(*paths):
        config = HostSettings(grants=Grants(may_respond=("beta",)))
        seen = await reach("say", installed=discover([str(path) for path in paths]), config=config)

    assert (seen.ran, seen.told) == ((), ("Denied: acme no",))


# ---- two hosts, two sessions


@both_orders
async def test_two_hosts_share_no_policy(turned: bool):
    dangers = Danger(), Danger()
    deny, go = on_danger(lambda: Deny("no")), call("danger", path="x")

    first, second = (
        stage(go, plugins=[deny] if denied else [], tools=danger.tools())
        for danger, denied in zip(dangers, (not turned, turned), strict=True)
    )
    async with first as a, second as b:
        await asyncio.gather(a.session.say("go"), b.session.say("go"))

    assert [danger.ran for danger in dangers] == ([["x"], []] if turned else [[], ["x"]])


async def test_one_policy_object_serves_two_hosts_and_closing_one_leaves_it_in_the_other():
    danger, deny = Danger(), on_danger(lambda: Deny("no"))

    async with stage(call("danger", path="x"), plugins=[deny], tools=danger.tools()) as on:
        async with stage(plugins=[deny]):
            pass
        await on.session.say("go")

    assert danger.ran == []


async def test_a_second_session_of_a_host_has_the_same_policies():
    danger, deny = Danger(), on_danger(lambda: Deny("no"))

    async with stage(call("danger", path="x"), plugins=[deny], tools=danger.tools()) as on:
        other = await on.host.session(tools=danger.tools(), origin="sub-agent", principal="another")
        await other.say("go")

    assert danger.ran == []
    assert results(other.history) == ["Denied: no"]
