"""``pluggent models``: what every provider has, asked side by side, which needs the network, as a turn does.

With an action it is about the catalog of models, which needs none.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from pluggent_contract_values.escape import escape_all
from pluggent_hookspecs import ModelInfo, ProviderError, ProviderErrorKind, thaw
from pluggent_hookspecs.errors import PluggentError
from pluggent_host.inspection import Models, NoModelList

from pluggent_cli import exits, process
from pluggent_cli.host_access import Setup, open_for_listing, prepare
from pluggent_cli.parsing import Parser, command_parser, examples, one_name, seconds, typed_text
from pluggent_cli.process import log_to
from pluggent_cli.terminal.console import Console, Row

ACTIONS = ("list", "show", "diff", "refresh")
_HEAD = ("MODEL", "CONTEXT", "OUTPUT", "NAME")


def parser() -> Parser:
    """Return the parser of this command."""
    made = command_parser(
        "models",
        "[OPTIONS] [PROVIDER | list [PATTERN] | show MODEL | diff [URL|FILE] | refresh [URL|FILE]]",
        "Ask the providers which models they have, and print them as --model takes them. A provider that fails\n"
        "hides no other; the exit code is 1 if no list came of it at all. Providers without a key are left out,\n"
        "unless one is named.\n\n"
        "Or look into the catalog of models, which needs no network: prices, windows, what each can do. diff says\n"
        "what a newer one would change, refresh keeps it: the JSON of models.dev (without a URL or FILE), another\n"
        "catalog, or a TOML file of models.",
        examples(
            "pluggent models",
            "pluggent models --all                 with providers that have no key, and why",
            "pluggent models openai",
            "pluggent models --json | jq -r '.providers[] | .models[]?.model'",
            "pluggent models list groq             or a part of a name, or a pattern: 'openai/gpt-5*'",
            "pluggent models show openai/gpt-5-mini",
            "pluggent models diff                  what models.dev says today",
            "pluggent models refresh own.toml      models and prices that you have read yourself",
        ),
    )
    made.add_argument(
        "words", metavar="ACTION", nargs="*", type=typed_text,
        help=f"a provider, or one of {', '.join(ACTIONS)} and what belongs to it",
    )  # fmt: skip
    made.add_argument("--all", action="store_true", help="providers without a key, too")
    made.add_argument("--timeout", metavar="SECONDS", type=seconds, help="how long each may take (default 30)")
    return made


def run(options: argparse.Namespace, console: Console) -> int:
    """Ask and print, or look into the catalog."""
    if options.words and options.words[0] in ACTIONS:
        # Here and not above: asking the providers does without the catalog.
        from pluggent_cli.model_catalog import command

        return command.run(options.words[0], options.words[1:], console)
    only = one_name("models", options.words) if options.words else ""
    setup = prepare(options, console)
    log_to(console, debug=options.debug)
    return process.run(_list(setup, console, only, options.timeout, every=options.all))


async def _list(setup: Setup, console: Console, only: str, timeout_s: float | None, *, every: bool) -> int:
    async with open_for_listing(setup, console) as (host, _):
        found = await host.models(only, timeout_s=timeout_s)
    keyless = [] if only or every else [name for name, models in found.items() if _has_no_key(models)]
    shown = {name: models for name, models in found.items() if name not in keyless}
    code = _code(shown, only)
    if console.json:
        console.document({"providers": [_document(name, found[name]) for name in found], "exit_code": code})
        return code
    for name, models in shown.items():
        _provider(console, name, models)
    if not found:
        console.line("no provider is installed; to begin with: pip install pluggent-openai")
    if keyless:
        names = ", ".join(map(escape_all, keyless))
        has = (
            f"1 provider has no key ({names})"
            if len(keyless) == 1
            else f"{len(keyless)} providers have no key ({names})"
        )
        console.note(console.err_ink("dim", f"{has}; to set one up: pluggent setup"))
    return code


def _has_no_key(models: Models) -> bool:
    """Say whether the provider asked no server, because it has no key to show."""
    if not isinstance(models, ProviderError):
        return False
    return models.kind is ProviderErrorKind.AUTHENTICATION and models.status is None


def _code(found: Mapping[str, Models], only: str) -> int:
    """Return the code of a failure if no provider gave a list and one was named, or failed."""
    lists = [models for models in found.values() if not isinstance(models, PluggentError)]
    expected = only or any(not isinstance(models, NoModelList) for models in found.values())
    return exits.FAILED if expected and not lists else exits.OK


def _provider(console: Console, name: str, models: Models) -> None:
    head = console.ink("bold", escape_all(name))
    if isinstance(models, NoModelList):
        console.line(f"{head}  {console.ink('dim', 'does not say which models it has')}")
    elif isinstance(models, PluggentError):
        console.line(f"{head}  {console.ink('red', 'failed')}")
        console.error(f"{console.err_ink('red', 'error:')} {escape_all(str(models))}")
    else:
        console.line(f"{head}  {len(models):,} model{'' if len(models) == 1 else 's'}")
        if models:
            console.table(_HEAD, [_row(name, model) for model in models])


def _row(provider: str, model: ModelInfo) -> Row:
    called = "" if model.name == model.id else model.name
    sizes = (_count(model.context_window), _count(model.max_output_tokens))
    return Row((f"{provider}/{model.id}", *sizes, called), ("bold",))


def _count(tokens: int | None) -> str:
    return "" if tokens is None else f"{tokens:,}"


def _document(name: str, models: Models) -> dict[str, Any]:
    if isinstance(models, PluggentError):
        error = {"kind": type(models).__name__, "message": str(models)}
        return {"provider": name, "lists": not isinstance(models, NoModelList), "models": None, "error": error}
    listed = [
        {
            "model": f"{name}/{model.id}", "id": model.id, "name": model.name, "created": model.created,
            "context_window": model.context_window, "max_output_tokens": model.max_output_tokens,
            "extra": thaw(model.extra),
        }
        for model in models
    ]  # fmt: skip
    return {"provider": name, "lists": True, "models": listed, "error": None}
