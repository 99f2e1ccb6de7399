"""From the command's name to its module, and from whatever went wrong to a message and an exit code."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from pluggent_hookspecs.errors import ConfigError, PluggentError

from pluggent_host.cli import exits
from pluggent_host.cli.announced import announced
from pluggent_host.cli.output import Console, console_for, harmless
from pluggent_host.cli.parsing import PROGRAM, full_stop, root_parser, split
from pluggent_host.cli.table import COMMANDS, NAMES
from pluggent_host.nearest import nearest
from pluggent_host.version import VERSION


def dispatch(arguments: Sequence[str]) -> int:
    """Run the command that *arguments* name. Every error ends here, as a message and an exit code."""
    _tolerate_encodings()
    console = Console(json="--json" in arguments)
    try:
        code = _command(arguments)
        if sys.stdout is not None:
            sys.stdout.flush()
        return code
    except SystemExit as ending:  # argparse ends so after --help
        return ending.code if isinstance(ending.code, int) else exits.OK
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 (the last frame: a traceback helps nobody here)
        if isinstance(error, BrokenPipeError):
            return _nobody_reads()
        if _wants_traceback(arguments):
            import traceback  # for those who asked for it

            traceback.print_exc()
        with contextlib.suppress(BrokenPipeError):
            return _reported(error, console)
        return _nobody_reads()


def _command(arguments: Sequence[str]) -> int:
    leading, name, rest = split(arguments)
    if name == "help":
        name, rest = (rest[0], ["--help"]) if rest else ("", [])
    if not name:
        return _nothing_typed(leading)
    built_in = next((command for command in COMMANDS if command.name == name), None)
    if built_in is not None:
        module: Any = import_module(built_in.module)
        options: argparse.Namespace = module.parser().parse_intermixed_args([*leading, *rest])
        code: int = module.run(options, console_for(options))
        return code
    others = [other for other, _ in announced()]
    if name not in others:
        raise _unknown(name, others)
    # Here and not above: pluggy and what is behind it are for those who type a plugin's command.
    from pluggent_host.cli.plugged import run

    return run(name, leading, rest)


def _nothing_typed(leading: list[str]) -> int:
    parser = root_parser(announced())
    options = parser.parse_args(leading)
    console = console_for(options)
    if options.version and options.json:
        console.document({"pluggent": VERSION})
    elif options.version:
        console.line(f"{PROGRAM} {VERSION}")
    else:
        console.write(parser.format_help())
    return exits.OK


def _unknown(name: str, others: Sequence[str]) -> ConfigError:
    known = [*NAMES, *others]
    meant = nearest(name, known)
    if " " in name and not meant:
        meant = f'; to say it to a model: {PROGRAM} run "{name}"'
    return ConfigError(PROGRAM, [f"there is no command {name!r}{full_stop(meant)} See {PROGRAM} --help"])


# ---- endings ----------------------------------------------------------------------------


def _reported(error: BaseException, console: Console) -> int:
    code, text = exits.code_of(error), exits.said_of(error)
    if console.json:
        console.document({"error": {"kind": type(error).__name__, "message": text, **_facts(error)}, "exit_code": code})
    if not isinstance(error, exits.Interrupted):  # the command has said so, and how to go on
        console.error(f"{console.err_ink('red', 'error:')} {harmless(text)}")
    for hint in getattr(error, "__notes__", ()):
        console.error(f"  {harmless(str(hint))}")
    return code


def _facts(error: BaseException) -> dict[str, Any]:
    if not isinstance(error, PluggentError):
        return {}
    return {
        name: fact
        for name, fact in vars(error).items()
        if name != "message" and not name.startswith("_") and isinstance(fact, _PLAIN)
    }


_PLAIN = (str, int, float, bool, tuple)  # what JSON has a form for


def _wants_traceback(arguments: Sequence[str]) -> bool:
    return "--debug" in arguments or os.environ.get("PLUGGENT_DEBUG", "") not in ("", "0")


def _nobody_reads() -> int:
    """Forget what is still to be written, so that the interpreter does not complain of it at its end."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):  # it may be closed altogether
            os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
    return exits.CLOSED


def _tolerate_encodings() -> None:
    """Let what a terminal's encoding cannot show be written as an escape instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")
