"""The options of every command that talks to a model, and what they come to."""

from __future__ import annotations

import argparse
from collections.abc import Mapping

from pluggent_hookspecs.errors import ConfigError
from pluggent_hookspecs.messages import Image

from pluggent_cli.parsing import Parser, seconds, whole_number

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
    made.add_argument("-m", "--model", metavar="PROVIDER/MODEL", default="", help="such as openai/gpt-5-mini")
    made.add_argument("--system", metavar="TEXT", help="the system prompt")
    made.add_argument("--session", metavar="ID", default="", help="go on with this session, or begin one of this name")
    made.add_argument("--no-save", action="store_true", help="keep the session in memory only")
    made.add_argument("--image", metavar="PATH", action="append", default=[], help="send this picture along: a file or"
                      " a URL (repeatable)")  # fmt: skip
    made.add_argument("--tool", metavar="TOOL", action="append", default=[], help="offer this tool or plugin's tools"
                      " (repeatable; default: all that are installed)")  # fmt: skip
    made.add_argument("--no-tools", action="store_true", help="offer no tools")
    made.add_argument("--workspace", metavar="DIR", help="the folder that tools work in (default: where you are)")
    made.add_argument("--no-stream", action="store_true", help="print the answer when it is whole")
    made.add_argument("--plain", action="store_true", help="print the answer as it was written, also on a terminal")
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
    given = {key: getattr(options, name) for key, name in _LIMITS.items()}
    return {key: value for key, value in given.items() if value is not None}


def read_images(options: argparse.Namespace) -> tuple[Image, ...]:
    """Return the pictures that *options* name. Raises ConfigError naming every one that cannot be sent."""
    if not options.image:
        return ()
    from pluggent_host.attachments import image  # here and not above: most turns have no picture

    read: list[Image] = []
    problems: list[str] = []
    for path in options.image:
        try:
            read.append(image(path))
        except ConfigError as error:
            problems.append(str(error))
    if problems:
        raise ConfigError("--image", problems)
    return tuple(read)
