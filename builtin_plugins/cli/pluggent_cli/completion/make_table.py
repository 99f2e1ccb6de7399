"""Writes table.json, the options of every command and the names of all hooks, from the parsers.

After a change of an option: python -m pluggent_cli.completion.make_table
"""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path
from typing import Any

from pluggent_hookspecs.hooks import HOOKS

from pluggent_cli.parsing import Parser, root_parser
from pluggent_cli.table import COMMANDS

PLACE = Path(__file__).with_name("table.json")


def made_table() -> str:
    """Return what table.json has to contain.

    ``options``: for each command, and under "" for all of them, each option's value ("" without one) and help.
    """
    root = root_parser(())
    parsers = {"": root, **{one.name: import_module(one.module).parser() for one in COMMANDS}}
    common = _options(root)
    options = {
        name: {option: about for option, about in _options(parser).items() if not name or option not in common}
        for name, parser in parsers.items()
    }
    return json.dumps({"options": options, "hooks": list(HOOKS)}, ensure_ascii=False, indent=1) + "\n"


def _options(parser: Parser) -> dict[str, list[Any]]:
    return {
        option: ["" if action.nargs == 0 else action.metavar, action.help]
        for action in parser._actions  # noqa: SLF001 (argparse lists them nowhere else)
        for option in action.option_strings
    }


if __name__ == "__main__":
    PLACE.write_text(made_table(), encoding="utf-8")
