import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from socket import socket

import pytest
from cli_support import Cli
from fake_distributions import NEEDS, install
from workspace import ROOT

DEMO = str(ROOT / "sample_plugins" / "guard" / "demo.toml")
MAIL = """
from pluggent_hookspecs import ToolOutput, hookimpl, tool

@tool(effects=("messaging",))
def send_mail(to: str) -> str:
    '''Send a mail.'''
    return f"sent to {to}"

@tool(effects=())
def escape() -> str:
    '''Say something that a terminal would obey.'''
    return "\\x1b]0;title\\x07 " + "x" * 500

class Plugin:
    @hookimpl
    def provide_tools(self, event):
        return [send_mail, escape]
"""


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    made = Cli(tmp_path)
    install(made.site, "acme-mail", {"tools/mail": "acme_mail:Plugin"}, modules={"acme_mail": MAIL})
    return made


def weather(city: str) -> str:
    """Return what the weather tool says, without asking it here."""
    return {"Beijing": "17 °C, windy in Beijing (sample data)", "Oslo": "20 °C, light rain in Oslo (sample data)"}[city]


# ---- what is shown ----------------------------------------------------------------------


def test_the_demonstration_of_the_readme(cli):
    code, out, err = cli("run", "--config", DEMO, "weather city=Beijing & weather city=Atlantis")

    assert code == 0
    assert out == (
        f"weather: {weather('Beijing')}\n"
        "weather failed: Denied: there is no weather in Atlantis; ask for a city above the sea\n"
    )
    assert err == (
        '→ 1 weather(city="Beijing", unit="celsius")  allowed: declared pure\n'
        '→ 2 weather(city="Atlantis", unit="celsius")  '
        "DENIED by pluggent-guard: the guard denies the weather in Atlantis\n"
        f"← 1 {weather('Beijing')}\n"
    )


def test_what_a_policy_changed_is_shown_as_it_will_run(cli):
    err = cli("run", "--config", DEMO, "weather city=Beijing unit=fahrenheit").err

    assert 'weather(city="Beijing", unit="celsius")  allowed: declared pure; pluggent-guard changed unit\n' in err


@pytest.mark.parametrize("option", ["--no-stream", "--no-save", "-q"])
def test_the_answer_is_the_same_however_it_is_asked_for(cli, option):
    done = cli("run", option, "weather city=Oslo")

    assert (done.code, done.out) == (0, f"weather: {weather('Oslo')}\n")
    assert ("→ weather" in done.err) is (option != "-q")


def test_the_document_holds_the_answer_and_every_call_with_its_decision(cli):
    done = cli("run", "--json", "--config", DEMO, "weather city=Beijing unit=fahrenheit & weather city=Atlantis")

    document = json.loads(done.out)
    first, second = document["tool_calls"]
    assert (done.code, document["exit_code"], document["why"]) == (0, 0, "completed")
    assert document["model"] == "offline/demo"
    assert document["text"].startswith("weather: 17 °C")
    assert first["arguments"] == {"city": "Beijing", "unit": "celsius"}
    assert first["changes"] == [{"by": "pluggent-guard", "what": ["unit"]}]
    assert (first["verdict"], first["by"], first["ran"], first["failed"]) == ("allow", "host", True, False)
    assert (second["verdict"], second["by"], second["ran"]) == ("deny", "pluggent-guard", False)
    assert second["capability"] == "pluggent-weather:tool/weather"
    assert [vote["plugin"] for vote in second["votes"]] == ["pluggent-guard", "host"]


def test_verbose_shows_model_calls_and_every_decision(cli):
    err = cli("run", "-v", "weather city=Oslo").err

    assert "· model call  allowed\n" in err
    assert "· offline/demo: " in err
    assert "session: " in err


def test_results_are_cut_for_display_with_their_size_and_escaped(cli):
    err = cli("run", "escape").err

    assert "← \\x1b]0;title\\x07 xxx" in err
    assert "… (511 characters)\n" in err


def test_a_call_that_cannot_be_read_is_shown_with_what_is_wrong(cli):
    err = cli("run", "weather city=1").err

    assert "→ weather(city=1)\n← Error: invalid arguments for 'weather': $.city: " in err


# ---- prompts ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "stdin"),
    [
        (["weather", "city=Oslo"], ""),
        ([], "weather city=Oslo\n"),
        (["-"], "weather city=Oslo"),
        (["weather", "-"], "city=Oslo"),
        (["--", "weather city=Oslo"], ""),
        ([], "\ufeffweather city=Oslo"),
    ],
)
def test_a_prompt_comes_from_the_arguments_or_standard_input_or_both(cli, words, stdin):
    assert cli("run", *words, stdin=stdin).out == f"weather: {weather('Oslo')}\n"


