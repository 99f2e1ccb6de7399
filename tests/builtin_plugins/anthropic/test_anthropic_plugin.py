"""The settings of this wire alone; what it shares with others is in test_http_plugins.py."""

from pluggent_anthropic.model_traits import Model
from pluggent_anthropic.settings import Server, Settings
from pluggent_hookspecs import Secret
from pluggent_plugin_loader.options import settings_for


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
