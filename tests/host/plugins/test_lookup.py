"""Which plugin a name means when several would like to bear it."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from fake_distributions import importable, install
from pluggent_hookspecs import NameTaken, PluggentError
from pluggent_host import Host, HostSettings, Selection
from pluggent_plugin_loader.discovery import discover

PROVIDER = """
import attrs
from pluggent_hookspecs import hookimpl
from pluggent_testing.fakes import ScriptedModel

class Named(ScriptedModel):
    name = "NAME"

class Plugin:
    @attrs.frozen
    class Settings:
        region: str = ""

    def __init__(self, settings):
        pass

    @hookimpl
    def provide_providers(self, event):
        return [Named("from PLUGIN")]
"""


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Path]:
    with importable(tmp_path):
        yield tmp_path


def provider(site: Path, plugin: str, offered: str, *, entry: str) -> None:
    module = plugin.replace("-", "_")
    source = PROVIDER.replace("NAME", offered).replace("PLUGIN", plugin)
    install(site, plugin, {f"providers/{entry}": f"{module}:Plugin"}, modules={module: source})


async def answer(site: Path, model: str, *with_settings: str, block: tuple[str, ...] = ()) -> str:
    config = HostSettings(selection=Selection(block=block), plugins={id: {} for id in with_settings})
    opening = Host.open(model=model, config=config, installed=discover([str(site)]))
    async with opening as host, await host.session() as session:
        return (await session.say("hi")).text


async def test_a_plugin_with_settings_may_provide_more_names_than_its_entry_point(site: Path) -> None:
    provider(site, "acme-models", "elsewhere", entry="acme")

    assert await answer(site, "elsewhere/m", "acme-models") == "from acme-models"


async def test_a_name_that_is_left_out_is_not_taken_over(site: Path) -> None:
    provider(site, "acme-models", "openai", entry="acme")
    provider(site, "pluggent-openai", "openai", entry="openai")

    with pytest.raises(PluggentError, match="blocked"):
        await answer(site, "openai/m", "acme-models", block=("pluggent-openai",))


async def test_two_that_offer_one_name_make_it_unusable(site: Path) -> None:
    provider(site, "acme-models", "elsewhere", entry="acme")
    provider(site, "other-models", "elsewhere", entry="other")

    with pytest.raises(NameTaken, match="acme-models and other-models"):
        await answer(site, "elsewhere/m", "acme-models", "other-models")
