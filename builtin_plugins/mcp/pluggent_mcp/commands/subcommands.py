"""The subcommands of ``pluggent mcp``; the parser of one is made when it is used."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from pluggent_mcp.servers_file import closest_name

Add = Callable[[argparse.ArgumentParser], object]


class Subcommand(NamedTuple):
    """One command: its help, examples, and the arguments that it takes."""

    help: str
    more: str
    examples: Sequence[str]
    configure: Add
    usage: str = ""
    """The usage line, if argparse cannot derive it."""


def _json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def _list(parser: argparse.ArgumentParser) -> None:
    _json(parser)


def _test(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("names", nargs="*", metavar="NAME", help="of a server; default: all that are switched on")
    _json(parser)


def _tools(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="of a server")
    _json(parser)


def _call(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="of a server")
    parser.add_argument("tool", metavar="TOOL", help="as the server calls it")
    parser.add_argument(
        "words", nargs="*", default=[], metavar="ARGUMENT", help="KEY=VALUE, KEY:=JSON, or one JSON object"
    )
    _json(parser)


def _add(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("words", nargs="*", metavar="NAME", help="how to call it, and its URL if it has one")
    add("--from", dest="file", metavar="FILE", help="take these servers, or all, from another host's file")
    add("--env", action="append", default=[], metavar="KEY=VALUE", help="for its process; ${NAME} is read at its start")
    add("--header", action="append", default=[], metavar="KEY=VALUE", help="for its URL; ${NAME} as above")
    add("--oauth", action="store_true", help="a person logs in to it: pluggent mcp login NAME, when it is added")
    add("--cwd", default="", metavar="DIR", help="where its process runs")
    add("--accept", action="store_true", help="believe what it says of its tools; else that is a comment")
    add("--no-start", action="store_true", help="do not start it: nothing is proposed, nothing is pinned")
    add("--force", action="store_true", help="replace a server of that name")


def _remove(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="of a server in your settings")


def _login(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("name", metavar="NAME", help="of a server with oauth in its settings")
    add("--no-browser", action="store_true", help="open none, only say what is to be opened")
    add("--scope", action="append", default=[], metavar="SCOPE", help="ask for this too; may be repeated")
    add("--timeout", type=float, default=300.0, metavar="S", help="seconds to wait for you (default: 300)")


def _logout(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="of a server")


def _serve(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--tools", nargs="+", metavar="PATTERN", help="which tools to export; default: the settings say")
    add("--resources", nargs="+", metavar="PATTERN", help="whose resources to export; default: as above")
    add("--prompts", nargs="+", metavar="PATTERN", help="whose prompts to export; default: as above")
    add("--http", nargs="?", const="", metavar="HOST:PORT", help="not stdio but HTTP (default: 127.0.0.1:8722)")
    add("--token", metavar="REFERENCE", help="env:NAME or file:PATH of what clients have to know, or none")


SUBCOMMANDS: Mapping[str, Subcommand] = {
    "list": Subcommand(
        "the servers that are set, none of which is started",
        "",
        ("pluggent mcp list", "pluggent mcp list --json"),
        _list,
    ),
    "test": Subcommand(
        "start servers, shake hands, list their tools, and say how long each took",
        "What a server wrote to stderr is shown if it fails.",
        ("pluggent mcp test", "pluggent mcp test files"),
        _test,
    ),
    "tools": Subcommand(
        "the tools of a server, what they do, and which of them ask",
        "x:mcp-write means: it writes inside the server, to an unknown place, and destroys nothing.",
        ("pluggent mcp tools files",),
        _tools,
    ),
    "call": Subcommand(
        "call a tool of a server",
        "The call passes every policy that a model's call would pass, and is recorded as one.",
        (
            "pluggent mcp call time get_current_time timezone=Europe/Oslo",
            'pluggent mcp call files read_file \'{"path": "notes.txt"}\'',
            "pluggent mcp call files list_directory depth:=2     := takes the value as JSON in any case",
        ),
        _call,
    ),
    "add": Subcommand(
        "write a server into your settings",
        "It is started once, to see its tools. Its own description of them is written as a comment after their names:\n"
        "take away the # where it is true. Definitions are pinned: a tool that changes is left out until you look.\n"
        "x:mcp-write means: it writes inside the server, to an unknown place, and destroys nothing.",
        (
            "pluggent mcp add time -- mcp-server-time --local-timezone Europe/Oslo",
            "pluggent mcp add issues https://mcp.example.com/mcp --header 'Authorization=Bearer ${ISSUES_TOKEN}'",
            "pluggent mcp add --from .mcp.json files time",
        ),
        _add,
        "pluggent mcp add [OPTIONS] NAME URL\n"
        "       pluggent mcp add [OPTIONS] NAME -- COMMAND [ARGUMENT ...]\n"
        "       pluggent mcp add [OPTIONS] --from FILE [NAME ...]",
    ),
    "remove": Subcommand("take a server out of your settings", "", ("pluggent mcp remove time",), _remove),
    "login": Subcommand(
        "log in to a server that wants it (OAuth), in a browser",
        "Only this command opens a browser. The tokens are kept for this server at this address, and renewed.",
        ("pluggent mcp login issues", "pluggent mcp login issues --no-browser"),
        _login,
    ),
    "logout": Subcommand(
        "forget the login to a server, here and at its authorization server",
        "",
        ("pluggent mcp logout issues",),
        _logout,
    ),
    "serve": Subcommand(
        "let other hosts use tools, resources and prompts of this one, under its policies",
        "Over stdin and stdout, for a host that starts this command; or over HTTP.",
        (
            "pluggent mcp serve --tools weather 'files__*'",
            "pluggent mcp serve --resources 'files__*' --prompts 'files__*'",
            "pluggent mcp serve --http --tools weather",
            "pluggent mcp serve --http 0.0.0.0:8722 --token env:PLUGGENT_MCP_TOKEN --tools weather",
        ),
        _serve,
    ),
}


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``pluggent mcp``: a subcommand and its own arguments."""
    width = max(len(name) for name in SUBCOMMANDS)
    listed = "\n".join(f"  {name:<{width}}  {subcommand.help}" for name, subcommand in SUBCOMMANDS.items())
    parser.description = f"Servers of MCP for this host, and this host as one.\n\ncommands:\n{listed}"
    parser.epilog = "more on one:\n  pluggent mcp add --help"
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("what", metavar="COMMAND", type=_command, choices=tuple(SUBCOMMANDS), help="one of those above")
    rest = parser.add_argument("rest", nargs=argparse.REMAINDER, action=_Rest, metavar="ARGUMENT", help="its own")
    rest.required = False  # Python 3.11 and 3.12 want it named, although it may be nothing


