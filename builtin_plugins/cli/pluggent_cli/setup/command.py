"""``pluggent setup``: from nothing to a model that answers, in one talk. Nothing is written before it was shown."""

from __future__ import annotations

import argparse
import os
import shlex
from collections.abc import Sequence
from pathlib import Path

from pluggent_hookspecs.errors import ConfigError
from pluggent_hookspecs.secrets import Secret
from pluggent_host.common.process_marker import is_inside

from pluggent_cli import exits
from pluggent_cli.config.settings_class import Field
from pluggent_cli.config.sources import user_config
from pluggent_cli.config.toml import reference_of, toml_key, toml_value
from pluggent_cli.host_access import Setup, gather, prepare
from pluggent_cli.parsing import PROGRAM, Parser, command_parser, examples
from pluggent_cli.process import log_to
from pluggent_cli.setup.dialog import Dialog, ends_cleanly
from pluggent_cli.setup.keys import WHERE, file_place, shown_path
from pluggent_cli.setup.offers import Offer, chosen, offers
from pluggent_cli.setup.questions import asked
from pluggent_cli.setup.talk import Done, Talk
from pluggent_cli.terminal.console import Console, Ink, wants_color
from pluggent_cli.terminal.tty import foreground_terminal


def parser() -> Parser:
    """Return the parser of this command."""
    made = command_parser(
        "setup",
        "[OPTIONS] [PROVIDER]",
        "Choose a provider and a model: take its key, ask which models it has, make one call, write your\n"
        "settings. Nothing is written before you have seen it and agreed. The key is typed here, never on the\n"
        "command line; it is kept in the keyring of the computer, or in a file that only you can read. Without\n"
        "a terminal the lines to write are printed instead.",
        examples(
            "pluggent setup",
            "pluggent setup openai             a new key, or another model",
            "pluggent setup ollama             a server on this machine, without a key",
        ),
    )
    made.add_argument("words", metavar="PROVIDER", nargs="*", help="begin with this one")
    return made


def run(options: argparse.Namespace, console: Console) -> int:
    """Ask, try, show and write; or print what to write."""
    if options.config:
        raise ConfigError("--config", ["setup writes your own settings; leave it out"])
    if len(options.words) > 1:
        # What was typed is not repeated: it may be a key.
        raise ConfigError(WHERE, [f"takes one PROVIDER, got {len(options.words)} words; a key is asked for"])
    # A server of the project's would get the key that is typed, and be asked with it nowhere else.
    setup = prepare(options, console, own=True)
    log_to(console, debug=options.debug)
    found, problems = offers(setup)
    if not found:
        raise ConfigError(WHERE, ["no provider is installed; to begin with: pip install pluggent-openai", *problems])
    offer = chosen(options.words[0], found) if options.words else None
    with foreground_terminal() as terminal:
        if terminal is None or is_inside():
            return _by_hand(setup, console, [offer] if offer else found)
        ink = Ink(on=wants_color(options.color, os.environ, terminal=True))
        dialog = Dialog(terminal, ink, console.width)
        with ends_cleanly():
            try:
                done = Talk(setup, dialog).settled(offer, found, problems)
            except exits.Interrupted:
                dialog.say("\nInterrupted; nothing was written.")
                raise
        _say_next(options, console, dialog, done)
        return exits.OK


# ---- afterwards -------------------------------------------------------------------------


def _say_next(options: argparse.Namespace, console: Console, dialog: Dialog, done: Done) -> None:
    """Say what to type now, and what keeps the settings from being in force here."""
    now, _ = gather(options)
    origin = now.origins.get("model")
    here = now.settings.model == done.model
    command = f"{PROGRAM} chat" if here else shlex.join([PROGRAM, "chat", "--model", done.model])
    if console.json:
        console.document({"model": done.model, "settings": str(done.path), "key": done.key or None, "next": command})
        return
    if not here:
        dialog.say(f"Here another model is in force ({now.settings.model}), set by {origin}.", "yellow")
    dialog.say()
    dialog.say("Ready. To begin:", "bold")
    dialog.unwrapped([command], {PROGRAM[0]: "cyan"})


# ---- without a terminal -----------------------------------------------------------------


def _by_hand(setup: Setup, console: Console, found: Sequence[Offer]) -> int:
    """Print which lines to write where."""
    path = user_config(os.environ)
    plain = [one for one in found if one.name]
    if console.json:
        console.document({
            "error": {"kind": "ConfigError", "message": f"{WHERE}: there is no terminal to ask at"},
            "settings": str(path), "exit_code": exits.USAGE,
            "providers": [{"provider": one.name, "lines": _lines(setup, one)} for one in plain],
        })  # fmt: skip
        return exits.USAGE
    console.error(f"{console.err_ink('red', 'error:')} {WHERE}: there is no terminal to ask at, so do it by hand")
    console.line(f"Write into {shown_path(path)} the lines of one provider:")
    for one in plain:
        console.line(f"\n# {one.name}")
        for line in _lines(setup, one):
            console.line(line)
    return exits.USAGE


def _lines(setup: Setup, offer: Offer) -> list[str]:
    lines = [f'model = "{offer.name}/MODEL"  # all of them: pluggent models {offer.name}']
    inner = [f"{toml_key([name])} = {toml_value(value)}" for name, value in offer.given.items()]
    for field in () if offer.settings is None else asked(offer.settings, optional=False):
        if field.is_secret:
            inner += _key_lines(setup, offer, field)
        elif field.name not in offer.given:
            inner.append(f'{toml_key([field.name])} = ""  # to be filled in')
    if inner:
        lines += ["", f"[{toml_key(offer.path(offer.name))}]", *inner]
    return lines


def _key_lines(setup: Setup, offer: Offer, field: Field) -> list[str]:
    place = file_place(offer.name, setup.state_dir, Path("/nowhere"))
    file = f'{field.name} = "{place.reference}"'
    if isinstance(field.default, Secret):
        usual = reference_of(field.default)
        return [
            f'{field.name} = "{usual}"  # the key, read from that variable; this is the default',
            f"# or from a file of mode 0600 with nothing else in it: {file}",
        ]
    return [f"{file}  # a file of mode 0600 with the key and nothing else"]
