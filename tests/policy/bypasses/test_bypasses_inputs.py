"""Whatever way something is handed to a turn of the command, the hooks of its input see it before any model does."""

from collections.abc import Mapping

import pytest
from cli_support import Cli
from each_of import each_of
from fake_distributions import install
from pluggent_cli.completion import words
from screens import install_speaker

SECRET = "xyzzy-7141"
PDF = b"%PDF-1.7 " + SECRET.encode()
LOOKS = f"""
import base64
from pluggent_hookspecs import Deny, hookimpl

def _words(part):
    data = getattr(part, "data", None)
    return str(base64.b64decode(data)) if data else getattr(part, "text", "")

class Plugin:
    @hookimpl
    def decide_input(self, event):
        return Deny("seen") if any("{SECRET}" in _words(part) for part in event.message.content) else None
"""
SETTINGS = f"""
[templates]
own = "{SECRET}: $input"
given = "Say $word."
"""
WAYS: Mapping[str, tuple[tuple[str, ...], bytes]] = {
    "PROMPT": ((SECRET,), b""),
    "PROMPT, alone from standard input": ((), SECRET.encode()),
    "PROMPT, spliced from standard input": (("a", "-", "b"), SECRET.encode()),
    "PROMPT, followed by standard input": (("summarise",), SECRET.encode("utf-16")),
    "--file": (("x", "-f", "notes.txt"), b""),
    "--attach": (("x", "-a", "notes.txt"), b""),
    "--attach, a document": (("x", "-a", "paper.pdf"), b""),
    "--attach, standard input": (("x", "-a", "-"), PDF),
    "--image": (("x", "--image", "cat.png"), b""),
    "--template": (("-t", "own", "x"), b""),
    "--param": (("-t", "given", "-p", f"word={SECRET}"), b""),
    "--continue": (("-c", SECRET), b""),
    "--session": (("--session", "s", SECRET), b""),
    "--schema": (("--schema", "a", SECRET), b""),
    "--extract": (("-x", SECRET), b""),
    "--no-stream": (("--no-stream", SECRET), b""),
}
"""Each way that content goes into a turn, or that a turn goes: words of ``run``, and what is piped in."""
CARRY_NOTHING = {
    "--model": "which model is asked; hooks of requests see it",
    "--option": "how the model answers; hooks of requests see it",
    "--system": "the operator's own words; hooks of requests see them",
    "--no-save": "where a session is kept", "--tool": "what is offered", "--no-tools": "what is offered",
    "--workspace": "where tools work", "--plain": "how the answer looks",
    "--config": "settings", "--without": "settings", "--safe": "settings",
    "--json": "how the answer looks", "--quiet": "how the answer looks", "--verbose": "how the answer looks",
    "--color": "how the answer looks", "--debug": "how errors look", "--help": "it ends before a turn",
    "--max-model-calls": "a limit", "--max-tool-rounds": "a limit", "--max-tokens": "a limit", "--max-cost": "a limit",
    "--timeout": "a limit",
}  # fmt: skip
"""The options that hand nothing to a turn, each with the reason."""


@pytest.fixture
def guarded(cli: Cli) -> Cli:
    """Return a command whose policy denies an input with the secret in it, whatever part that is in."""
    install_speaker(cli.site)
    install(cli.site, "acme-looks", {"hooks/looks": "acme_looks:Plugin"}, modules={"acme_looks": LOOKS})
    assert cli("trust", "--plugin", "acme-looks==1.0").code == 0
    for name, data in {"notes.txt": SECRET.encode(), "paper.pdf": PDF}.items():
        (cli.work / name).write_bytes(data)
    (cli.work / "cat.png").write_bytes(b"\x89PNG\r\n\x1a\n" + SECRET.encode())
    (cli.work / "mine.toml").write_text(f'model = "speaker/x"\n{SETTINGS}')
    assert cli("run", "--config", "mine.toml", "hello").out == "x heard: hello\n"
    return cli


@each_of("way", WAYS)
def test_the_policy_sees_what_is_handed_over_and_the_model_does_not(guarded: Cli, way: str) -> None:
    arguments, stdin = WAYS[way]

    done = guarded("run", "--config", "mine.toml", *arguments, stdin=stdin)

    assert (done.code, done.out, "denied: seen" in done.err) == (3, "", True), done


@each_of("options", [("-a", "notes.txt"), ("-a", "paper.pdf"), ("--image", "cat.png")])
def test_the_policy_sees_what_goes_with_the_first_message_of_a_chat(guarded: Cli, options: tuple[str, ...]) -> None:
    done = guarded("chat", "--config", "mine.toml", *options, stdin="look\n")

    assert (done.code, done.out, "denied: seen" in done.err) == (3, "", True), done


@each_of("command", ["run", "chat"])
def test_every_option_is_a_way_in_or_says_why_not(command: str) -> None:
    table = words.table()["options"]
    options = {name for name in (*table[command], *table[""]) if name.startswith("--")} - {"--version"}
    ways = {way.partition(",")[0] for way in WAYS}

    assert options - ways - {*CARRY_NOTHING} == set()
    assert ways & {*CARRY_NOTHING} == set()
