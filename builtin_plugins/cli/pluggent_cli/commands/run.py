"""``pluggent run``: one turn. The answer goes to standard output, what happens to standard error."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sequence

from pluggent_hookspecs.errors import ConfigError
from pluggent_hookspecs.messages import Part
from pluggent_host.turns.step import Why

from pluggent_cli import process
from pluggent_cli.chat.loop import CODES, open_talk, read_images
from pluggent_cli.host_access import Setup, prepare
from pluggent_cli.parsing import Parser, add_talking_options, command_parser, examples, limit_flags, typed_text
from pluggent_cli.process import log_to
from pluggent_cli.terminal.console import Console
from pluggent_cli.terminal.tty import Keys

_STANDARD_INPUT = "-"


def parser() -> Parser:
    """Return the parser of this command."""
    made = command_parser(
        "run",
        "[OPTIONS] [PROMPT …]",
        "Run one turn: the prompt goes to the model, its tool calls pass the policies, the answer is printed.\n"
        "Without a model configured, the offline model answers: it makes the tool calls that you type.",
        examples(
            'pluggent run "weather city=Beijing & forecast city=Paris days=2"',
            'pluggent run --model openai/gpt-5-mini "Shall I take an umbrella in Paris?"',
            'git diff | pluggent run "What does this change do?" -',
            'pluggent run --image cat.png "What is this?"',
            'pluggent run --session trip "Where was I going?"      continue an earlier conversation',
            "pluggent run --json --no-tools < question.txt",
        )
        + "\n\nA call that needs approval is put to you at the terminal. Where there is none the turn pauses (exit\n"
        'code 6) and says how to approve it and continue; with --no-save, or on_ask = "deny", it is denied (3).',
    )
    made.add_argument(
        "prompt",
        metavar="PROMPT",
        nargs="*",
        type=typed_text,
        help="what to say; - is standard input, as is none at all",
    )
    add_talking_options(made)
    return made


def run(options: argparse.Namespace, console: Console) -> int:
    """Run the turn and return the exit code."""
    flags = limit_flags(options)
    content: tuple[str | Part, ...] = (read_prompt(options.prompt), *read_images(options))
    setup = prepare(options, console, flags)
    log_to(console, debug=options.debug)
    keys = Keys()
    return process.run(_turn(setup, options, console, content, keys), before_dying=keys.release)


async def _turn(
    setup: Setup, options: argparse.Namespace, console: Console, content: Sequence[str | Part], keys: Keys
) -> int:
    async with open_talk(setup, options, console, keys, pausing=True) as talk:
        how_to_go_on = 'run --session {id} "…"'
        if talk.session.paused:
            console.note(console.err_ink("yellow", "note: what waited for an approval here is withdrawn by this"))
        try:
            result = await talk.turn(content)
        except asyncio.CancelledError:
            console.note("\ninterrupted" if console.err_is_terminal else "interrupted")
            if not options.session:
                talk.say_where(how_to_go_on)
            raise
        if console.json:
            console.document(talk.document(result))
        talk.explain(result, answer_with="with --session")
        if not options.session and result.why is not Why.PAUSED:
            talk.say_where(how_to_go_on)
    return CODES[result.why]


def read_prompt(words: Sequence[str]) -> str:
    """Return *words* as one text; ``-`` among them, or no word at all, is standard input.

    Raises ConfigError for what is empty or not UTF-8 text, and instead of waiting for a terminal.

    >>> read_prompt(["what", "is", "this?"])
    'what is this?'
    """
    at = words.index(_STANDARD_INPUT) if _STANDARD_INPUT in words else len(words)
    pieces = [" ".join(words[:at])]
    if not words or at < len(words):
        pieces += [_read_standard_input(asked=bool(words)), " ".join(words[at + 1 :])]
    text = "\n\n".join(filter(None, pieces))
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ConfigError("PROMPT", ["is not UTF-8 text"]) from error
    if not text.strip():
        raise ConfigError("PROMPT", ['is empty; say something: pluggent run "weather city=Beijing"'])
    return text


def _read_standard_input(*, asked: bool) -> str:
    if sys.stdin is None:
        raise ConfigError("PROMPT", ["there is none, and standard input is closed"])
    if sys.stdin.isatty() and not asked:
        raise ConfigError("PROMPT", ['say something: pluggent run "weather city=Beijing", or pipe it in'])
    try:
        return sys.stdin.buffer.read().decode("utf-8-sig").strip("\n")
    except UnicodeDecodeError as error:
        raise ConfigError("standard input", [f"is not UTF-8 text (byte {error.start})"]) from error
    except OSError as error:
        raise ConfigError("standard input", [f"cannot be read: {error.strerror}"]) from error
