"""What the plugins of every wire share: their settings, their providers, what they import and when."""

import subprocess
import sys
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any, cast

import pytest
from pluggent_hookspecs import HOOKS, PluginContext, ProvideEvent, Provider, Secret

WIRES = {
    "openai": ("OpenAI", "https://api.openai.com/v1"),
    "anthropic": ("Anthropic", "https://api.anthropic.com"),
}
LENT = cast("PluginContext", None)
A, B = "http://127.0.0.1:1/v1", "http://127.0.0.1:2/v1"


@pytest.fixture(params=WIRES)
def wire(request):
    return request.param


@pytest.fixture
def plugin(wire) -> Any:
    return getattr(import_module(f"pluggent_{wire}.plugin"), WIRES[wire][0])


@pytest.fixture
def server(wire) -> Any:
    return import_module(f"pluggent_{wire}.settings").Server


def targets(plugin) -> dict[str, str]:
    return {provider.name: provider.target for provider in plugin.provide_providers(ProvideEvent())}


def test_the_base_url_is_the_vendors_or_that_of_the_environment_or_of_the_settings(wire, plugin, monkeypatch):
    variable = f"{wire.upper()}_BASE_URL"
    monkeypatch.delenv(variable, raising=False)
    assert targets(plugin()) == {wire: WIRES[wire][1]}

    monkeypatch.setenv(variable, A)
    assert targets(plugin()) == {wire: A}
    assert targets(plugin(plugin.Settings(base_url=B))) == {wire: B}


def test_every_server_is_a_provider_of_its_own_name(wire, plugin, server):
    settings = plugin.Settings(base_url=A, servers={"local": server(base_url=f"{B}/?token=hush")})

    assert targets(plugin(settings)) == {wire: A, "local": B}


def test_providers_keep_the_contract_and_no_helper_is_named_like_a_hook(plugin):
    made = plugin()
    (provider,) = made.provide_providers(ProvideEvent())

    assert isinstance(provider, Provider)
    assert [name for name in dir(made) if name in HOOKS] == ["provide_providers"]
    assert not [name for name in dir(provider) if name in HOOKS]


def test_the_entry_point_is_the_class(wire, plugin):
    (entry,) = entry_points(group="pluggent.providers", name=wire)

    assert entry.value == f"pluggent_{wire}.plugin:{plugin.__name__}"
    assert plugin.Settings is import_module(f"pluggent_{wire}.settings").Settings


@pytest.mark.parametrize("name", ["", "a/b", None])
def test_a_server_needs_a_usable_name(wire, plugin, server, name):
    with pytest.raises(ValueError, match="servers"):
        plugin.Settings(servers={wire if name is None else name: server(base_url="http://x")})


def test_settings_show_neither_key_nor_headers(plugin):
    shown = repr(plugin.Settings(api_key=Secret.of("sk-1"), headers={"x-token": "hush"}))

    assert "sk-1" not in shown
    assert "hush" not in shown


async def test_a_plugin_that_was_never_asked_opens_and_closes_and_can_be_opened_again(wire, plugin):
    made = plugin()
    async with made.open(LENT):
        pass
    async with made.open(LENT):
        names = [*targets(made)]

    assert names == [wire]


@pytest.mark.parametrize(("wire", "early"), [("openai", ""), ("anthropic", "asyncio")])
def test_http_is_imported_with_the_first_request_only(wire, early):
    program = (
        f"import sys; from pluggent_{wire}.plugin import {WIRES[wire][0]} as Plugin; plugin = Plugin();"
        f"loaded = sorted({{'msgspec', 'httpx2', {early!r}}} & set(sys.modules));"
        "plugin.provide_providers(None); print(loaded, 'httpx2' in sys.modules)"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)  # noqa: S603

    assert found.stdout.strip() == "[] False"
