"""Installed hook plugins: active from the beginning, or the host does not open."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from fake_distributions import POLICY_THAT_FAILS_TO_OPEN, SITE_POLICY, TOOLS, Living, Site, importable, states
from pluggent_hookspecs import ConfigError, PluginLoadError
from pluggent_host import Host
from pluggent_host.plugins.discovery import discover
from pluggent_host.settings import Grants, HostSettings, Selection
from pluggent_testing.fakes import call
from policy_stage import Danger, stage


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with importable(tmp_path):
        yield Site(tmp_path)


async def test_an_installed_policy_is_active_from_the_beginning(site: Site) -> None:
    site.add("acme-guard", "hooks/guard", SITE_POLICY)
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
    site.add("acme-guard", "hooks/guard", SITE_POLICY)

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
    site.add("acme-guard", "hooks/guard", SITE_POLICY)

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
    site.add("acme-guard", "hooks/guard", SITE_POLICY)
    site.add("acme-tools", "tools/tools", TOOLS)

    with pytest.raises((ConfigError, PluginLoadError), match="acme-guard"):
        async with stage(installed=site.found(), config=HostSettings(selection=selection)):
            pass


async def test_a_hook_plugin_that_the_operator_blocked_is_left_out(site: Site) -> None:
    site.add("acme-guard", "hooks/guard", SITE_POLICY)
    config = HostSettings(selection=Selection(block=("acme-guard",)))

    async with stage(installed=site.found(), config=config) as on:
        assert states(on) == {"acme-guard": "blocked"}


async def test_an_incompatible_hook_plugin_refuses_to_open_the_host(site: Site) -> None:
    site.add("acme-guard", "hooks/guard", SITE_POLICY, requires=("pluggent-hookspecs>=7",))

    with pytest.raises(PluginLoadError, match=r"acme-guard.*incompatible"):
        async with stage(installed=site.found()):
            pass


async def test_one_distribution_with_hooks_in_two_places_refuses_to_open_the_host(tmp_path: Path) -> None:
    """Rules 14 and 27."""
    folders = [tmp_path / "one", tmp_path / "two"]
    for folder in folders:
        Site(folder).add("acme-guard", "hooks/guard", SITE_POLICY)

    with importable(*folders), pytest.raises(ConfigError, match="acme-guard"):
        async with stage(installed=discover([str(folder) for folder in folders])):
            pass


async def test_a_hook_package_that_was_not_accepted_refuses_to_open_the_host(site: Site) -> None:
    site.add("acme-guard", "hooks/guard", SITE_POLICY)

    with pytest.raises(ConfigError, match="acme-guard"):
        async with Host.open(installed=site.found(), acknowledged=lambda _: False):
            pass
