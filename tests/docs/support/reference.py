"""Writes the reference pages below host/docs from the code: settings, hooks, commands, errors, plugins.

Called by cog, whose blocks stand in those pages. After a change of what they show:
python -m cogapp -r README.md hookspecs/README.md host/docs/*.md
"""

from __future__ import annotations

import ast
import inspect
import json
import textwrap
from argparse import Action, ArgumentParser
from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from enum import Enum
from importlib import import_module
from itertools import pairwise
from types import MappingProxyType
from typing import Any, cast

import attrs
import pluggent_host.settings as host_settings
from pluggent_cli import exits
from pluggent_cli.config.command_settings import CommandSettings, ModelNames
from pluggent_cli.config.keys import KEYS, TOOL_LIMIT_KINDS, Kind
from pluggent_cli.config.settings_class import Field, field_docs, fields_of
from pluggent_cli.config.toml import toml_value
from pluggent_cli.parsing import Parser, root_parser
from pluggent_cli.table import COMMANDS
from pluggent_hookspecs import HOOKS, ProvideEvent, errors, events, markers, observations
from pluggent_plugin_loader.settings import Selection
from pluggent_transcript.limits import Limits, ToolLimits
from workspace import Member, members

NONE = "none"
_CLASSES = {
    "limits": Limits, "timeouts": host_settings.Timeouts, "selection": Selection,
    "grants": host_settings.Grants, "models": ModelNames,
}  # fmt: skip


def as_markdown(text: str) -> str:
    r"""Return *text* of a docstring as Markdown of a table's cell: one line, single backticks.

    >>> as_markdown("``a | b``: two\n lines, *both* of them")
    '`a \\| b`: two lines, *both* of them'
    """
    return " ".join(text.replace("``", "`").replace("|", "\\|").split())


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a table."""
    head = tuple(head)
    lines = (head, ("---",) * len(head), *rows)
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


# ---- settings ---------------------------------------------------------------------------


def settings() -> str:
    """Return every setting of a host: by table, with kind, default, and what later sources may do to it."""
    tables = ["", *(name for name in _CLASSES if name != "models"), "tables"]
    return "".join(f"### {_title(name)}\n\n{_explained(name)}{_table_of(name)}\n" for name in tables)


def _title(name: str) -> str:
    return {"": "Top level", "tables": "Tables with names of your own"}.get(name, f"`[{name}]`")


def _explained(name: str) -> str:
    said = {
        "limits": "Of one turn. A turn that reaches a limit ends, and its result says which one.",
        "timeouts": "Of plugins, in seconds.",
        "selection": "Names are those of distributions, or `NAME==VERSION`.",
        "grants": "Lists of plugins, unless said otherwise. A list adds to what the files before it grant;"
        ' `"!name"` removes one, `[]` all.',
    }
    return said[name] + "\n\n" if name in said else ""


def _table_of(name: str) -> str:
    found = [path for path in KEYS if _section(path) == name]
    return table(("key", "what it is", "value", "default"), (_setting(path) for path in found))


def _section(path: str) -> str:
    top, _, below = path.partition(".")
    return "tables" if KEYS[path].kind.make is MappingProxyType else top if below else ""


def _setting(path: str) -> tuple[str, str, str, str]:
    top, _, name = path.rpartition(".")
    all_of = CommandSettings if path in CommandSettings._fields else host_settings.HostSettings
    owner: Any = _CLASSES.get(top, all_of)
    said = field_docs(owner)[name]
    default = owner._field_defaults[name]
    kind = KEYS[path].kind
    shown = f"[{path}]" if kind.make is MappingProxyType else name
    return f"`{shown}`", as_markdown(said), _expected(kind), _default(top, default, kind)


def _expected(kind: Kind) -> str:
    if kind.entry is None or kind.entry.expected == "a table":
        return as_markdown(kind.expected)
    # What the limits of one tool may be has a table of its own.
    return "tables" if kind.entry.expected.startswith("a table") else as_markdown(f"each {kind.entry.expected}")


def _default(top: str, value: Any, kind: Kind) -> str:
    if value is None:
        return NONE
    if top == "grants" and type(value) is not tuple:
        return "ours"
    if isinstance(value, tuple | Mapping) or value == "":
        return NONE
    return f"`{json.dumps(value)}`" if isinstance(value, bool | str) else f"`{value:g}`" if value < 1e6 else str(value)


def tool_limits() -> str:
    """Return the limits of a single tool."""
    said = field_docs(ToolLimits)
    rows = ((f"`{name}`", as_markdown(said[name]), kind.expected) for name, kind in TOOL_LIMIT_KINDS.items())
    return table(("key", "what it is", "value"), rows)


def member_docs(kinds: type[Enum]) -> Mapping[str, str]:
    """Return the text below each member of an enumeration in its source."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(kinds))).body[0]
    assert isinstance(tree, ast.ClassDef)
    return {
        member.targets[0].id: str(text.value.value)
        for member, text in pairwise(tree.body)
        if isinstance(member, ast.Assign)
        and isinstance(member.targets[0], ast.Name)
        and isinstance(text, ast.Expr)
        and isinstance(text.value, ast.Constant)
    }


