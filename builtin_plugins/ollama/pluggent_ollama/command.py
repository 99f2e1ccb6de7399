"""The command ``pluggent ollama``: gets models onto a server."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Iterable
from contextlib import aclosing
from typing import TYPE_CHECKING, TextIO

from pluggent_hookspecs import Command, ConfigError, ProvideEvent, hookimpl

from pluggent_ollama.plugin import servers_of
from pluggent_ollama.settings import Server, Settings as OllamaSettings

if TYPE_CHECKING:  # what speaks HTTP takes long to import, and is needed once something is pulled
    from pluggent_ollama.pull import Progress

_STEP = 10
"""Where no terminal is, a file's progress is told in steps of so many per cent."""


class OllamaCommand:
    """The plugin behind the entry point ``ollama`` of the commands."""

    Settings = OllamaSettings

    def __init__(self, settings: OllamaSettings = OllamaSettings()) -> None:  # noqa: B008 (frozen)
        self._settings = settings

    @hookimpl
    def provide_commands(self, event: ProvideEvent) -> Iterable[Command]:
        """Offer ``pluggent ollama``."""
        return [
            Command("ollama", "get a model onto an Ollama server: pluggent ollama pull MODEL", self._run, _configure)
        ]

    def _run(self, options: argparse.Namespace) -> int:
        servers = servers_of(self._settings)
        if options.server not in servers:
            raise ConfigError("--server", [f"there is no server {options.server!r}; there are: {', '.join(servers)}"])
        asyncio.run(_pull(options.server, servers[options.server], options.model, Shown(sys.stderr)))
        print(f"{options.server}/{options.model} is there")  # noqa: T201 (the output of a command)
        return 0


class Shown:
    """Shows progress: in one line that changes where *out* is a terminal, else a line for each step."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._tty = out.isatty()
        self._last = ""
        self._wide = 0

    def show(self, progress: Progress) -> None:
        """Show what is new."""
        share = None if not progress.total else 100 * (progress.completed or 0) // progress.total
        if share is not None and not self._tty:
            share -= share % _STEP
        text = progress.status if share is None else f"{progress.status} {share} % of {_size(progress.total or 0)}"
        if text == self._last:
            return
        self._last = text
        if self._tty:
            self._out.write(f"\r{text:<{self._wide}}")
            self._wide = len(text)
        else:
            self._out.write(f"{text}\n")
        self._out.flush()

    def end(self) -> None:
        """Leave the line."""
        if self._tty and self._last:
            self._out.write("\n")
            self._out.flush()


async def _pull(name: str, server: Server, model: str, shown: Shown) -> None:
    # Here and not above: --help does without what speaks HTTP.
    from pluggent_ollama.pull import pull

    try:
        async with aclosing(pull(name, server, model)) as steps:
            async for progress in steps:
                shown.show(progress)
    finally:
        shown.end()


def _size(count: int) -> str:
    """Return a number of bytes for people.

    >>> _size(523), _size(4_100_000_000)
    ('523 B', '4.1 GB')
    """
    amount = float(count)
    for unit in ("B", "kB", "MB"):
        if amount < 1000:  # noqa: PLR2004 (the next unit)
            return f"{amount:.3g} {unit}"
        amount /= 1000
    return f"{amount:.2g} GB" if amount < 10 else f"{amount:,.0f} GB"  # noqa: PLR2004 (digits)


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", metavar="pull", choices=["pull"], help="get a model, or its newer version")
    parser.add_argument("model", metavar="MODEL", help="such as qwen3:8b; a pull that broke off continues")
    parser.add_argument("--server", metavar="NAME", default="ollama", help="which server of the settings (ollama)")