@pytest.mark.parametrize(
    ("words", "stdin", "says"),
    [
        ([], b"", "error: PROMPT: is empty"),
        (["  "], b"", "error: PROMPT: is empty"),
        ([], b"caf\xe9", "error: standard input: is not UTF-8 text (byte 3)"),
        (["--no-tools", "--tool", "weather", "x"], b"", "--no-tools: contradicts --tool"),
        (["--max-tool-rounds", "many", "x"], b"", "'many' is not a whole number"),
        (["--timeout", "0", "x"], b"", "'0' is not a number of seconds above 0"),
        (["--session", "a/b", "x"], b"", "error: --session: session id 'a/b': use letters"),
        (["--workspace", "nowhere", "x"], b"", "error: --workspace: 'nowhere' is not there"),
        (["--model", "gpt", "x"], b"", "'gpt' is not a model: write provider/model"),
        (["--model", "opnai/x", "x"], b"", "provider 'opnai': no installed plugin offers it; did you mean 'openai'?"),
        (["--tool", "wether", "x"], b"", "there is no tool 'wether'; did you mean 'weather'?"),
    ],
)
def test_bad_usage_is_refused_in_one_clear_line(cli, words, stdin, says):
    code, out, err = cli("run", *words, stdin=stdin)

    assert (code, out) == (2, "")
    assert says in err
    assert "Traceback" not in err


def test_arguments_that_are_no_text_are_refused(cli):
    done = cli("run", "caf\udce9")

    assert (done.code, done.err) == (2, "error: PROMPT: is not UTF-8 text\n")


# ---- models -----------------------------------------------------------------------------


class Refuses(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = json.dumps({"error": {"message": "Incorrect API key provided", "code": "invalid_api_key"}}).encode()
        self.send_response(401)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def refusing_server() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), Refuses) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/v1"
        server.shutdown()
        thread.join()


def test_a_missing_key_is_named(cli):
    code, out, err = cli("run", "--model", "openai/m", "hello")

    assert (code, out) == (1, "")
    assert err.startswith("error: openai: ")
    assert "OPENAI_API_KEY" in err


def test_a_key_that_is_refused_is_said_and_never_shown(cli, refusing_server):
    code, _, err = cli(
        "run", "--model", "openai/m", "hello", OPENAI_BASE_URL=refusing_server, OPENAI_API_KEY="sk-secret"
    )

    assert code == 1
    assert "Incorrect API key provided" in err
    assert "sk-secret" not in err
    assert "Traceback" not in err


def test_a_refused_connection_is_said(cli):
    with socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/v1"

        (cli.work / "mine.toml").write_text("[plugins.pluggent-retry]\nbase_s = 0.0\nattempts = 2\n")
        code, _, err = cli(
            "run", "--config", "mine.toml", "--model", "openai/m", "hello",
            OPENAI_BASE_URL=url, OPENAI_API_KEY="sk-secret",
        )  # fmt: skip

    assert code == 1
    assert err.startswith("! the model call failed: openai: ")
    assert err.splitlines()[-1].startswith("error: openai: ")
    assert "Traceback" not in err


def test_the_model_of_the_settings_is_used_and_an_option_wins_over_it(cli):
    (cli.work / "mine.toml").write_text('model = "offline/mine"\n')

    assert json.loads(cli("run", "--json", "--config", "mine.toml", "x").out)["model"] == "offline/mine"
    assert json.loads(cli("run", "--json", "x", PLUGGENT_MODEL="offline/its").out)["model"] == "offline/its"
    assert json.loads(cli("run", "--json", "-m", "offline/o", "--config", "mine.toml", "x").out)["model"] == "offline/o"


# ---- exit codes -------------------------------------------------------------------------


def test_an_approval_that_nobody_can_give_ends_the_turn_with_what_to_do(cli):
    code, out, err = cli("run", "send_mail to=bob", PLUGGENT_ON_ASK="deny")

    assert (code, out) == (3, "")
    assert '→ send_mail(to="bob")  needs approval (host: its effects are messaging)\n' in err
    assert "denied: 'send_mail' needs approval: its effects are messaging\n" in err
    assert "run it in the foreground of a terminal" in err


def test_a_limit_has_its_own_exit_code(cli):
    code, _, err = cli("run", "--max-model-calls", "1", "weather city=Oslo")

    assert code == 4
    assert "stopped: limit 'model_calls' reached (1); the conversation is whole\n" in err


