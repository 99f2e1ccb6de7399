"""How a model may be called: aliases, names without a provider, the model of the settings."""

import pytest
from each_of import each_of
from fake_distributions import install
from screens import install_speaker

OTHER = """
from pluggent_hookspecs import hookimpl

class Plugin:
    @hookimpl
    def provide_providers(self, event):
        raise RuntimeError("imported")
"""


@pytest.fixture
def cli(cli):
    install_speaker(cli.site)
    (cli.work / "mine.toml").write_text('[models.aliases]\nfast = "speaker/quick"\ngpt-4o = "speaker/mine"\n')
    return cli


@each_of(("name", "model"), [("fast", "speaker/quick"), ("gpt-4o", "speaker/mine"), ("speaker/fast", "speaker/fast")])
def test_an_alias_is_a_model_and_wins_over_what_a_provider_announces(cli, name, model):
    assert cli.document("run", "--config", "mine.toml", "-m", name, "x")["model"] == model


@each_of("environ", [{"PLUGGENT_MODEL": "fast"}, {}])
def test_the_model_of_the_settings_may_be_an_alias(cli, environ):
    text = (cli.work / "mine.toml").read_text()
    (cli.work / "mine.toml").write_text(text if environ else f'model = "fast"\n{text}')

    assert cli.document("run", "--config", "mine.toml", "x", **environ)["model"] == "speaker/quick"


@each_of("name", ["gpt-5-mini", "o3", "chatgpt-4o-latest", "GPT-5"])
def test_a_name_without_a_provider_finds_it_without_asking_anybody(cli, name):
    done = cli("run", "-m", name, "x")

    assert (done.code, done.err.startswith("error: openai: there is no API key")) == (1, True), done


def test_a_name_that_two_packages_announce_is_refused_with_both(cli):
    for package in ("acme-one", "acme-two"):
        kind = package.removeprefix("acme-")
        entries = {f"providers/{kind}": f"{kind}:Plugin", "model_names/llama": kind}
        install(cli.site, package, entries, modules={kind: OTHER})

    done = cli("run", "-m", "llama-4", "x")

    assert done.code == 2
    assert "'llama-4' may be one/llama-4 or two/llama-4; write which, or make it an alias: [models.aliases]" in done.err


def test_the_name_of_a_provider_that_announces_may_have_a_hyphen(cli):
    entries = {"providers/my-lab": "lab:Plugin", "model_names/llama": "my-lab"}
    install(cli.site, "acme-lab", entries, modules={"lab": OTHER})

    assert "plugin 'acme-lab'" in cli("run", "-m", "llama-4", "x").err


def test_a_package_announces_nothing_for_the_provider_of_another(cli):
    entries = {"providers/one": "one:Plugin", "model_names/gpt": "openai", "model_names/llama": "openai"}
    install(cli.site, "acme-one", entries, modules={"one": OTHER})

    assert cli("run", "-m", "gpt-5", "x").err.startswith("error: openai: there is no API key")
    assert "'llama-4' is not a model" in cli("run", "-m", "llama-4", "x").err


@each_of(
    ("name", "says"),
    [
        (
            "fats",
            "'fats' is not a model: write provider/model, such as openai/gpt-5-mini, or an alias; did you mean 'fast'?",
        ),
        (
            "qwen",
            "need no provider: haiku, opus, sonnet (anthropic); gemini (gemini); chatgpt, gpt, o1, o3, o4 (openai).",
        ),
    ],
)
def test_a_name_that_nothing_explains_gets_advice(cli, name, says):
    done = cli("run", "--config", "mine.toml", "-m", name, "x")

    assert (done.code, done.out, says in done.err) == (2, "", True), done.err


def test_a_wrong_model_of_the_settings_is_said_by_a_turn_and_by_no_listing(cli):
    (cli.work / "wrong.toml").write_text('model = "qwen"\n')

    assert "'qwen' is not a model" in cli("run", "--config", "wrong.toml", "x").err
    assert cli("models", "offline", "--config", "wrong.toml").code == 0


def test_what_names_a_model_is_no_plugin(cli):
    assert "model_names" not in cli("plugins").out
    assert cli("doctor").code in (0, 1)
    assert "is not a group" not in cli("plugins").err
