"""``pluggent models``: every provider's list, or why there is none."""

import json
from pathlib import Path

import pytest
from cli_support import Cli, Done
from fake_distributions import install

VENDOR = """
import asyncio
from pluggent_hookspecs import ModelInfo, ProviderError, ProviderErrorKind, hookimpl

class Vendor:
    name, target = {name!r}, "memory:"
    async def complete(self, request): raise AssertionError(request)
    def stream(self, request): raise AssertionError(request)
    async def list_models(self):
        {answer}

class Plugin:
    @hookimpl
    def provide_providers(self, event):
        return [Vendor()]
"""
LISTS = 'return [ModelInfo("small"), ModelInfo("large\\x1b[2J", "Large\\u202e", 1.5, 128000, 4096, {"owner": "acme"})]'
FAILS = 'raise ProviderError(ProviderErrorKind.UNAVAILABLE, "down\\x1b[2J for repair", provider="down")'
NEVER = "await asyncio.Event().wait()"


LISTING = "    async def list_models"


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    return Cli(tmp_path)


def add(cli: Cli, name: str, answer: str = "") -> None:
    """Install a provider; without *answer* it does not list its models."""
    source = VENDOR.format(name=name, answer=answer or "pass")
    source = source if answer else source.replace(LISTING, "    async def other")
    install(cli.site, f"acme-{name}", {f"providers/{name}": f"acme_{name}:Plugin"}, modules={f"acme_{name}": source})


def models(cli: Cli, *words: str) -> Done:
    """Ask the providers of these tests alone."""
    installed = json.loads(cli("plugins", "--json").out)["plugins"]
    ours = {one["plugin"] for one in installed if one["kind"] == "provider" and not one["plugin"].startswith("acme-")}
    return cli("models", "--without", ",".join(ours), *words)


def test_models_are_printed_as_a_model_option_takes_them(cli):
    add(cli, "acme", LISTS)

    code, out, err = cli("models", "acme")

    assert (code, err) == (0, "")
    assert out.splitlines() == [
        "acme  2 models",
        "MODEL              CONTEXT  OUTPUT  NAME",
        "acme/small",
        "acme/large\\x1b[2J  128,000  4,096   Large\\u202e",
    ]


def test_a_provider_that_fails_hides_no_other(cli):
    for name, answer in (("acme", LISTS), ("down", FAILS), ("mute", "")):
        add(cli, name, answer)
    install(cli.site, "acme-gone", {"providers/gone": "acme_gone:Plugin"}, modules={"acme_gone": "import nowhere"})

    code, out, err = models(cli)

    assert code == 0
    assert "acme  2 models\n" in out
    assert "down  failed\n" in out
    assert "gone  failed\n" in out
    assert "mute  does not say which models it has\n" in out
    assert "error: down: down\\x1b[2J for repair\n" in err
    assert "No module named 'nowhere'" in err
    assert "Traceback" not in err


def test_the_exit_code_says_that_nobody_answered(cli):
    add(cli, "mute")
    nobody_was_to = models(cli).code
    add(cli, "down", FAILS)

    assert nobody_was_to == 0
    assert models(cli).code == 1
    assert cli("models", "mute").code == 1


def test_a_provider_that_never_answers_is_given_up(cli):
    add(cli, "slow", NEVER)

    code, _, err = cli("models", "slow", "--timeout", "0.2")

    assert (code, err) == (1, "error: slow: gave no list within 0.2 s\n")


def test_the_document_has_everything(cli):
    for name, answer in (("acme", LISTS), ("down", FAILS), ("mute", "")):
        add(cli, name, answer)

    code, out, err = models(cli, "--json")

    acme, down, mute = json.loads(out)["providers"]
    assert (code, err) == (0, "")
    assert acme["models"][1] == {
        "model": "acme/large\x1b[2J", "id": "large\x1b[2J", "name": "Large\u202e", "created": 1.5,
        "context_window": 128000, "max_output_tokens": 4096, "extra": {"owner": "acme"},
    }  # fmt: skip
    assert (down["lists"], down["models"], down["error"]["kind"]) == (True, None, "ProviderError")
    assert (mute["lists"], mute["models"], mute["error"]["kind"]) == (False, None, "NoModelList")
    assert "\u202e" not in out


@pytest.mark.parametrize(
    ("words", "says"),
    [(["opnai"], "did you mean 'openai'?"), (["a", "b"], "takes one NAME, got 2"), (["--timeout", "0"], "above 0")],
)
def test_wrong_usage_is_said(cli, words, says):
    code, out, err = cli("models", *words)

    assert (code, out) == (2, "")
    assert says in err
