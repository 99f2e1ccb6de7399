"""The plugin: its settings, its providers, what it imports and when."""

import subprocess
import sys
from importlib.metadata import entry_points

import pytest
from anthropic_server import LENT, plugin_at
from pluggent_anthropic.model_traits import Model
from pluggent_anthropic.plugin import Anthropic
from pluggent_anthropic.settings import Server, Settings
from pluggent_hookspecs import HOOKS, ProvideEvent, Provider, Secret
from pluggent_host.plugins.options import settings_for


def targets(plugin: Anthropic) -> dict[str, str]:
    return {provider.name: provider.target for provider in plugin.provide_providers(ProvideEvent())}


def test_without_settings_it_is_anthropic(monkeypatch):
    monkeypatch.delenv("ANTHROPIC_BASE_URL", raising=False)

    assert targets(Anthropic()) == {"anthropic": "https://api.anthropic.com"}


def test_the_environment_may_say_where_the_server_is(monkeypatch):
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "http://127.0.0.1:1")

    assert targets(Anthropic()) == {"anthropic": "http://127.0.0.1:1"}
    assert targets(Anthropic(Settings(base_url="http://127.0.0.1:2"))) == {"anthropic": "http://127.0.0.1:2"}


def test_every_server_is_a_provider_of_its_own_name():
    settings = Settings(
        base_url="http://127.0.0.1:1", servers={"local": Server(base_url="http://127.0.0.1:2/v1/?token=hush")}
    )

    assert targets(Anthropic(settings)) == {"anthropic": "http://127.0.0.1:1", "local": "http://127.0.0.1:2/v1"}


def test_settings_come_from_a_file_as_the_readme_shows_them():
    section = {
        "cache": "1h",
        "betas": ["a-1"],
        "api_key": "env:ANTHROPIC_API_KEY",
        "server_tools": [{"type": "web_search_20250305", "name": "web_search", "max_uses": 3}],
        "models": {"my-*": {"max_tokens": 8000, "thinking": "none"}},
        "servers": {"local": {"base_url": "http://127.0.0.1:8000", "auth": "bearer"}},
    }

    (found,) = settings_for("pluggent-anthropic", Settings, section)

    assert found == Settings(
        cache="1h",
        betas=("a-1",),
        api_key=Secret("env:ANTHROPIC_API_KEY"),
        server_tools=({"type": "web_search_20250305", "name": "web_search", "max_uses": 3},),
        models={"my-*": Model(max_tokens=8000, thinking="none")},
        servers={"local": Server(base_url="http://127.0.0.1:8000", auth="bearer")},
    )


def test_providers_keep_the_contract_and_no_helper_is_named_like_a_hook():
    plugin, provider = plugin_at("http://127.0.0.1:1")

    assert isinstance(provider, Provider)
    assert [name for name in dir(plugin) if name in HOOKS] == ["provide_providers"]
    assert not [name for name in dir(provider) if name in HOOKS]


def test_the_entry_point_is_the_class():
    (entry,) = entry_points(group="pluggent.providers", name="anthropic")

    assert entry.value == "pluggent_anthropic.plugin:Anthropic"
    assert Anthropic.Settings is Settings


@pytest.mark.parametrize("name", ["", "a/b", "anthropic"])
def test_a_server_needs_a_usable_name(name):
    with pytest.raises(ValueError, match="servers"):
        Settings(servers={name: Server(base_url="http://x")})


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ({"betas": ("a\nb",)}, "betas"),
        ({"version": "é"}, "version"),
        ({"max_tokens": -1}, "max_tokens"),
        ({"server_tools": ({"name": "x"},)}, "server_tools"),
        ({"server_tools": ({"type": "x", "name": 3},)}, "server_tools"),
        ({"base_url": "ftp://x"}, "base_url"),
        ({"silence_s": 0}, "silence_s"),
    ],
)
def test_settings_that_cannot_be_are_refused_by_name(more, field):
    with pytest.raises(ValueError, match=field):
        Settings(**more)


def test_a_model_has_room_for_a_reply():
    with pytest.raises(ValueError, match="max_tokens"):
        Model(max_tokens=0)


def test_settings_show_neither_key_nor_headers():
    shown = repr(Settings(api_key=Secret.of("sk-1"), headers={"x-token": "hush"}))

    assert "sk-1" not in shown
    assert "hush" not in shown


async def test_a_plugin_that_was_never_asked_opens_and_closes_and_can_be_opened_again():
    plugin = Anthropic()
    async with plugin.open(LENT):
        pass
    async with plugin.open(LENT):
        names = [provider.name for provider in plugin.provide_providers(ProvideEvent())]

    assert names == ["anthropic"]


def test_http_is_imported_with_the_first_request_only():
    program = (
        "import sys; from pluggent_anthropic.plugin import Anthropic; plugin = Anthropic();"
        "loaded = sorted({'msgspec', 'httpx2', 'asyncio'} & set(sys.modules));"
        "plugin.provide_providers(None); print(loaded, 'httpx2' in sys.modules)"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)  # noqa: S603

    assert found.stdout.strip() == "[] False"
