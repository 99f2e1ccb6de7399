"""The other wires at Bedrock, as the README configures them: addresses and keys of requests."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pluggent_bedrock
import pytest
from pluggent_anthropic.plugin import Anthropic
from pluggent_hookspecs import Message, ModelRequest
from pluggent_openai.plugin import OpenAI
from pluggent_plugin_loader.options import settings_for
from pluggent_testing.wires import AnthropicWire, ResponsesWire, Wire, WireServer

README = Path(pluggent_bedrock.__path__[0]).parent / "README.md"


def section(plugin: str) -> dict[str, Any]:
    """Return what the README says of *plugin*, below its table of servers."""
    for text in re.findall(r"```toml\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL):
        found = tomllib.loads(text)["plugins"].get(plugin)
        if found is not None:
            return found
    raise AssertionError(f"the README does not configure {plugin}")


@pytest.mark.parametrize(
    ("plugin", "name", "wire", "path"),
    [
        (OpenAI, "pluggent-openai", ResponsesWire(), "/openai/v1/responses"),
        (Anthropic, "pluggent-anthropic", AnthropicWire(), "/anthropic/v1/messages"),
    ],
)
async def test_a_server_of_the_readme_is_asked_with_the_key(monkeypatch, plugin: Any, name: str, wire: Wire, path: str):
    monkeypatch.setenv("AWS_BEARER_TOKEN_BEDROCK", "bedrock-key")
    given = section(name)
    ((server_name, server_settings),) = given["servers"].items()
    with WireServer(wire, 10.0, 1_000_000) as server:
        host = server_settings["base_url"].split("/", 3)
        server_settings["base_url"] = f"{server.origin}/{host[3]}"
        (settings,) = settings_for(name, plugin.Settings, given)
        made = plugin(settings)
        provider = next(one for one in made.provide_providers(None) if one.name == server_name)
        await provider.complete(ModelRequest("openai.gpt-5.5", (Message.user("hi"),)))
        await provider.close()

    (asked,) = server.requests
    assert (asked.path, asked.headers["authorization"]) == (path, "Bearer bedrock-key")
    assert "bedrock-mantle.us-east-1.api.aws" in host[2]
