"""The plugin: its settings, its providers, what it imports and when."""

import subprocess
import sys
from importlib.metadata import entry_points

import pytest
from openai_server import LENT, OddServer, completion, json_answer, plugin_at, provider_at, request
from pluggent_hookspecs import HOOKS, ProvideEvent, Provider, Secret
from pluggent_openai.plugin import OpenAI
from pluggent_openai.settings import Server, Settings


def targets(plugin: OpenAI) -> dict[str, str]:
    return {provider.name: provider.target for provider in plugin.provide_providers(ProvideEvent())}


def test_without_settings_it_is_openai(monkeypatch):
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)

    assert targets(OpenAI()) == {"openai": "https://api.openai.com/v1"}


def test_the_environment_may_say_where_the_server_is(monkeypatch):
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:1/v1")

    assert targets(OpenAI()) == {"openai": "http://127.0.0.1:1/v1"}
    assert targets(OpenAI(Settings(base_url="http://127.0.0.1:2/v1"))) == {"openai": "http://127.0.0.1:2/v1"}


def test_every_server_is_a_provider_of_its_own_name():
    settings = Settings(
        base_url="http://127.0.0.1:1/v1", servers={"local": Server(base_url="http://127.0.0.1:2/v1/?token=hush")}
    )

    assert targets(OpenAI(settings)) == {"openai": "http://127.0.0.1:1/v1", "local": "http://127.0.0.1:2/v1"}


def test_providers_keep_the_contract():
    (provider,) = OpenAI().provide_providers(ProvideEvent())

    assert isinstance(provider, Provider)
    assert OpenAI.Settings is Settings


def test_the_entry_point_is_the_class():
    (entry,) = entry_points(group="pluggent.providers", name="openai")

    assert entry.value == "pluggent_openai.plugin:OpenAI"


def test_no_helper_is_named_like_a_hook():
    plugin, provider = plugin_at("http://127.0.0.1:1")

    assert [name for name in dir(plugin) if name in HOOKS] == ["provide_providers"]
    assert not [name for name in dir(provider) if name in HOOKS]


@pytest.mark.parametrize("name", ["", "a/b", "openai"])
def test_a_server_needs_a_usable_name(name):
    with pytest.raises(ValueError, match="servers"):
        Settings(servers={name: Server(base_url="http://x")})


def test_an_organization_that_cannot_be_sent_is_refused():
    with pytest.raises(ValueError, match="organization"):
        Server(base_url="http://x", organization="\u00e9")


def test_settings_show_neither_key_nor_headers():
    shown = repr(Settings(api_key=Secret.of("sk-1"), headers={"x-token": "hush"}))

    assert "sk-1" not in shown
    assert "hush" not in shown


async def test_a_path_and_a_query_of_the_base_url_are_kept():
    async with OddServer(json_answer(completion({"content": "a"}))) as server:
        provider = provider_at(server.url.replace("/v1", "/deep/er?version=7"))
        await provider.complete(request())
        await provider.close()

    assert server.requests[0].line == "POST /deep/er/chat/completions?version=7 HTTP/1.1"


async def test_a_plugin_that_was_never_asked_opens_and_closes_and_can_be_opened_again():
    plugin = OpenAI()
    async with plugin.open(LENT):
        pass
    async with plugin.open(LENT):
        names = [provider.name for provider in plugin.provide_providers(ProvideEvent())]

    assert names == ["openai"]


def test_http_is_imported_with_the_first_request_only():
    program = (
        "import sys; from pluggent_openai.plugin import OpenAI; plugin = OpenAI();"
        "loaded = sorted({'msgspec', 'httpx2'} & set(sys.modules));"
        "plugin.provide_providers(None); print(loaded, 'httpx2' in sys.modules)"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)  # noqa: S603

    assert found.stdout.strip() == "[] False"
