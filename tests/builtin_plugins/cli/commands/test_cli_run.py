"""``pluggent run``: what is shown, prompts, models, exit codes, sessions."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from socket import socket

import pytest
from each_of import each_of
from fake_distributions import NEEDS, policy
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
OSLO = "20 °C, light rain in Oslo (sample data)"
BEIJING = "17 °C, windy in Beijing (sample data)"


@pytest.fixture
def cli(cli):
    cli.plugin("acme-mail", MAIL)
    return cli


# ---- what is shown ----------------------------------------------------------------------


def test_the_demonstration_of_the_readme(cli):
    code, out, err = cli("run", "--config", DEMO, "weather city=Beijing & weather city=Atlantis")

    failed = "weather failed: Denied: there is no weather in Atlantis; ask for a city above the sea\n"
    assert (code, out) == (0, f"weather: {BEIJING}\n{failed}")
    assert err == (
        '→ 1 weather(city="Beijing", unit="celsius")  allowed: declared pure\n'
        '→ 2 weather(city="Atlantis", unit="celsius")  '
        "DENIED by pluggent-guard: the guard denies the weather in Atlantis\n"
        f"← 1 {BEIJING}\n"
    )


@each_of("option", ["--no-stream", "--no-save", "-q"])
def test_the_answer_is_the_same_however_it_is_asked_for(cli, option):
    done = cli("run", option, "weather city=Oslo")

    assert (done.code, done.out, "→ weather" in done.err) == (0, f"weather: {OSLO}\n", option != "-q")


def test_the_document_holds_the_answer_and_every_call_with_its_decision(cli):
    prompt = "weather city=Beijing unit=fahrenheit & weather city=Atlantis"
    document = cli.document("run", "--config", DEMO, prompt)

    first, second = document["tool_calls"]
    assert (document["exit_code"], document["why"], document["model"]) == (0, "completed", "offline/demo")
    assert document["text"].startswith("weather: 17 °C")
    assert first["arguments"] == {"city": "Beijing", "unit": "celsius"}
    assert first["changes"] == [{"by": "pluggent-guard", "what": ["unit"]}]
    assert (first["verdict"], first["by"], first["ran"], first["failed"]) == ("allow", "host", True, False)
    assert (second["verdict"], second["by"], second["ran"]) == ("deny", "pluggent-guard", False)
    assert second["capability"] == "pluggent-weather:tool/weather"
    assert [vote["plugin"] for vote in second["votes"]] == ["pluggent-guard", "host"]


def test_the_document_says_what_each_model_call_used(cli):
    document = cli.document("run", "weather city=Oslo")

    first, second = document["model_calls"]
    assert (first["model"], first["finish_reason"], second["finish_reason"]) == ("offline/demo", "tool_calls", "stop")
    assert first["error"] == ""
    assert first["meta"] == {
        "request_id": "", "limits": [], "first_byte_s": None, "service_tier": "", "notes": [],
    }  # fmt: skip


@each_of(
    ("words", "shown"),
    [
        (["-v", "weather city=Oslo"], ["· model call  allowed\n", "· offline/demo: ", "session: "]),
        (["escape"], ["← \\x1b]0;title\\x07 xxx", "… (511 characters)\n"]),
        (["weather city=1"], ["→ weather(city=1)\n← Error: invalid arguments for 'weather': $.city: "]),
        (["--config", DEMO, "weather city=Beijing unit=fahrenheit"],
         ['weather(city="Beijing", unit="celsius")  allowed: declared pure; pluggent-guard changed unit\n']),
    ],
)  # fmt: skip
def test_calls_are_shown_as_they_run_escaped_and_cut(cli, words, shown):
    err = cli("run", *words).err

    assert [text for text in shown if text not in err] == []


# ---- prompts ----------------------------------------------------------------------------


@each_of(
    ("words", "stdin"),
    [
        (["weather", "city=Oslo"], ""), ([], "weather city=Oslo\n"), (["-"], "weather city=Oslo"),
        (["weather", "-"], "city=Oslo"), (["--", "weather city=Oslo"], ""), ([], "\ufeffweather city=Oslo"),
    ],
)  # fmt: skip
def test_a_prompt_comes_from_the_arguments_or_standard_input_or_both(cli, words, stdin):
    assert cli("run", *words, stdin=stdin).out == f"weather: {OSLO}\n"


@each_of(
    ("words", "stdin", "says"),
    [
        ([], b"", "error: PROMPT: is empty"),
        (["  "], b"", "error: PROMPT: is empty"),
        ([], b"caf\xe9", "error: standard input: is not UTF-8 text (byte 3)"),
        (["caf\udce9"], b"", "error: PROMPT: is not UTF-8 text\n"),
        (["--no-tools", "--tool", "weather", "x"], b"", "--no-tools: contradicts --tool"),
        (["--max-tool-rounds", "many", "x"], b"", "'many' is not a whole number"),
        (["--timeout", "0", "x"], b"", "'0' is not a number of seconds above 0"),
        (["--session", "a/b", "x"], b"", "error: --session: session id 'a/b': use letters"),
        (["--workspace", "nowhere", "x"], b"", "error: --workspace: 'nowhere' is not there"),
        (["--model", "gtp", "x"], b"", "'gtp' is not a model: write provider/model"),
        (["--model", "opnai/x", "x"], b"", "provider 'opnai': no installed plugin offers it; did you mean 'openai'?"),
        (["--tool", "wether", "x"], b"", "there is no tool 'wether'; did you mean 'weather'?"),
        (["--image", "absent", "x"], b"", "absent: cannot be read"),
        (["--image", ".", "x"], b"", ".: cannot be read"),
    ],
)
def test_bad_usage_is_refused_in_one_clear_line(cli, words, stdin, says):
    code, out, err = cli("run", *words, stdin=stdin)

    assert (code, out, says in err, "Traceback" in err) == (2, "", True, False), err


# ---- models -----------------------------------------------------------------------------


class Refuses(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = json.dumps({"error": {"message": "Incorrect API key provided", "code": "invalid_api_key"}}).encode()
        self.send_response(401)
        self.send_header("content-type", "application/json")
        self.send_header("x-request-id", "req_7f3a")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def refusing_server() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), Refuses) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/v1"
        server.shutdown()
        thread.join()


def test_a_missing_key_is_named_and_one_that_is_refused_is_never_shown(cli, refusing_server):
    code, out, err = cli("run", "--model", "openai/m", "hello")
    assert (code, out, "OPENAI_API_KEY" in err) == (1, "", True)
    assert err.startswith("error: openai: ")

    place = {"OPENAI_BASE_URL": refusing_server, "OPENAI_API_KEY": "sk-secret"}
    code, _, err = cli("run", "--model", "openai/m", "hello", **place)
    assert (code, "Incorrect API key provided" in err) == (1, True)
    assert ("sk-secret" in err, "Traceback" in err) == (False, False)


def test_the_document_of_an_error_has_what_the_answer_said_of_itself(cli, refusing_server):
    place = {"OPENAI_BASE_URL": refusing_server, "OPENAI_API_KEY": "sk-secret"}

    code, out, _ = cli("run", "--json", "--model", "openai/m", "hello", **place)

    error = json.loads(out)["error"]
    assert (code, error["kind"], error["status"]) == (1, "authentication", 401)
    assert (error["meta"]["request_id"], error["meta"]["limits"]) == ("req_7f3a", [])


def test_a_refused_connection_is_said(cli):
    (cli.work / "mine.toml").write_text("[plugins.pluggent-retry]\nbase_s = 0.0\nattempts = 2\n")
    with socket() as taken:
        taken.bind(("127.0.0.1", 0))
        place = {"OPENAI_BASE_URL": f"http://127.0.0.1:{taken.getsockname()[1]}/v1", "OPENAI_API_KEY": "sk-secret"}
        code, _, err = cli("run", "--config", "mine.toml", "--model", "openai/m", "hello", **place)

    assert (code, "Traceback" in err) == (1, False)
    assert err.startswith("! the model call failed: openai: ")
    assert err.splitlines()[-1].startswith("error: openai: ")


@each_of(
    ("words", "environ", "model"),
    [
        (["--config", "mine.toml"], {}, "offline/mine"),
        ([], {"PLUGGENT_MODEL": "offline/its"}, "offline/its"),
        (["-m", "offline/o", "--config", "mine.toml"], {}, "offline/o"),
    ],
)
def test_the_model_of_the_settings_is_used_and_an_option_wins_over_it(cli, words, environ, model):
    (cli.work / "mine.toml").write_text('model = "offline/mine"\n')

    assert cli.document("run", *words, "x", **environ)["model"] == model


# ---- exit codes -------------------------------------------------------------------------


@each_of(
    ("words", "code", "says"),
    [
        (["send_mail to=bob"], 3, '→ send_mail(to="bob")  needs approval (host: its effects are messaging)\n'),
        (["send_mail to=bob"], 3, "denied: 'send_mail' needs approval: its effects are messaging\n"),
        (["send_mail to=bob"], 3, "run it in the foreground of a terminal"),
        (["--max-model-calls", "1", "weather city=Oslo"], 4,
         "stopped: limit 'model_calls' reached (1); the conversation is whole\n"),
        (["--config", "mine.toml", "hello"], 5, "plugin 'acme-policy' is required and does not run"),
    ],
)  # fmt: skip
def test_each_way_to_end_has_its_own_exit_code(cli, words, code, says):
    (cli.work / "mine.toml").write_text('[required]\nacme-policy = ["decide_tool_call"]\n')

    done = cli("run", *words, PLUGGENT_ON_ASK="deny")

    assert (done.code, done.out, says in done.err) == (code, "", True), done


def test_a_plugin_with_hooks_runs_after_it_was_accepted_and_not_before(cli):
    cli.plugin("acme-policy", policy("decide_input", 'Deny("not today")'), "hooks")

    before = cli("run", "hello")
    accepted = cli("trust", "--plugin", "acme-policy==1.0")
    after = cli("run", "hello")

    assert (before.code, accepted.code, after.code, after.out) == (2, 0, 3, "")
    assert "accept it: pluggent trust --plugin acme-policy" in before.err
    assert "· input  DENIED by acme-policy: not today\n" in after.err
    assert cli("run", "--without", "acme-policy", "weather city=Oslo").code == 0


def test_a_hook_plugin_that_cannot_be_loaded_keeps_a_turn_from_running(cli):
    cli.plugin("acme-policy", "import gone", "hooks", accepted=True)

    code, out, err = cli("run", "weather city=Oslo")

    assert (code, out) == (5, "")
    assert "plugin 'acme-policy' (acme-policy 1.0) could not be imported" in err
    assert "--without acme-policy for this once" in err
    assert '[grants] optional = ["acme-policy"]' in err
    (cli.work / "mine.toml").write_text('[grants]\noptional = ["acme-policy"]\n')
    assert cli("run", "--config", "mine.toml", "weather city=Oslo").code == 0


def test_an_incompatible_plugin_with_hooks_is_said_to_be_so(cli):
    cli.plugin("acme-policy", "", "hooks", requires=[NEEDS[0].replace("0.1,<0.2", "9")])

    done = cli("run", "hello")

    assert (done.code, "is incompatible: needs pluggent-hookspecs >=9" in done.err) == (5, True)


def test_safe_mode_leaves_the_built_in_plugins(cli):
    out = cli("run", "--safe", "weather city=Oslo").out

    assert "read_file" in out
    assert "weather" not in out


# ---- sessions ---------------------------------------------------------------------------


def test_a_session_goes_on_where_it_stopped(cli):
    first = cli.document("run", "weather city=Oslo")
    second = cli.document("run", "--session", first["session"], "weather city=Oslo")

    assert second["session"] == first["session"]
    assert (first["turn"], second["turn"]) == ("t1", "t2")
    assert (cli.state / "sessions" / f"{first['session']}.jsonl").is_file()


def test_a_session_that_is_not_saved_leaves_nothing(cli):
    assert cli.document("run", "--no-save", "weather city=Oslo")["session"] is None
    assert not (cli.state / "sessions").exists()


def test_a_state_folder_that_cannot_be_written_is_named_with_the_way_around_it(cli):
    cli.state.write_text("a file, not a folder")

    done = cli("run", "weather city=Oslo")

    assert (done.code in {1, 2}, str(cli.state) in done.err, "Traceback" in done.err) == (True, True, False)
    assert cli("run", "--no-save", "weather city=Oslo").code == 0


def test_a_task_of_a_plugin_that_nobody_awaits_fails_in_one_line(cli):
    source = """
import asyncio, gc
from pluggent_hookspecs import hookimpl, tool

async def fail():
    raise ValueError("no luck")

@tool(effects=())
async def beside() -> str:
    \"\"\"Start something.\"\"\"
    task = asyncio.create_task(fail())
    await asyncio.sleep(0)
    del task
    gc.collect()
    return "started"

class Plugin:
    @hookimpl
    def provide_tools(self, event):
        return [beside]
"""
    cli.plugin("acme-beside", source)

    done = cli("run", "--no-save", "beside")

    assert (done.code, done.out) == (0, "beside: started\n")
    assert "warning: something that a plugin runs beside failed, and all else continues: ValueError (at " in done.err
    assert "Traceback" not in done.err
    assert "no luck" not in done.err, "what no hook has seen may be a secret"