# ---- plugins ----------------------------------------------------------------------------


def plugins() -> str:
    """Return every setting of the plugins of this repository."""
    return "\n".join(_settings_of(member) for member in members() if member.is_plugin)


def _settings_of(member: Member) -> str:
    fields = {field.name: field for made in _settings_classes(member) for field in fields_of(made)}
    rows = [(f"`{name}`", as_markdown(field.about), _toml(field)) for name, field in fields.items()]
    about = f"[{member.project['description']}](../../{member.folder}/README.md)"
    settings = table(("key", "what it is", "default"), rows) if rows else "No settings.\n"
    return f"### `[plugins.{member.distribution}]`\n\n{about}\n\n{settings}"


def _settings_classes(member: Member) -> Iterator[type]:
    for group in member.project["entry-points"].values():
        for target in group.values():
            module, code, name = target.partition(":")
            made = getattr(getattr(import_module(module), name), "Settings", None) if code else None
            if made is not None:
                yield made


def _toml(field: Field) -> str:
    if field.required:
        return "required"
    empty = field.default is None or field.default == "" or (isinstance(field.default, Sized) and not field.default)
    try:
        return NONE if empty else f"`{toml_value(field.default)}`"
    except TypeError:
        return NONE


# ---- hooks ------------------------------------------------------------------------------


def hooks() -> str:
    """Return every hook with its promise, its event and its example, by kind."""
    parts: list[str] = []
    kinds = member_docs(markers.HookKind)
    for kind in markers.HookKind:
        parts.append(f"## {kind.value.capitalize()}\n\n{as_markdown(kinds[kind.name])}\n")
        parts += [_hook(info) for info in HOOKS.values() if info.kind is kind]
    return "\n".join(parts)


def _hook(info: Any) -> str:
    signature = inspect.signature(info.function)
    event = signature.parameters["event"].annotation.removeprefix("e.")
    answer = signature.return_annotation
    text, _, example = inspect.cleandoc(info.function.__doc__).partition(">>>")
    code = _as_code(">>>" + example) if example else ""
    shown = f"\n```python\n{code}\n```\n" if code else ""
    return (
        f"### {info.name}\n\n{text.replace('``', '`').strip()}\n\n"
        f"Takes [{event}](#{event.lower()}), returns `{answer}`.\n{shown}"
    )


def _as_code(example: str) -> str:
    """Return an *example* with prompts as code, with the empty lines that a formatter wants."""
    found: list[str] = []
    for line in example.splitlines():
        code = line[4:]
        if found and line.startswith(">>> class"):
            found += ["", ""]
        elif code.startswith("    @") and not found[-1].startswith("class"):
            found.append("")
        found.append(code)
    return "\n".join(found)


def hook_events() -> str:
    """Return the event of every hook, with the types of its fields."""
    used = {inspect.signature(info.function).parameters["event"].annotation for info in HOOKS.values()}
    names = [name for name in events.__all__ if name == "Scope" or f"e.{name}" in used]
    return "\n".join(_event(name) for name in names) + "\n" + _observations()


def _observations() -> str:
    found = [getattr(observations, name) for name in observations.__all__]
    rows = (
        (
            f"`{one.__name__}`",
            as_markdown((one.__doc__ or "").partition("\n\n")[0]),
            ", ".join(f"`{f.name}`" for f in attrs.fields(one)),
        )
        for one in found
        if isinstance(one, type) and attrs.has(one)
    )
    shown = table(("event", "what happened", "fields"), rows)
    return f"### Observation\n\nOne of these; observers and sinks choose with `events=`.\n\n{shown}"


def _event(name: str) -> str:
    owner = getattr(events, name)
    fields = "".join(f"- `{field.name}: {_type(field)}`\n" for field in attrs.fields(owner))
    return f"### {name}\n\n{inspect.cleandoc(owner.__doc__).replace('``', '`')}\n\n{fields}"


def _type(field: Any) -> str:
    plain = isinstance(field.default, str | int | float | bool | None)
    return f"{field.type} = {field.default!r}" if plain else str(field.type)


# ---- commands ---------------------------------------------------------------------------


def commands() -> str:
    """Return every command with its options: the built-in ones, then those of plugins."""
    parts = [_command(import_module(one.module).parser()) for one in COMMANDS]
    parts += [_command(parser) for parser in plugin_parsers().values()]
    return "\n".join(parts)


