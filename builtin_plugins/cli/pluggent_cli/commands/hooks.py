"""``pluggent hooks``: every chain of hooks in the order in which it is called, and why in that order."""

from __future__ import annotations

import argparse
from typing import Any

from pluggent_contract_values.escape import escape_all
from pluggent_hookspecs.errors import ConfigError
from pluggent_hookspecs.hooks import HOOKS
from pluggent_host.inspection import Chains
from pluggent_plugin_loader.suggestions import did_you_mean

from pluggent_cli import exits, process
from pluggent_cli.host_access import Setup, open_for_listing, prepare
from pluggent_cli.parsing import Parser, command_parser, examples, one_name
from pluggent_cli.process import log_to
from pluggent_cli.terminal.console import Console


def parser() -> Parser:
    """Return the parser of this command."""
    made = command_parser(
        "hooks",
        "[OPTIONS] [HOOK]",
        "Show who is called at each hook, in which order and why. All deciders are always asked, and a deny\n"
        "wins whatever the order. The digest names this composition; it is in the record of every turn.",
        examples(
            "pluggent hooks",
            "pluggent hooks decide_tool_call           one chain",
            "pluggent hooks --json | jq -r .digest",
        ),
    )
    made.add_argument("words", metavar="HOOK", nargs="*", help="only this hook")
    return made


def run(options: argparse.Namespace, console: Console) -> int:
    """Print the chains, or one."""
    only = one_name("hooks", options.words) if options.words else ""
    if only and only not in HOOKS:
        raise ConfigError("pluggent hooks", [f"there is no hook {only!r}{did_you_mean(only, HOOKS)}"])
    setup = prepare(options, console)
    log_to(console, debug=options.debug)
    return process.run(_list(setup, console, only))


async def _list(setup: Setup, console: Console, only: str) -> int:
    async with open_for_listing(setup, console) as (host, missing):
        chains = host.chains
        if console.json:
            console.document({"digest": chains.digest, "hooks": _document(chains, only), "missing": list(missing)})
            return exits.OK
        for hook in HOOKS if not only else (only,):
            _chain(console, hook, chains)
        if not chains.by_hook:
            console.line("no plugin with hooks runs")
        elif only and not chains[only]:
            console.line(f"no plugin implements {only}")
        console.line(f"{console.ink('dim', 'digest')} {chains.digest}")
        if missing:
            console.error(f"without {', '.join(missing)}: see the warnings above")
    return exits.OK


def _chain(console: Console, hook: str, chains: Chains) -> None:
    chain = chains[hook]
    if not chain:
        return
    console.line(f"{console.ink('bold', hook)}  {console.ink('dim', str(HOOKS[hook].kind))}")
    for place, impl in enumerate(chain, 1):
        how = " (in a thread)" if impl.blocking else " (async)" if impl.is_async else ""
        console.line(f"  {place}. {escape_all(impl.plugin)}{how}  {console.ink('dim', escape_all(impl.why))}")


def _document(chains: Chains, only: str) -> dict[str, Any]:
    return {
        hook: [
            {
                "plugin": impl.plugin, "band": impl.band, "why": impl.why,
                "blocking": impl.blocking, "async": impl.is_async, "events": [event.__name__ for event in impl.events],
            }
            for impl in chains[hook]
        ]
        for hook in HOOKS
        if chains[hook] and only in ("", hook)
    }  # fmt: skip
