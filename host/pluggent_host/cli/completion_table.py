"""The options of every command and the names of all hooks, as data: completing a word makes no parser.

After a change of an option: python -m cogapp -r host/pluggent_host/cli/completion_table.py
"""

# ruff: noqa: ERA001 (the program below)
# No __future__ import: these annotations cost nothing.
from collections.abc import Mapping
from types import MappingProxyType

Options = Mapping[str, tuple[str, str]]
"""Of each option what stands for its value (empty: it takes none), and its help.

Under an empty name are those that every command has, and ``--version``.
"""

# fmt: off
# [[[cog
# import cog, importlib, json
# from pluggent_hookspecs.hooks import HOOKS
# from pluggent_host.cli.parsing import root_parser
# from pluggent_host.cli.table import COMMANDS
#
# root = root_parser(())
# common = {option for action in root._actions for option in action.option_strings}
# parsers = {"": root} | {one.name: importlib.import_module(one.module).parser() for one in COMMANDS}
# cog.outl("OPTIONS: Mapping[str, Options] = MappingProxyType({")
# for name, parser in parsers.items():
#     cog.outl(f'    "{name}": {{')
#     for action in parser._actions:
#         for option in action.option_strings if not name or not common & set(action.option_strings) else ():
#             takes = "" if action.nargs == 0 else action.metavar
#             cog.outl(f'        "{option}": ("{takes}", {json.dumps(action.help, ensure_ascii=False)}),')
#     cog.outl("    },")
# cog.outl("})")
# cog.outl("HOOKS: tuple[str, ...] = (")
# for hook in HOOKS:
#     cog.outl(f'    "{hook}",')
# cog.outl(")")
# ]]]
OPTIONS: Mapping[str, Options] = MappingProxyType({
    "": {
        "--config": ("FILE", "read these settings instead of ./pluggent.toml"),
        "--without": ("PLUGIN", "leave this plugin out (repeatable)"),
        "--safe": ("", "run built-in plugins only"),
        "--json": ("", "print one JSON document on standard output"),
        "-q": ("", "no notes on standard error, errors only"),
        "--quiet": ("", "no notes on standard error, errors only"),
        "-v": ("", "more notes: model calls, every decision"),
        "--verbose": ("", "more notes: model calls, every decision"),
        "--color": ("WHEN", "auto (on a terminal; NO_COLOR and FORCE_COLOR count), always, never"),
        "--debug": ("", "tracebacks and debug messages (or PLUGGENT_DEBUG=1)"),
        "-h": ("", "show this help"),
        "--help": ("", "show this help"),
        "-V": ("", "show the version"),
        "--version": ("", "show the version"),
    },
    "run": {
        "-m": ("PROVIDER/MODEL", "such as openai/gpt-5-mini"),
        "--model": ("PROVIDER/MODEL", "such as openai/gpt-5-mini"),
        "--system": ("TEXT", "the system prompt"),
        "--session": ("ID", "go on with this session, or begin one of this name"),
        "--no-save": ("", "keep the session in memory only"),
        "--image": ("PATH", "send this picture along: a file or a URL (repeatable)"),
        "--tool": ("TOOL", "offer this tool or plugin's tools (repeatable; default: all that are installed)"),
        "--no-tools": ("", "offer no tools"),
        "--workspace": ("DIR", "the folder that tools work in (default: where you are)"),
        "--no-stream": ("", "print the answer when it is whole"),
        "--plain": ("", "print the answer as it was written, also on a terminal"),
        "--max-model-calls": ("N", "end it after N model calls"),
        "--max-tool-rounds": ("N", "end it after N rounds of tool calls"),
        "--max-tokens": ("N", "end it after N tokens, in and out"),
        "--max-cost": ("USD", "end it after this many US dollars, where the provider knows its prices"),
        "--timeout": ("SECONDS", "end it after this long; your own thinking does not count"),
    },
    "chat": {
        "-m": ("PROVIDER/MODEL", "such as openai/gpt-5-mini"),
        "--model": ("PROVIDER/MODEL", "such as openai/gpt-5-mini"),
        "--system": ("TEXT", "the system prompt"),
        "--session": ("ID", "go on with this session, or begin one of this name"),
        "--no-save": ("", "keep the session in memory only"),
        "--image": ("PATH", "send this picture along: a file or a URL (repeatable)"),
        "--tool": ("TOOL", "offer this tool or plugin's tools (repeatable; default: all that are installed)"),
        "--no-tools": ("", "offer no tools"),
        "--workspace": ("DIR", "the folder that tools work in (default: where you are)"),
        "--no-stream": ("", "print the answer when it is whole"),
        "--plain": ("", "print the answer as it was written, also on a terminal"),
        "--max-model-calls": ("N", "end it after N model calls"),
        "--max-tool-rounds": ("N", "end it after N rounds of tool calls"),
        "--max-tokens": ("N", "end it after N tokens, in and out"),
        "--max-cost": ("USD", "end it after this many US dollars, where the provider knows its prices"),
        "--timeout": ("SECONDS", "end it after this long; your own thinking does not count"),
    },
    "plugins": {
    },
    "tools": {
        "--workspace": ("DIR", "the folder that tools work in (default: where you are)"),
    },
    "models": {
        "--timeout": ("SECONDS", "how long each may take (default 30)"),
    },
    "hooks": {
    },
    "sessions": {
        "--limit": ("N", "show N sessions (20) or places that were found (50); 0 is all"),
        "--format": ("FORMAT", "of an export: json (default), markdown"),
        "-o": ("FILE", "export into this file, which is replaced"),
        "--output": ("FILE", "export into this file, which is replaced"),
        "--yes": ("", "delete without asking"),
    },
    "approvals": {
        "--all": ("", "answer every call of the session that waits"),
        "--for-session": ("", "approve the same ask about the same tool for the rest of the session"),
        "--always": ("", "approve the same ask about the same tool in every session"),
        "--where": ("NAME=PATTERN", "only where an argument is like this; * is anything but /, ** anything"),
        "--key": ("REFERENCE", "approve with a key of [approvers] instead of at a terminal: env:NAME or file:PATH"),
        "--reason": ("TEXT", "why; the model reads it with a denial"),
        "--older-than": ("AGE", "what expires: 30m, 12h, 7d (default 7d)"),
    },
    "resume": {
        "-m": ("PROVIDER/MODEL", "such as openai/gpt-5-mini"),
        "--model": ("PROVIDER/MODEL", "such as openai/gpt-5-mini"),
        "--tool": ("TOOL", "offer this tool or plugin's tools (repeatable; default: all that are installed)"),
        "--workspace": ("DIR", "the folder that tools work in (default: where the turn was)"),
        "--no-stream": ("", "print the answer when it is whole"),
        "--plain": ("", "print the answer as it was written, also on a terminal"),
        "--max-model-calls": ("N", "end it after N model calls"),
        "--max-tool-rounds": ("N", "end it after N rounds of tool calls"),
        "--max-tokens": ("N", "end it after N tokens, in and out"),
        "--max-cost": ("USD", "end it after this many US dollars, where the provider knows its prices"),
        "--timeout": ("SECONDS", "end it after this long; your own thinking does not count"),
    },
    "explain": {
    },
    "config": {
    },
    "doctor": {
        "--online": ("", "ask the providers for their models; uses the network"),
    },
    "completion": {
    },
    "trust": {
        "--plugin": ("PLUGIN", "accept a package with hooks, in the version installed now"),
        "--revoke": ("", "accept it no longer"),
        "--list": ("", "show what was accepted"),
    },
})
HOOKS: tuple[str, ...] = (
    "provide_providers",
    "provide_tools",
    "provide_memory",
    "provide_parsers",
    "provide_commands",
    "transform_input",
    "decide_input",
    "around_turn",
    "transform_output",
    "decide_output",
    "select_tools",
    "transform_model_request",
    "decide_model_request",
    "around_model_call",
    "transform_delta",
    "transform_model_response",
    "decide_model_response",
    "transform_tool_call",
    "decide_tool_call",
    "around_tool_call",
    "transform_tool_result",
    "decide_tool_result",
    "transform_plan",
    "decide_plan",
    "transform_memory_write",
    "decide_memory_write",
    "decide_memory_read",
    "transform_memory_result",
    "decide_resource",
    "transform_resource",
    "decide_question",
    "answer_question",
    "resolve_approval",
    "reserve",
    "settle",
    "write_record",
    "observe",
)
# [[[end]]]