def common_options() -> str:
    """Return the options that every built-in command has."""
    return table(("option", "what it does"), _options(root_parser(())))


def exit_codes() -> str:
    """Return the exit codes."""
    return table(("code", "meaning"), ((str(code), as_markdown(meaning)) for code, meaning in exits.MEANINGS))


def plugin_parsers() -> Mapping[str, Parser]:
    """Return the parser of each command that a plugin of this repository adds."""
    found: dict[str, Parser] = {}
    for member in members():
        for target in member.project.get("entry-points", {}).get("pluggent.commands", {}).values():
            module, _, name = target.partition(":")
            for command in getattr(import_module(module), name)().provide_commands(ProvideEvent()):
                found[command.name] = Parser.bare(command.name, command.help)
                if command.configure is not None:
                    command.configure(found[command.name])
    return found


def _command(parser: Parser) -> str:
    common = {option for action in _actions(root_parser(())) for option in action.option_strings}
    shown = _shown(parser, common if parser.usage else {"--help"})
    epilog = f"\n```text\n{parser.epilog.strip()}\n```\n" if parser.epilog else ""
    below = [
        f"\n### {one.prog}\n\n{_shown(one, {'--help'})}" for each in _actions(parser) for one in _choices(each).values()
    ]
    return f"## {parser.prog}\n\n{shown}{epilog}{''.join(below)}"


def _shown(parser: ArgumentParser, left_out: set[str]) -> str:
    """Return usage and description as the help has them, and the options but for those *left_out* as a table."""
    text = "\n\n".join(filter(None, (parser.usage or _usage(parser), (parser.description or "").strip())))
    rows = tuple(_options(parser, left_out))
    options = f"\n{table(('option', 'what it does'), rows)}" if rows else ""
    return f"```text\n{text}\n```\n{options}"


def _actions(parser: ArgumentParser) -> Sequence[Action]:
    return parser._actions  # noqa: SLF001 (argparse lists them nowhere else)


def _choices(action: Action) -> Mapping[str, ArgumentParser]:
    """Return the parsers of the words that *action* chooses from, if it does."""
    choices: Any = action.choices
    return cast("Mapping[str, ArgumentParser]", choices) if isinstance(choices, Mapping) else {}


def _usage(parser: ArgumentParser) -> str:
    words = [parser.prog]
    for action in _actions(parser):
        if choices := _choices(action):
            words.append(f"{{{','.join(choices)}}} …")
        elif not action.option_strings:
            name = _name(action)
            words.append({"*": f"[{name} …]", "+": f"{name} …", "?": f"[{name}]"}.get(str(action.nargs), str(name)))
    if any(action.option_strings for action in _actions(parser)):
        words.insert(1, "[OPTIONS]")
    return " ".join(words)


def _name(action: Action) -> str:
    choices = f"{{{','.join(map(str, action.choices))}}}" if action.choices else action.dest
    return str(action.metavar or choices)


def _options(parser: ArgumentParser, left_out: set[str] | frozenset[str] = frozenset()) -> Iterator[tuple[str, str]]:
    for action in _actions(parser):
        if left_out.intersection(action.option_strings) or _choices(action):
            continue
        value = "" if action.nargs == 0 or not action.option_strings else f" {action.metavar or action.dest.upper()}"
        name = ", ".join(action.option_strings) or _name(action)
        yield f"`{name}{value}`", as_markdown(action.help or "").replace("<", "&lt;")


# ---- errors -----------------------------------------------------------------------------


def error_tree() -> str:
    """Return the tree of errors as its module opens with it."""
    tree = (errors.__doc__ or "").partition("\n\n")[2].rstrip()
    return f"```text\n{tree}\n```\n"


def error_list() -> str:
    """Return every error with its attributes and the exit code that the command ends with."""
    found = [getattr(errors, name) for name in errors.__all__]
    raised = sorted((one for one in found if issubclass(one, errors.PluggentError)), key=lambda one: len(one.__mro__))
    rows = (
        (f"`{one.__name__}`", as_markdown((one.__doc__ or "").partition("\n\n")[0]), str(_code(one))) for one in raised
    )
    return table(("error", "what it says", "exit code"), rows)


def _code(error: type[BaseException]) -> int:
    made = error.__new__(error)
    if isinstance(made, errors.ConfigError):
        made.path = ""  # what code_of looks at
    return exits.code_of(made)


def error_kinds(name: str) -> str:
    """Return the kinds of one sort of error, as attributes and JSON have them."""
    owner = getattr(errors, name)
    said = member_docs(owner)
    rows = [(f"`{kind.value}`", as_markdown(said[kind.name])) for kind in owner]
    return table(("kind", "what happened"), rows)
