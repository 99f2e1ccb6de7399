"""``pluggent models``: every provider's list, or why there is none."""

from cli_support import Cli
from each_of import each_of
from pluggent_plugin_loader.discovery import discover

VENDOR = """
import asyncio
from pluggent_hookspecs import ModelInfo, ProviderError, ProviderErrorKind, hookimpl

class Vendor:
    name, target = {name!r}, "memory:"
    async def complete(self, request): raise AssertionError(request)
    def stream(self, request): raise AssertionError(request)
    async def {method}(self):
        {answer}

class Plugin:
    @hookimpl
    def provide_providers(self, event):
        return [Vendor()]
"""
LISTS = 'return [ModelInfo("small"), ModelInfo("large\\x1b[2J", "Large\\u202e", 1.5, 128000, 4096, {"owner": "acme"})]'
FAILS = 'raise ProviderError(ProviderErrorKind.UNAVAILABLE, "down\\x1b[2J for repair", provider="down")'
NEVER = "await asyncio.Event().wait()"
OURS = ("models", "--without", ",".join(item.name for item in discover().distributions))
"""Asks the providers of these tests alone."""


def add(cli: Cli, **answers: str) -> None:
    """Install providers by name; one without an answer does not list its models."""
    for name, answer in answers.items():
        method = "list_models" if answer else "other"
        source = VENDOR.format(name=name, answer=answer or "pass", method=method)
        cli.plugin(f"acme-{name}", source, "providers")


def test_models_are_printed_as_a_model_option_takes_them(cli):
    add(cli, acme=LISTS)

    code, out, err = cli("models", "acme")

    assert (code, err) == (0, "")
    assert out.splitlines() == [
        "acme  2 models",
        "MODEL              CONTEXT  OUTPUT  NAME",
        "acme/small",
        "acme/large\\x1b[2J  128,000  4,096   Large\\u202e",
    ]


def test_a_provider_that_fails_hides_no_other(cli):
    add(cli, acme=LISTS, down=FAILS, mute="")
    cli.plugin("acme-gone", "import nowhere", "providers")

    code, out, err = cli(*OURS)

    assert code == 0
    for line in ("acme  2 models", "down  failed", "gone  failed", "mute  does not say which models it has"):
        assert f"{line}\n" in out
    assert "error: down: down\\x1b[2J for repair\n" in err
    assert "No module named 'nowhere'" in err
    assert "Traceback" not in err


def test_the_exit_code_says_that_no_provider_answered(cli):
    add(cli, mute="")
    unasked = cli(*OURS).code
    add(cli, down=FAILS)

    assert (unasked, cli(*OURS).code, cli("models", "mute").code) == (0, 1, 1)


NO_KEY = 'raise ProviderError(ProviderErrorKind.AUTHENTICATION, "there is no API key", provider="keyless")'
WRONG_KEY = 'raise ProviderError(ProviderErrorKind.AUTHENTICATION, "wrong key", provider="wrong", status=401)'


def test_providers_without_a_key_are_counted_and_not_listed(cli):
    add(cli, acme=LISTS, keyless=NO_KEY, wrong=WRONG_KEY)

    code, out, err = cli(*OURS)
    assert (code, "keyless" in out, "wrong  failed\n" in out) == (0, False, True)
    assert err.splitlines() == [
        "error: wrong: wrong key", "1 provider has no key (keyless); to set one up: pluggent setup"
    ]  # fmt: skip

    for words in ((*OURS, "--all"), ("models", "keyless")):
        done = cli(*words)
        assert ("keyless  failed\n" in done.out, "error: keyless: there is no API key\n" in done.err) == (True, True)
    assert cli("models", "keyless").code == 1
    assert [one["provider"] for one in cli.document(*OURS)["providers"]] == ["acme", "keyless", "wrong"]
    assert "no key" not in cli(*OURS, "--quiet").err


def test_a_new_installation_lists_no_errors(cli):
    done = cli("models", "--without", "pluggent-ollama", OPENAI_API_KEY=None, ANTHROPIC_API_KEY=None)

    assert (done.code, "error" in done.err) == (0, False)
    assert done.err == "4 providers have no key (anthropic, bedrock, gemini, openai); to set one up: pluggent setup\n"


def test_a_provider_that_never_answers_is_given_up(cli):
    add(cli, slow=NEVER)

    code, _, err = cli("models", "slow", "--timeout", "0.05")

    assert (code, err) == (1, "error: slow: gave no list within 0.05 s\n")


def test_the_document_has_everything(cli):
    add(cli, acme=LISTS, down=FAILS, mute="")

    acme, down, mute = cli.document(*OURS)["providers"]

    assert acme["models"][1] == {
        "model": "acme/large\x1b[2J", "id": "large\x1b[2J", "name": "Large\u202e", "created": 1.5,
        "context_window": 128000, "max_output_tokens": 4096, "extra": {"owner": "acme"},
    }  # fmt: skip
    assert (down["lists"], down["models"], down["error"]["kind"]) == (True, None, "ProviderError")
    assert (mute["lists"], mute["models"], mute["error"]["kind"]) == (False, None, "NoModelList")
    assert "\u202e" not in cli(*OURS, "--json").out


@each_of(
    ("words", "says"),
    [("opnai", "did you mean 'openai'?"), ("a b", "takes one NAME, got 2"), ("--timeout 0", "above 0")],
)
def test_wrong_usage_is_said(cli, words, says):
    code, out, err = cli("models", *words.split())

    assert (code, out, says in err) == (2, "", True)
