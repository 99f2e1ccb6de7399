"""Arguments: one parser for each command, made when the command is typed, and help that teaches."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, NoReturn

from pluggent_hookspecs.errors import ConfigError
from pluggent_plugin_loader.suggestions import did_you_mean

from pluggent_cli import exits
from pluggent_cli.table import COMMANDS
from pluggent_cli.terminal.console import width

PROGRAM = "pluggent"
LEADING_WITH_VALUE = ("--config", "--without", "--color")
"""Options that may stand before the command and take the next word as their value."""

_OPTION = re.compile(r"--[a-z][a-z-]*")


class Parser(argparse.ArgumentParser):
    """Refuses with an error that names the nearest option, instead of ending the process."""

    def __init__(self, prog: str, usage: str | None, description: str, epilog: str = "") -> None:
        super().__init__(
            prog=prog,
            usage=usage,
            description=description,
            epilog=epilog,
            formatter_class=_Formatter,
            allow_abbrev=False,
            add_help=False,
        )
        self.color = False  # Python 3.14 would colour by rules of its own

    @classmethod
    def bare(cls, name: str, description: str) -> Parser:
        """Return the parser of a plugin's command: its options are its own, but for ``--help``."""
        made = cls(f"{PROGRAM} {name}", None, description)
        made.add_argument("-h", "--help", action="help", help="show this help")
        return made

    def print_help(self, file: Any = None) -> None:
        """Write the help; argparse itself ignores that it cannot be written."""
        out = sys.stdout if file is None else file
        if out is not None:
            out.write(self.format_help())

    def error(self, message: str) -> NoReturn:
        """Raise ConfigError, with the option that was probably meant."""
        known = set(_OPTION.findall(self.format_help()))
        wrong = _OPTION.findall(message) if message.startswith("unrecognized") else ()
        meant = next((near for word in wrong if (near := did_you_mean(word, known))), "")
        raise ConfigError(self.prog, [f"{message}{full_stop(meant)} See {self.prog} --help"])


class _Formatter(argparse.RawDescriptionHelpFormatter):
    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=28, width=width())


def command_parser(name: str, usage: str, description: str, epilog: str) -> Parser:
    """Return a parser for the command *name*, with the options that every command has."""
    parser = Parser(f"{PROGRAM} {name}", f"{PROGRAM} {name} {usage}".rstrip(), description, epilog)
    add_common(parser)
    return parser


def add_common(parser: Parser) -> None:
    """Add the options that every command has."""
    common = parser.add_argument_group("common options, before or after the command")
    common.add_argument("--config", metavar="FILE", help="read these settings instead of ./pluggent.toml")
    common.add_argument(
        "--without", metavar="PLUGIN", action="append", default=[], help="leave this plugin out (repeatable)"
    )
    common.add_argument("--safe", action="store_true", help="run built-in plugins only")
    common.add_argument("--json", action="store_true", help="print one JSON document on standard output")
    common.add_argument("-q", "--quiet", action="store_true", help="no notes on standard error, errors only")
    common.add_argument("-v", "--verbose", action="store_true", help="more notes: model calls, every decision")
    common.add_argument("--color", metavar="WHEN", type=one_of("auto", "always", "never"), default="auto",
                        help="auto (on a terminal; NO_COLOR and FORCE_COLOR count), always, never")  # fmt: skip
    common.add_argument("--debug", action="store_true", help="tracebacks and debug messages (or PLUGGENT_DEBUG=1)")
    common.add_argument("-h", "--help", action="help", help="show this help")


def full_stop(meant: str) -> str:
    """Return *meant*, the suggestion of a name or nothing, as the end of a sentence."""
    return meant or "."


def typed_text(typed: str) -> str:
    r"""Return *typed* as UTF-8 text where the locale could not read it: Python escapes its bytes then.

    >>> typed_text("caf\udcc3\udca9")
    'café'
    """
    try:
        return typed.encode(errors="surrogateescape").decode()
    except UnicodeError:
        return typed


