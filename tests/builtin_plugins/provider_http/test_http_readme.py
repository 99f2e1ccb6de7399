"""The provider in the README keeps the promises of every provider."""

from __future__ import annotations

import json
from doctest import DocTestParser
from pathlib import Path
from typing import Any

import httpx2
import pluggent_provider_http
from pluggent_hookspecs import Provider, Secret
from pluggent_testing.providers import ProviderConformance

README = Path(pluggent_provider_http.__path__[0]).parent / "README.md"
KEY = "my-secret-key"
HELLO = b'data: {"text": "Hel"}\n\ndata: {"text": "lo"}\n\ndata: {"end": true}\n\n'


def definitions() -> dict[str, Any]:
    """Return what the README's example defines, up to where it asks."""
    defined: dict[str, Any] = {}
    for example in DocTestParser().get_examples(README.read_text(encoding="utf-8")):
        exec(example.source, defined)  # noqa: S102 (the README's own lines)
        if "Acme" in defined:
            break
    return defined


def acme(asked: httpx2.Request) -> httpx2.Response:
    """Answer as the README's vendor does; it has one model."""
    if asked.headers["x-api-key"] != KEY or not isinstance(json.loads(asked.content)["say"], list):
        return httpx2.Response(400, json={"error": "that was not said well"})
    if json.loads(asked.content)["model"] != "demo":
        return httpx2.Response(404, json={"error": "there is no such model"})
    return httpx2.Response(200, content=HELLO)


class TestReadme(ProviderConformance):
    tools = False
    deterministic = True
    secrets = (KEY,)

    def make_provider(self) -> Provider:
        defined = definitions()
        settings = defined["Settings"](api_key=Secret.of(KEY))
        provider: Provider = defined["Acme"]("acme", settings, transport=httpx2.MockTransport(acme))
        return provider
