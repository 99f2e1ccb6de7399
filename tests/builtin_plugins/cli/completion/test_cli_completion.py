"""Completion in real shells: what is offered, what it costs, and that no name can do harm."""

import json
import shutil
import subprocess

import pytest
from cli_support import COMMAND, PATIENCE_S, Cli
from each_of import each_of
from fake_distributions import install
from pluggent_cli.completion import words as completing
from pluggent_cli.completion.make_table import PLACE, made_table
from pluggent_cli.table import COMMANDS, SHELLS
from pluggent_hookspecs.hooks import HOOKS as ALL_HOOKS
from saved import save

BASH = """
eval "$("$@" completion bash)"
shift $#
while IFS= read -r line; do
    eval "COMP_WORDS=($line)"
    COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
    current=${COMP_WORDS[COMP_CWORD]}
    [ "$current" = "=" ] && current=""
    _pluggent pluggent "$current" "${COMP_WORDS[COMP_CWORD - 1]}"
    printf '%s\\n' "${#COMPREPLY[@]}" "${COMPREPLY[@]}"
done
"""
"""Reads a line of words, calls the function as bash does, and prints how many candidates there are, and them."""


def needs(shell: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(shutil.which(shell) is None, reason=f"no {shell} here")


def ask(cli: Cli, *typed: str, of: str = "bash") -> list[str]:
    """Return what the completer says, without descriptions."""
    done = cli("__complete", of, *typed)
    assert (done.code, done.err) == (0, "")
    return [line.partition("\t")[0] for line in done.out.splitlines()]


def in_shell(cli: Cli, *command: str, stdin: str = "") -> str:
    """Return what a shell prints."""
    done = subprocess.run(  # noqa: S603 (a shell is what is tested)
        command, cwd=cli.work, env=cli.environ(), input=stdin, capture_output=True, text=True, timeout=PATIENCE_S,
        check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def bash(cli: Cli, *lines: str) -> list[list[str]]:
    """Return what bash offers for each of *lines* after ``pluggent``, written as bash has taken the words apart."""
    typed = "".join(f"pluggent {line}\n" for line in lines)
    printed = in_shell(cli, "bash", "--norc", "-c", BASH, "bash", *COMMAND, stdin=typed).splitlines()
    offered = []
    while printed:
        count = int(printed.pop(0))
        offered.append(printed[:count])
        del printed[:count]
    return offered


# ---- what is offered --------------------------------------------------------------------


OFFERED = {
    "se": ["words", "setup", "sessions"],
    "sessions sh": ["words", "show"],
    "sessions show t": ["words", "trip"],
    "sessions delete trip ": ["words", "other"],
    "sessions search tr": ["words"],
    "run --session ": ["words", "trip", "other"],
    "run --color a": ["words", "auto", "always"],
    "run --color=a": ["words", "auto", "always"],
    "run --color = ": ["words", "auto", "always", "never"],
    "run --color =": ["words", "auto", "always", "never"],
    "run --work": ["words", "--workspace"],
    "run --workspace x": ["folders"],
    "run --config ": ["files"],
    "--config ": ["files"],
    "--config x.toml plugins sh": ["words", "show"],
    "--json hook": ["words", "hooks"],
    "--ver": ["words", "--verbose", "--version"],
    "hooks decide_mem": ["words", "decide_memory_write", "decide_memory_read"],
    "sessions export trip --format m": ["words", "markdown"],
    "sessions export trip -o ": ["files"],
    "completion ": ["words", *SHELLS],
    "help ses": ["words", "sessions"],
    "run hello -- --": ["words"],
    "run --without pluggent-guard,pluggent-offl": ["words", "pluggent-guard,pluggent-offline"],
    "plugins show pluggent-gu": ["words", "pluggent-guard"],
    "models off": ["words", "offline"],
    "models sh": ["words", "show"],
    "models refresh ": ["files"],
    "trust --plugin pluggent-gu": ["words", "pluggent-guard"],
    "trust ": ["files"],
    "nosuch ": ["files"],
    "nosuch --": ["words"],
}


def test_what_could_come_next_is_offered(tmp_path, monkeypatch, capsys):
    save(tmp_path / "sessions", "trip", modified_s=2.0)
    save(tmp_path / "sessions", "other", modified_s=1.0)
    monkeypatch.setenv("PLUGGENT_STATE_DIR", str(tmp_path))

    offered = {}
    for typed in OFFERED:
        completing.complete(["bash", *typed.split(" ")])
        offered[typed] = [line.partition("\t")[0] for line in capsys.readouterr().out.splitlines()]

    assert offered == OFFERED


def test_models_and_templates_of_the_persons_own_settings_are_offered(cli, clean_home):
    own = clean_home / ".config" / "pluggent" / "pluggent.toml"
    own.parent.mkdir(parents=True)
    own.write_text('[models.aliases]\nfast = "a/b"\n"f$x" = "a/b"\n[templates]\nshort = "In short: $input"\n')
    (cli.work / "pluggent.toml").write_text('[models.aliases]\nfalse-friend = "evil/x"\n')

    assert ask(cli, "run", "-m", "f") == ["words", "fast"]
    assert cli("__complete", "zsh", "run", "-t", "s").out == "words\nshort\tIn short: $input\n"


def test_all_commands_are_offered_and_fish_wants_the_option_before_its_value(cli):
    assert {one.name for one in COMMANDS} < set(ask(cli))
    assert ask(cli, "run", "--color=al", of="fish") == ["words", "--color=always"]


def test_tools_are_offered_once_they_were_listed(cli):
    before = ask(cli, "tools", "call", "fore")
    cli("tools")

    assert before == ["words"]
    assert ask(cli, "tools", "call", "fore") == ask(cli, "run", "--tool", "fore") == ["words", "forecast"]


def test_commands_of_plugins_are_offered_with_whose_they_are(cli):
    cli.plugin("acme-greet", kind="commands", summary="Says\thello\x1b[2J.")

    assert cli("__complete", "zsh", "gr").out == "words\ngreet\tacme-greet 1.0: Says\\thello\\x1b[2J.\n"


@each_of("shell", SHELLS)
def test_names_that_a_shell_could_take_for_more_are_left_out(cli, shell):
    evil = ["$(touch PWNED)", "`id`", "a;b", "a b", "-rf", "a'b", 'a"b', "a\\b", "é", "x>y", "a&b", "*"]
    install(cli.site, "acme-evil", {f"commands/{name}": "acme_evil:Plugin" for name in [*evil, "fine"]})
    cli.state.mkdir(exist_ok=True)
    (cli.state / "tool-names").write_text("\n".join(["ok_tool", *evil]))

    commands = set(ask(cli, "", of=shell)) - {"words", "help", *(one.name for one in COMMANDS)}

    assert commands - {"audit", "budget", "mcp", "ollama", "permissions"} == {"fine"}
    assert set(ask(cli, "tools", "schema", "", of=shell)) & {*evil, "ok_tool"} == {"ok_tool"}


def test_nothing_that_lies_about_is_an_obstacle(cli):
    (cli.work / "pluggent.toml").write_text("= broken")
    (cli.state / "sessions").mkdir(parents=True)
    (cli.state / "sessions" / "-x.jsonl").touch()
    (cli.state / "tool-names").write_bytes(b"\xff\x00")

    assert ask(cli, "sessions", "show", "") == ["words"]
    assert "words" in ask(cli, "tools", "call", "")
    assert cli("__complete").code == 0


# ---- what it costs ----------------------------------------------------------------------


@each_of("typed", ["ru", "run --s", "run --tool ", "run -m ", "run -t ", "sessions show ", "plugins show ", "hooks "])
def test_completing_imports_no_parser_no_plugin_and_no_third_party_package(cli, typed):
    save(cli.state / "sessions", "trip", modified_s=1.0)

    modules = cli.imported("__complete", "bash", *typed.split(" "))

    tops = {name.partition(".")[0] for name in modules}
    third = {"attr", "attrs", "pluggy", "cattrs", "msgspec", "jsonschema_rs", "asyncio", "packaging", "argparse"}
    names = ("cli", "contract_values", "host", "hookspecs", "plugin_loader", "state_files", "transcript")
    assert not tops & third
    assert not {one.module for one in COMMANDS} & modules
    assert {top for top in tops if top.startswith("pluggent")} <= {f"pluggent_{name}" for name in names}
    (cli.state / "sessions" / "trip.jsonl").unlink()


def test_the_table_of_options_is_that_of_the_parsers():
    text = PLACE.read_text(encoding="utf-8")

    assert text == made_table(), "make it anew: python -m pluggent_cli.completion.make_table"
    assert set(json.loads(text)["options"]) == {"", *(one.name for one in COMMANDS)}
    assert tuple(json.loads(text)["hooks"]) == tuple(ALL_HOOKS)


def test_every_value_of_an_option_is_of_a_kind_that_is_known():
    free = {"TEXT", "N", "USD", "SECONDS", "AGE", "PROVIDER/MODEL", "NAME=PATTERN", "NAME=VALUE", "REFERENCE", ""}
    kinds = {takes for own in completing.table()["options"].values() for takes, _ in own.values()}

    assert kinds - free - set(completing.OFFERS) - set(completing.PATHS) == set()


# ---- scripts ----------------------------------------------------------------------------


def test_a_shell_has_to_be_named(cli):
    assert cli("completion").code == 2
    assert "yours is zsh" in cli("completion", SHELL="/bin/zsh").err
    assert "did you mean 'bash'?" in cli("completion", "bsh").err
    assert set(json.loads(cli("completion", "fish", "--json").out)) == {"shell", "script"}


def test_the_script_runs_this_installation_and_never_what_was_typed(cli):
    words = cli("completion", "bash").out.split("< <(")[1].split(" __complete")[0]

    assert words.endswith("-P -m pluggent_cli")
    assert "COMP_WORDS[0]" not in cli("completion", "bash").out


@needs("bash")
def test_bash_completes(cli):
    save(cli.state / "sessions", "trip")
    (cli.work / "folder").mkdir()
    for name in ("two words.toml", "$(touch PWNED).toml", "-dash"):
        (cli.work / name).touch()

    offered = bash(
        cli, "ses", "sessions show ''", "run --color = al", "run --color =", "run --config ''", "run --workspace ''",
        "plugins xyzzy", "run '$(touch PWNED)'",
    )  # fmt: skip

    assert [sorted(each) for each in offered] == [
        ["sessions"], ["trip"], ["always"], ["always", "auto", "never"],
        ["$(touch PWNED).toml", "-dash", "folder", "two words.toml"], ["folder"], [], [],
    ]  # fmt: skip
    assert not (cli.work / "PWNED").exists()


@needs("bash")
def test_bash_completes_while_a_line_is_typed(cli):
    save(cli.state / "sessions", "trip")
    (cli.work / "two words.toml").touch()
    (cli.work / "rc").write_text(f"PS1='$ '\n{cli('completion', 'bash').out}")
    done = cli.talk(script="exec bash --noprofile --rcfile rc -i", keys=[
        "$ ", "pluggent sess\tsh\ttr\t", "pluggent sessions show trip ", "\x15pluggent run --color=al\t",
        "--color=always", "\x15pluggent run --config=tw\t", "--config=two\\ words.toml", "\x15exit\n",
    ])  # fmt: skip

    assert done.code == 0


@needs("zsh")
def test_zsh_completes_while_a_line_is_typed(cli):
    save(cli.state / "sessions", "trip")
    (cli.work / "two words.toml").touch()
    (cli.work / ".zshrc").write_text(f"PS1='$ '\nautoload -U compinit; compinit -u -D\n{cli('completion', 'zsh').out}")
    done = cli.talk(script="exec zsh -d -i", ZDOTDIR=str(cli.work), keys=[
        "$ ", "pluggent sess\tsh\ttr\t", "trip", "\x15pluggent run --color=al\t", "always",
        "\x15pluggent run --config=tw\t", "words.toml", "\x15exit\n",
    ])  # fmt: skip

    assert done.code == 0


@needs("fish")
def test_fish_completes(cli):
    save(cli.state / "sessions", "trip")
    (cli.work / "two words.toml").touch()
    (cli.work / "folder").mkdir()
    (cli.work / "script.fish").write_text(cli("completion", "fish").out)

    def fish(line: str) -> list[str]:
        offered = in_shell(cli, "fish", "--no-config", "-c", f"source script.fish; complete -C '{line}'")
        return [one.partition("\t")[0] for one in offered.splitlines()]

    assert fish("pluggent ses") == ["sessions"]
    assert fish("pluggent sessions show ") == ["trip"]
    assert fish("pluggent run --color=al") == ["--color=always"]
    assert fish("pluggent run --config tw") == ["two words.toml"]
    assert fish("pluggent run --config=tw") == ["--config=two words.toml"]
    assert fish("pluggent run --workspace ") == ["folder/"]
    assert not list((cli.work / "folder").iterdir())
