"""``pluggent models list``, ``show``, ``diff`` and ``refresh``: what is known without asking a provider."""

import json
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest
from cli_support import Cli
from pluggent_models.catalog import NAME, read_catalog, shipped
from pluggent_models.model import Cost

OWN = """
[[model]]
id = "openai/gpt-5-mini"
cost = { input = 0.5, output = 4.0 }
date = 2026-11-20
source = "https://acme.example/pricing"

[[model]]
id = "acme/one"
context = 8192
date = 2026-11-20
source = "https://acme.example"
"""


def test_a_model_is_shown_with_all_that_is_known(cli):
    code, out, err = cli("models", "show", "openai/gpt-5.5")

    assert (code, err) == (0, "")
    assert out.splitlines() == [
        "openai/gpt-5.5",
        "  name        GPT-5.5",
        "  windows     1,050,000 in all, 922,000 input, 128,000 output",
        "  takes       text, image, pdf",
        "  gives       text",
        "  thinking    yes",
        "  efforts     none, low, medium, high, xhigh",
        "  has         tools, output schemas",
        "  lacks       temperature",
        "  API         responses",
        "  price       input $5, read from the cache $0.5, output $30",
        "              above 272,000 tokens of input: input $10, read from the cache $1, output $45",
        "  released    2026-04-23",
        "  as of       2026-08-21, https://developers.openai.com/api/docs/pricing",
    ]


def test_a_model_that_is_not_known_is_told_the_nearest(cli):
    code, out, err = cli("models", "show", "openai/gpt-5-mni")

    assert (code, out) == (2, "")
    assert "the catalog does not know 'openai/gpt-5-mni'; did you mean 'openai/gpt-5-mini'?" in err


@pytest.mark.parametrize("pattern", ["groq", "groq/", "groq/*"])
def test_models_are_listed_by_server_part_or_pattern(cli, pattern):
    listed = cli.document("models", "list", pattern)["models"]

    assert [one["id"] for one in listed] == [model.id for model in shipped().models() if model.server == "groq"]


def test_a_list_is_a_table_with_prices(cli):
    code, out, _ = cli("models", "list", "openai/gpt-5-min?", COLUMNS="120")

    assert code == 0
    assert [line.split() for line in out.splitlines()] == [
        ["MODEL", "CONTEXT", "OUTPUT", "$", "IN", "$", "CACHED", "$", "OUT", "TAKES"],
        ["openai/gpt-5-mini", "400,000", "128,000", "0.25", "0.025", "2", "text", "image"],
    ]


def test_a_pattern_that_nothing_fits_names_the_servers(cli):
    code, out, _ = cli("models", "list", "nothing-like-it")

    assert code == 1
    assert out.startswith("the catalog has no model like nothing-like-it; servers: anthropic, azure, ")


def test_a_file_of_ones_own_is_compared_and_kept(cli):
    (cli.work / "own.toml").write_text(OWN)

    code, out, err = cli("models", "diff", "own.toml")

    assert (code, err) == (0, "")
    assert out.splitlines() == [
        "+ acme/one",
        "~ openai/gpt-5-mini",
        "    cost: {'input': 0.25, 'output': 2, 'cached': 0.025} -> {'input': 0.5, 'output': 4}",
        f"{len(list(shipped().models())) + 1:,} models: 1 new, 1 changed",
    ]
    assert not (cli.state / NAME).exists()

    assert cli("models", "refresh", "own.toml").code == 0

    assert cli.document("models", "show", "acme/one")["model"]["context"] == 8192
    kept = read_catalog(cli.state / NAME)
    model = kept.find("openai/gpt-5-mini")
    assert model is not None
    assert model.cost == Cost(input=0.5, output=4.0)
    assert model.context == 400_000
    assert kept.find("openai/gpt-5") == shipped().find("openai/gpt-5")
    assert (cli.state / NAME).stat().st_mode & 0o777 == 0o600
    assert cli.document("models", "diff", "own.toml")["changes"] == []


@contextmanager
def serving(content: bytes) -> Generator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/api.json"
        finally:
            server.shutdown()


def models_dev() -> bytes:
    entry = {
        "name": "New",
        "modalities": {"input": ["text"], "output": ["text"]},
        "limit": {"context": 1000, "output": 10},
        "cost": {"input": 1, "output": 2},
    }
    return json.dumps({name: {"models": {"new-1": entry}} for name in ("openai", "groq", "zai")}).encode()


def test_a_mirror_in_ones_own_network_is_a_source(cli):
    with serving(models_dev()) as url:
        code, out, err = cli("models", "refresh", url)

    assert (code, err) == (0, "")
    assert out.splitlines()[0].endswith("models: 3 new, 0 changed")
    assert cli.document("models", "list", "new-1")["models"][0]["cost"] == {"input": 1, "output": 2}


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (models_dev()[:-30], "is not the JSON of models.dev"),
        (b"{}", "is not the list of models.dev"),
        (b"<html>no such page</html>", "is no catalog, no JSON and no TOML"),
    ],
)
def test_a_source_that_cannot_be_used_changes_nothing(cli, content, told):
    with serving(content) as url:
        code, out, err = cli("models", "refresh", url)

    assert (code, out) == (2, "")
    assert f"error: {url}: {told}" in err
    assert not (cli.state / NAME).exists()


def test_a_kept_catalog_that_is_damaged_is_an_error_until_it_is_made_anew(cli):
    (cli.work / "own.toml").write_text(OWN)
    cli("models", "refresh", "own.toml")
    path = cli.state / NAME
    path.write_bytes(path.read_bytes()[:-100])

    code, _, err = cli("models", "list")
    assert code == 2
    assert f"error: {path}: is damaged: it is cut" in err
    assert "pluggent models refresh" in err

    code, _, err = cli("models", "refresh", "own.toml")
    assert code == 0
    assert "warning: " in err
    assert read_catalog(path).find("acme/one") is not None


def test_what_a_host_runs_cannot_change_the_catalog(cli: Cli):
    (cli.work / "own.toml").write_text(OWN)

    code, _, err = cli("models", "refresh", "own.toml", PLUGGENT_INSIDE="1")

    assert code == 2
    assert "PLUGGENT_INSIDE is set" in err
    assert not (cli.state / NAME).exists()


def test_asking_the_providers_loads_no_catalog(cli):
    assert "pluggent_models.catalog" not in cli.imported("models", "offline")