def test_a_plugin_with_hooks_runs_after_it_was_accepted_and_not_before(cli):
    policy = """
from pluggent_hookspecs import Deny, hookimpl

class Plugin:
    @hookimpl
    def decide_input(self, event):
        return Deny("not today")
"""
    install(cli.site, "acme-policy", {"hooks/policy": "acme_policy:Plugin"}, modules={"acme_policy": policy})

    before = cli("run", "hello")
    accepted = cli("trust", "--plugin", "acme-policy")
    after = cli("run", "hello")

    assert before.code == 2
    assert "accept it: pluggent trust --plugin acme-policy" in before.err
    assert accepted.code == 0
    assert (after.code, after.out) == (3, "")
    assert "· input  DENIED by acme-policy: not today\n" in after.err
    assert cli("run", "--without", "acme-policy", "weather city=Oslo").code == 0


def test_a_hook_plugin_that_cannot_be_loaded_keeps_a_turn_from_running(cli):
    install(cli.site, "acme-policy", {"hooks/policy": "acme_policy:Plugin"}, modules={"acme_policy": "import gone"})
    cli("trust", "--plugin", "acme-policy")

    code, out, err = cli("run", "weather city=Oslo")

    assert (code, out) == (5, "")
    assert "plugin 'acme-policy' (acme-policy 1.0) could not be imported" in err
    assert "--without acme-policy for this once" in err
    assert '[grants] optional = ["acme-policy"]' in err
    (cli.work / "mine.toml").write_text('[grants]\noptional = ["acme-policy"]\n')
    assert cli("run", "--config", "mine.toml", "weather city=Oslo").code == 0


def test_a_required_plugin_that_is_missing_keeps_a_turn_from_running(cli):
    (cli.work / "mine.toml").write_text('[required]\nacme-policy = ["decide_tool_call"]\n')

    code, _, err = cli("run", "--config", "mine.toml", "hello")

    assert code == 5
    assert "plugin 'acme-policy' is required and does not run" in err


def test_safe_mode_leaves_the_built_in_plugins(cli):
    code, out, _ = cli("run", "--safe", "weather city=Oslo")

    assert code == 0
    assert "No tools are offered here" in out


def test_an_incompatible_plugin_with_hooks_is_said_to_be_so(cli):
    needs = [NEEDS[0].replace("0.1,<0.2", "9")]
    install(cli.site, "acme-policy", {"hooks/policy": "acme_policy:Plugin"}, requires=needs)

    code, _, err = cli("run", "hello")

    assert code == 5
    assert "is incompatible: needs pluggent-hookspecs >=9" in err


# ---- sessions ---------------------------------------------------------------------------


def test_a_session_goes_on_where_it_stopped(cli):
    first = json.loads(cli("run", "--json", "weather city=Oslo").out)
    second = json.loads(cli("run", "--json", "--session", first["session"], "weather city=Oslo").out)

    assert second["session"] == first["session"]
    assert (first["turn"], second["turn"]) == ("t1", "t2")
    assert (cli.state / "sessions" / f"{first['session']}.jsonl").is_file()


def test_a_session_that_is_not_saved_leaves_nothing(cli):
    document = json.loads(cli("run", "--json", "--no-save", "weather city=Oslo").out)

    assert document["session"] is None
    assert not (cli.state / "sessions").exists()


def test_a_state_folder_that_cannot_be_written_is_named_with_the_way_around_it(cli):
    cli.state.write_text("a file, not a folder")

    code, _, err = cli("run", "weather city=Oslo")

    assert code in {1, 2}
    assert str(cli.state) in err
    assert "Traceback" not in err
    assert cli("run", "--no-save", "weather city=Oslo").code == 0


def test_plugins_of_the_working_directory_are_not_run(cli):
    install(cli.work, "acme-evil", {"hooks/evil": "acme_evil:Plugin"}, modules={"acme_evil": "raise SystemExit(9)"})

    path = f"{cli.site}:{cli.work}"

    refused = cli("run", "weather city=Oslo", PYTHONPATH=path)
    left_out = cli("run", "--without", "acme-evil", "weather city=Oslo", PYTHONPATH=path)

    assert refused.code == 2, "policy 38: it is not skipped in silence"
    assert "plugin 'acme-evil' 1.0 has hooks and is skipped" in refused.err
    assert (left_out.code, left_out.out) == (0, f"weather: {weather('Oslo')}\n")