def _command(word: str) -> str:
    if word not in SUBCOMMANDS and (meant := closest_name(word, SUBCOMMANDS)):
        raise argparse.ArgumentTypeError(f"invalid choice: {word!r} (did you mean '{meant}'?)")
    return word


class _Rest(argparse.Action):
    """Parses the arguments of a subcommand. Words after ``--`` are kept as ``behind``, None without one."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        subcommand = SUBCOMMANDS[namespace.what]
        words = list(values)
        at = words.index("--") if "--" in words else len(words)
        namespace.behind = words[at + 1 :] if at < len(words) else None
        own = _parser(type(parser), f"{parser.prog} {namespace.what}", subcommand)
        own.parse_intermixed_args(words[:at], namespace)  # options may stand between names


def _parser(kind: type[argparse.ArgumentParser], name: str, subcommand: Subcommand) -> argparse.ArgumentParser:
    said = subcommand.help[0].upper() + subcommand.help[1:] + "."
    examples = "\n".join(("examples:", *(f"  {line}" for line in subcommand.examples)))
    made = kind(
        prog=name,
        usage=subcommand.usage or None,
        description="\n".join((said, *filter(None, (subcommand.more,)))),
        epilog=examples,
    )
    made.formatter_class = argparse.RawDescriptionHelpFormatter
    made.add_argument(
        "-h", "--help", action="help", help="show this help"
    )  # the host's parsers have none by themselves
    subcommand.configure(made)
    return made