def whole_number(text: str) -> int:
    """Read the number of an option. Raises ArgumentTypeError."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number")
    return int(text)


def seconds(text: str) -> float:
    """Read the seconds of an option. Raises ArgumentTypeError."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds above 0")
    return value


def one_of(*choices: str) -> Callable[[str], str]:
    """Return a type of argument that takes one of *choices*."""

    def choice(text: str) -> str:
        if text not in choices:
            raise argparse.ArgumentTypeError(
                f"{text!r} is not one of {', '.join(choices)}{did_you_mean(text, choices)}"
            )
        return text

    return choice


def split(arguments: Sequence[str]) -> tuple[list[str], str, list[str]]:
    """Return the options before the command, the command (``""`` if there is none), and the rest.

    >>> split(["--without", "acme", "run", "hello"])
    (['--without', 'acme'], 'run', ['hello'])
    """
    at = 0
    while at < len(arguments) and arguments[at].startswith("-") and arguments[at] != "--":
        at += 2 if arguments[at] in LEADING_WITH_VALUE else 1
    if at >= len(arguments):
        return list(arguments), "", []
    return list(arguments[:at]), arguments[at], list(arguments[at + 1 :])


def examples(*lines: str) -> str:
    r"""Return the epilog of a command's help.

    >>> examples("pluggent plugins")
    'examples:\n  pluggent plugins'
    """
    return "\n".join(("examples:", *(f"  {line}" for line in lines)))


def root_parser(plugin_commands: Iterable[tuple[str, str]]) -> Parser:
    """Return the parser of ``pluggent`` itself; *plugin_commands* are (name, help)."""
    names = [(command.name, command.help) for command in COMMANDS]
    text = "Runs AI agents whose every capability is a plugin, under policies that nothing gets around.\n\n"
    text += _listing("commands", names)
    if others := list(plugin_commands):
        text += "\n\n" + _listing("commands of plugins", others)
    epilog = examples(
        'pluggent run "weather city=Beijing"        needs no key: the offline model makes the calls you type',
        "pluggent setup                             choose a provider and a model, store its key",
        "pluggent plugins                           what is installed, and what is wrong with it",
        "pluggent run --help                        every command explains itself",
    )
    epilog += "\n\n" + _listing("exit codes", [(str(code), meaning) for code, meaning in exits.MEANINGS])
    parser = Parser(PROGRAM, f"{PROGRAM} [OPTIONS] COMMAND [ARGUMENTS]", text, epilog)
    add_common(parser)
    parser.add_argument("-V", "--version", action="store_true", help="show the version")
    return parser


def _listing(title: str, rows: Sequence[tuple[str, str]]) -> str:
    wide = max(len(name) for name, _ in rows)
    return "\n".join((f"{title}:", *(f"  {name:<{wide}}  {text}" for name, text in rows)))


# ---- the words after a command's name ---------------------------------------------------


def action(command: str, words: Sequence[str], known: Collection[str]) -> tuple[str, list[str]]:
    """Return the action among *known*, ``""`` if no word was typed, and the words behind it.

    Raises ConfigError naming the nearest one.

    >>> action("tools", ["schema", "weather"], ["schema", "call"])
    ('schema', ['weather'])
    """
    if not words:
        return "", []
    first, *rest = words
    if first not in known:
        choices = " or ".join(known)
        raise ConfigError(f"pluggent {command}", [f"expected {choices}, got {first!r}{did_you_mean(first, known)}"])
    return first, rest


def one_name(command: str, words: Sequence[str]) -> str:
    """Return the one name that *command* wants. Raises ConfigError."""
    if len(words) != 1:
        problem = "needs a NAME" if not words else f"takes one NAME, got {len(words)}"
        raise ConfigError(f"pluggent {command}", [f"{problem}. See pluggent {command.partition(' ')[0]} --help"])
    return words[0]


