"""``pluggent permissions``: what is configured, and what it says."""

import json
from pathlib import Path

import pytest
from cli_support import Cli
from permitting import settings
from pluggent_cli.main import main

SETTINGS = """
[plugins.pluggent-permissions]
mode = "observer"

[[plugins.pluggent-permissions.rules]]
id = "pages"
decision = "allow"
when.tool = "fetch"
when.arguments.url.url = { host = "*.example.org", port = [443, "8000-8010"] }

[[plugins.pluggent-permissions.rules]]
id = "late"
decision = "ask"
on = ["memory_read", "model_request", "embedding"]
when.principal = "eve"
tell_user = "Eve, at this hour?"
"""


@pytest.fixture
def config(tmp_path: Path) -> str:
    file = tmp_path / "policy.toml"
    file.write_text(SETTINGS, "utf-8")
    return str(file)


def test_every_rule_and_default_is_shown(config: str, capsys: pytest.CaptureFixture[str]):
    assert main(["--config", config, "permissions", "show"]) == 0

    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "mode observer"
    assert "default  deny   shell" in lines
    assert (
        lines[-2] == 'rule     ask    late: on ["memory_read", "model_request", "embedding"]  when {"principal": "eve"}'
    )
    assert lines[-1].startswith('rule     allow  pages: when {"tool": "fetch", "arguments": {"url": {"url": {"host": ')
    assert '"port": [443, "8000-8010"]' in lines[-1]


def test_what_is_shown_can_be_written_again(config: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    main(["--config", config, "permissions", "show", "--json"])
    shown = json.loads(capsys.readouterr().out)

    again = settings({"mode": shown["mode"], "defaults": shown["defaults"], "rules": shown["rules"]})
    assert [rule.id for rule in again.rules] == ["late", "pages"]
    assert again.rules[1].when.arguments["url"].url.port == (range(443, 444), range(8000, 8011))


def test_without_settings_it_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    (tmp_path / "empty.toml").touch()

    assert main(["--config", str(tmp_path / "empty.toml"), "permissions", "show"]) == 0
    assert capsys.readouterr().out.startswith("no rules and no defaults")


def test_programs_read_the_answer_as_json(config: str, capsys: pytest.CaptureFixture[str]):
    words = ["permissions", "check", "--read", "n", "--principal", "eve", "--json"]

    assert main(["--config", config, *words]) == 3
    assert json.loads(capsys.readouterr().out) == {
        "decision": "ask",
        "rules": [{"id": "late", "decision": "ask"}],
        "default": None,
        "tell_user": "Eve, at this hour? (rule 'late')",
        "tell_model": "a person has to approve this first",
    }


@pytest.mark.parametrize(
    ("words", "code", "first"),
    [
        (["--tool", "a:tool/fetch", "--args", '{"url": "https://a.example.org:8005"}'], 0, "allow"),
        (["--tool", "a:tool/fetch", "--args", '{"url": "https://a.example.org:9000"}'], 3, "deny"),
        (["--tool", "a:tool/other"], 3, "deny"),
        (["--tool", "a:tool/other", "--effects", "memory, network_read"], 0, "allow"),
        (["--tool", "a:tool/other", "--effects", "pure"], 0, "allow"),
        (["--model", "openai/x"], 3, "ask"),
        (["--model", "openai/x", "--principal", "bob"], 0, "no opinion"),
        (["--embedding", "openai/x"], 3, "ask"),
        (["--embedding", "openai/x", "--principal", "bob"], 0, "no opinion"),
        (["--write", "n", "--principal", "eve"], 0, "no opinion"),
    ],
)
def test_the_answer_is_in_the_words_and_the_exit_code(
    config: str, capsys: pytest.CaptureFixture[str], words: list[str], code: int, first: str
):
    assert main(["--config", config, "permissions", "check", *words]) == code
    assert capsys.readouterr().out.startswith(first)


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ([], "say one of --tool, --model, --embedding, --read and --write"),
        (["--tool", "a:tool/x", "--model", "a/b"], "say one of"),
        (["--tool", "fetch"], "'fetch' is not a capability id: write acme-tools:tool/search"),
        (["--tool", "a:tool/x", "--args", "{"], "--args: is not JSON"),
        (["--tool", "a:tool/x", "--args", "[1]"], "expected an object"),
        (["--tool", "a:tool/x", "--effects", "shel"], "unknown shel"),
        (["--model", "gpt"], "'gpt' is not a model"),
        (["--embedding", "ada"], "'ada' is not a model: write embedder/model"),
        (["--tol", "x"], "unrecognized arguments"),
    ],
)
def test_a_mistake_is_told_without_a_traceback(
    config: str, capsys: pytest.CaptureFixture[str], words: list[str], problem: str
):
    assert main(["--config", config, "permissions", "check", *words]) == 2
    assert problem in capsys.readouterr().err


def test_nothing_written_reaches_the_terminal_as_a_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    file = tmp_path / "p.toml"
    rule = '[[plugins.pluggent-permissions.rules]]\nid = "a\\u001b[2J"\ndecision = "deny"\nwhen.tool = "*"\n'
    file.write_text(rule, "utf-8")

    main(["--config", str(file), "permissions", "show"])
    main(["--config", str(file), "permissions", "check", "--tool", "a:tool/\x1b[2J"])
    main(["--config", str(file), "permissions", "check", "--tool", "a:tool/\x1b[2J", "--json"])

    assert "\x1b" not in capsys.readouterr().out


def test_it_runs_as_a_process_and_in_the_help(tmp_path: Path):
    cli = Cli(tmp_path)
    (cli.work / "p.toml").write_text(SETTINGS, "utf-8")

    done = cli("--config", "p.toml", "permissions", "check", "--tool", "a:tool/fetch", PLUGGENT_BLOCK=None)

    assert (done.code, done.err) == (3, "")
    assert done.out.startswith("deny\n  default for undeclared: deny\n")
    assert "permissions" in cli("--help").out
    assert "--effects" in cli("permissions", "--help", PLUGGENT_BLOCK=None).out
