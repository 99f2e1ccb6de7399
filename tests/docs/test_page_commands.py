"""Every command of pluggent in a Markdown file is one that the real parsers take."""

import re
import shlex
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from pages import Block, blocks, commands, pages, prose
from pluggent_cli.parsing import root_parser, split
from pluggent_cli.table import COMMANDS, NAMES
from reference import plugin_parsers

MODULES: dict[str, Any] = {one.name: import_module(one.module) for one in COMMANDS}
OF_PLUGINS = plugin_parsers()
OPERATORS = {"|", "||", "&&", ";", "&", ">", "<", "2>", ">>", "(", ")"}
TYPED = [block for page in pages() for block in blocks(page) if block.language in ("sh", "console", "text")]


def calls(line: str) -> Iterator[list[str]]:
    """Yield the arguments of each call of pluggent in a line of a shell.

    >>> [*calls("X=1 pluggent run 'a & b' | cat; .venv/bin/pluggent doctor  # all of it")]
    [['run', 'a & b'], ['doctor']]
    """
    words = shlex.shlex(line, posix=True, punctuation_chars=True)
    words.whitespace_split = True
    found: list[str] | None = None
    installing = False
    for word in [*words, ";"]:
        if word in OPERATORS:
            if found is not None:
                yield found
            found = None
        elif found is not None:
            found.append(word)
        elif word.rpartition("/")[2] == "pluggent" and not installing:
            found = []
        installing = word == "install" or (installing and word not in OPERATORS)


def check(arguments: list[str]) -> None:
    """Parse *arguments* as the command does. Raises ConfigError."""
    leading, name, rest = split(arguments)
    if "--help" in rest or not name:
        root_parser(()).parse_args(leading)
        assert name in ("", *NAMES, *OF_PLUGINS)
    elif name in OF_PLUGINS:
        root_parser(()).parse_args(leading)
        OF_PLUGINS[name].parse_args(rest)
    else:
        assert name in MODULES, f"there is no command {name}"
        options = MODULES[name].parser().parse_intermixed_args([*leading, *rest])
        actions = getattr(MODULES[name], "ACTIONS", None)
        assert not actions or not options.words or options.words[0] in actions


@pytest.mark.parametrize(
    "block", [b for b in TYPED if any("pluggent" in c for c in commands(b))], ids=lambda b: b.place
)
def test_commands_of_a_block_are_parsed(block: Block) -> None:
    for line in commands(block):
        for arguments in calls(line):
            check(arguments)


INLINE = re.compile(r"`pluggent ((?!-)[a-z][^`…]*)`")


@pytest.mark.parametrize("page", [page for page in pages() if INLINE.search(prose(page))], ids=str)
def test_commands_in_a_sentence_name_commands_and_options_that_exist(page: Path) -> None:
    wrong: list[str] = []
    for typed in INLINE.findall(prose(page)):
        name = typed.split()[0]
        parser = OF_PLUGINS.get(name) or (MODULES[name].parser() if name in MODULES else None)
        known = parser.format_help() if parser else ""
        wrong += [typed for option in ("", *re.findall(r"--[a-z-]+", typed)) if not parser or option not in known]

    assert wrong == []