# ---- options of a turn ------------------------------------------------------------------


_LIMITS = {
    "limits.model_calls": "max_model_calls",
    "limits.tool_rounds": "max_tool_rounds",
    "limits.tokens": "max_tokens",
    "limits.cost_usd": "max_cost",
    "limits.wall_s": "timeout",
}
"""Which setting an option is."""


def add_talking_options(made: Parser) -> None:
    """Add them to the parser of a command."""
    made.add_argument("-m", "--model", metavar="MODEL", default="", help="such as openai/gpt-5-mini, gpt-5-mini, or an"
                      " alias of the settings")  # fmt: skip
    made.add_argument("-o", "--option", metavar="NAME=VALUE", type=typed_text, action="append", default=[],
                      help="a parameter of the model, such as temperature=0.2 (repeatable)")  # fmt: skip
    made.add_argument("--system", metavar="TEXT", type=typed_text, help="the system prompt")
    made.add_argument("-c", "--continue", dest="continues", action="store_true", help="continue the last session of"
                      " this folder")  # fmt: skip
    made.add_argument("--session", metavar="ID", default="", help="continue this session, or begin one of this name")
    made.add_argument("--no-save", action="store_true", help="keep the session in memory only")
    made.add_argument("-a", "--attach", metavar="FILE", action="append", default=[], help="send this file or"
                      " URL along: image, PDF, sound, text; - is standard input (repeatable)")  # fmt: skip
    made.add_argument("--image", metavar="PATH", action="append", default=[], help="send this image along: a file or"
                      " a URL (repeatable)")  # fmt: skip
    made.add_argument("--tool", metavar="TOOL", action="append", default=[], help="offer this tool or plugin's tools"
                      " (repeatable; default: all that are installed)")  # fmt: skip
    made.add_argument("--no-tools", action="store_true", help="offer no tools")
    made.add_argument("--workspace", metavar="DIR", help="the folder that tools work in (default: where you are,"
                      " unless that is your home folder)")  # fmt: skip
    made.add_argument("--no-stream", action="store_true", help="print the answer when it is whole")
    made.add_argument("--plain", action="store_true", help="print the answer as it was written, also on a terminal")
    made.set_defaults(parameters=None)
    add_limits(made)


def add_limits(made: Parser) -> None:
    """Add the options that limit a turn."""
    limits = made.add_argument_group("limits of a turn")
    limits.add_argument("--max-model-calls", metavar="N", type=whole_number, help="end it after N model calls")
    limits.add_argument("--max-tool-rounds", metavar="N", type=whole_number, help="end it after N rounds of tool calls")
    limits.add_argument("--max-tokens", metavar="N", type=whole_number, help="end it after N tokens, in and out")
    limits.add_argument("--max-cost", metavar="USD", type=dollars, help="end it after this many US dollars, where the"
                        " provider knows its prices")  # fmt: skip
    limits.add_argument("--timeout", metavar="SECONDS", type=seconds, help="end it after this long; your own thinking"
                        " does not count")  # fmt: skip


def dollars(text: str) -> float:
    """Read the amount of an option. Raises ArgumentTypeError."""
    try:
        value = float(text.removeprefix("$"))
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of US dollars")
    return value


def limit_flags(options: argparse.Namespace) -> Mapping[str, object]:
    """Return the settings, by dotted keys, that *options* make. Raises ConfigError for what contradicts itself."""
    if options.tool and options.no_tools:
        raise ConfigError("--no-tools", ["contradicts --tool; give one of the two"])
    if getattr(options, "continues", False):
        other = next((f"--{name.replace('_', '-')}" for name in ("session", "no_save") if getattr(options, name)), "")
        if other:
            raise ConfigError("--continue", [f"contradicts {other}; give one of the two"])
    given = {key: getattr(options, name) for key, name in _LIMITS.items()}
    return {key: value for key, value in given.items() if value is not None}
