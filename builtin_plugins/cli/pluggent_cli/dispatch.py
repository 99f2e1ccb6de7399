"""From the command's name to its module, and from whatever went wrong to a message and an exit code."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, TextIO

from pluggent_hookspecs.errors import ConfigError, PluggentError, ProviderError, ProviderErrorKind
from pluggent_host import __version__
from pluggent_plugin_loader.suggestions import did_you_mean

from pluggent_cli import exits
from pluggent_cli.installed_plugins import announced
from pluggent_cli.parsing import PROGRAM, full_stop, root_parser, split
from pluggent_cli.table import COMMANDS, NAMES
from pluggent_cli.terminal.console import Console, console_for, escape_controls


def dispatch(arguments: Sequence[str]) -> int:
    """Run the command that *arguments* name. Every error ends here, as a message and an exit code."""
    console = Console(json="--json" in arguments)
    try:
        _tolerate_encodings()
        code = _code(arguments)
        if sys.stdout is not None:
            sys.stdout.flush()
        return code
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 (the last frame: a traceback does not help here)
        if isinstance(error, BrokenPipeError):
            return _output_closed()
        with contextlib.suppress(BrokenPipeError):
            if _wants_traceback(arguments):
                import traceback  # for those who asked for it

                trace = escape_controls(traceback.format_exc())
                _tried(lambda: console.error(trace))
            code = _reported(error, console)
            drop_unwritable()
            return code
        return _output_closed()


def _code(arguments: Sequence[str]) -> int:
    try:
        return _command(arguments)
    except SystemExit as ending:  # argparse ends so after --help
        return ending.code if isinstance(ending.code, int) else exits.OK


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
    from pluggent_cli.plugin_commands import run

    return run(name, leading, rest)


def _nothing_typed(leading: list[str]) -> int:
    parser = root_parser(announced())
    options = parser.parse_args(leading)
    console = console_for(options)
    if options.version and options.json:
        console.document({"pluggent": __version__})
    elif options.version:
        console.line(f"{PROGRAM} {__version__}")
    else:
        console.write(parser.format_help())
    return exits.OK


def _unknown(name: str, others: Sequence[str]) -> ConfigError:
    known = [*NAMES, *others]
    meant = did_you_mean(name, known)
    if " " in name and not meant:
        meant = f'; to say it to a model: {PROGRAM} run "{name}"'
    return ConfigError(PROGRAM, [f"there is no command {name!r}{full_stop(meant)} See {PROGRAM} --help"])


# ---- endings ----------------------------------------------------------------------------


def _reported(error: BaseException, console: Console) -> int:
    code, text = exits.code_of(error), exits.said_of(error)
    about = {"kind": type(error).__name__, "message": text, **_facts(error)}
    if console.json:
        _tried(lambda: console.document({"error": about, "exit_code": code}))

    def say() -> None:
        if not isinstance(error, exits.Interrupted):  # the command has said so, and how to continue
            console.problem(text)
        for hint in (*getattr(error, "__notes__", ()), *_advice(error)):
            console.error(f"  {escape_controls(str(hint))}")

    _tried(say)
    return code


def _advice(error: BaseException) -> tuple[str, ...]:
    if isinstance(error, ProviderError) and error.kind is ProviderErrorKind.AUTHENTICATION and error.provider:
        return (f"To store a key that works: {PROGRAM} setup {error.provider}",)
    if isinstance(error, ProviderError) and error.status == _NOT_FOUND and error.provider:
        return (f"The models that there are: {PROGRAM} models {error.provider}",)
    if isinstance(error, ConfigError) and error.path.startswith("provider '"):
        return (f"To set up a provider, or a server by its address: {PROGRAM} setup",)
    return ()


_NOT_FOUND = 404


def _tried(write: Callable[[], None]) -> None:
    """Call *write*, whose output may be full, too: then the exit code has to do."""
    try:
        write()
    except BrokenPipeError:
        raise
    except OSError:
        pass


def _facts(error: BaseException) -> dict[str, Any]:
    if not isinstance(error, PluggentError):
        return {}
    facts = {name: fact for name, fact in vars(error).items() if name != "message" and not name.startswith("_")}
    found: dict[str, Any] = {name: fact for name, fact in facts.items() if isinstance(fact, _PLAIN)}
    if facts.get("meta") is not None:
        import attrs  # here and not above: only errors of a model's server have one

        found["meta"] = attrs.asdict(facts["meta"])
    return found


_PLAIN = (str, int, float, bool, tuple)  # what JSON has a form for


def _wants_traceback(arguments: Sequence[str]) -> bool:
    return "--debug" in arguments or os.environ.get("PLUGGENT_DEBUG", "") not in ("", "0")


def _output_closed() -> int:
    """Drop all output, so that the interpreter does not complain of it at its end."""
    for stream in (sys.stdout, sys.stderr):
        _drop(stream)
    return exits.CLOSED


def drop_unwritable() -> None:
    """Drop buffered output that cannot be written: the interpreter would end with another exit code because of it."""
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except OSError:
            _drop(stream)


def _drop(stream: TextIO | None) -> None:
    if stream is None:
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    with contextlib.suppress(Exception):  # it may be closed altogether
        os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def _tolerate_encodings() -> None:
    """Let what a terminal's encoding cannot show be written as an escape instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")
