"""The tools of one session: each bound to its capability id, its definition and its effects."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import Any, cast

import attrs
import msgspec
from pluggent_function_tools.arguments import ArgumentProblems, Checker, canonical, parse
from pluggent_function_tools.function_tool import FunctionTool, definition_digest
from pluggent_hookspecs import Json, thaw
from pluggent_hookspecs.decisions import Allow, Ask, Decision
from pluggent_hookspecs.tools import READ_ONLY, Effect, Tool, ToolOutput, ToolSpec
from pluggent_plugin_loader.catalog import LONGEST_NAME

from pluggent_host.common.names import framed

UNDO = "undo"
"""The tag of tools that put back alone what others have changed."""
HARMLESS = READ_ONLY | {Effect.MEMORY}
FILES = frozenset({Effect.FILESYSTEM_READ, Effect.FILESYSTEM_WRITE, Effect.DESTRUCTIVE})
WRITING_FILES: frozenset[str] = frozenset({Effect.FILESYSTEM_WRITE})


def _digested(tool: BoundTool) -> tuple[bytes, bytes]:
    effects = "?" if tool.effects is None else ",".join(sorted(tool.effects))
    return framed(tool.capability.encode(), tool.definition.encode()), framed(effects.encode())


def _changes(tool: BoundTool) -> bool:
    return tool.effects is None or not tool.effects <= HARMLESS


def _repeatable(tool: BoundTool) -> bool:
    return tool.spec.idempotent or not tool.changes


def _serial(tool: BoundTool) -> bool:
    return tool.changes and not tool.spec.concurrent


def _knows_files(tool: BoundTool) -> bool:
    return tool.effects is None or not FILES.isdisjoint(tool.effects)


def _has(tool: BoundTool, name: str) -> bool:
    if isinstance(tool.tool, FunctionTool):
        return getattr(tool.tool, name) is not None
    return callable(getattr(tool.tool, {"previewing": "preview", "parting": "parts"}[name], None))


def _writes_files_only(tool: BoundTool) -> bool:
    return isinstance(tool.default, Ask) and tool.effects is not None and tool.effects - HARMLESS == WRITING_FILES


@attrs.frozen(eq=False, repr=False)
class BoundTool:
    """A tool of this session. ``spec.name`` is the name that the model sees.

    ``effects`` are the operator's if set, else the tool's own. ``default`` is the host's vote on a call, by effect.
    ``still`` says whether the tool is unchanged since it was bound; None if it cannot change.
    """

    capability: str
    plugin: str
    spec: ToolSpec
    tool: FunctionTool | Tool
    definition: str
    effects: frozenset[str] | None
    default: Decision
    checker: Checker
    still: Callable[[], Awaitable[bool]] | None = None
    results: Checker | None = None

    # Read several times in every call, so worked out once.
    digested: tuple[bytes, bytes] = attrs.field(init=False, default=attrs.Factory(_digested, takes_self=True))
    """What the digest of a call says of it, framed: capability and definition; effects."""
    changes: bool = attrs.field(init=False, default=attrs.Factory(_changes, takes_self=True))
    """Whether a call may change something outside, for all that is declared."""
    repeatable: bool = attrs.field(init=False, default=attrs.Factory(_repeatable, takes_self=True))
    """Whether a call may be repeated without asking: it changes nothing, or says so."""
    serial: bool = attrs.field(init=False, default=attrs.Factory(_serial, takes_self=True))
    """Whether calls wait for each other."""
    knows_files: bool = attrs.field(init=False, default=attrs.Factory(_knows_files, takes_self=True))
    """Whether a call may read or write files, for all that is declared."""
    writes_files_only: bool = attrs.field(init=False, default=attrs.Factory(_writes_files_only, takes_self=True))
    """Whether the default asks about nothing but writing files, which a workspace can confine."""

    has_preview: bool = attrs.field(
        init=False, default=attrs.Factory(lambda tool: _has(tool, "previewing"), takes_self=True)
    )
    """Whether it can say what a call would do."""
    has_parts: bool = attrs.field(
        init=False, default=attrs.Factory(lambda tool: _has(tool, "parting"), takes_self=True)
    )
    """Whether it divides arguments into parts that patterns have to cover one by one."""

    def parts(self, arguments_json: bytes) -> Mapping[str, tuple[str, ...]]:
        """Return the parts of the arguments, frozen. Raises ValueError for what are none, and what the tool raises."""
        tool: Any = self.tool
        said: Any = tool.parts(
            arguments_json if isinstance(tool, FunctionTool) else msgspec.json.decode(arguments_json)
        )
        if not isinstance(said, Mapping):
            raise ValueError(f"its parts are {type(said).__name__}, not a mapping")
        made = {name: tuple(parts) for name, parts in cast("Mapping[Any, Iterable[Any]]", said).items()}
        if wrong := [each for name, parts in made.items() for each in (name, *parts) if not isinstance(each, str)]:
            raise ValueError(f"its parts have {type(wrong[0]).__name__} where text belongs")
        return MappingProxyType(cast("dict[str, tuple[str, ...]]", made))

    def misfits(self, output: ToolOutput) -> str:
        """Validate the data of *output* against the tool's result schema; "" if it is valid, or none is declared."""
        if self.results is None or output.is_error or output.data is None:
            return ""
        return "; ".join(self.results.problems(thaw(output.data)))

    def prepare(self, text: str) -> bytes:
        """Return the model's arguments parsed, checked, completed and canonical. Raises ArgumentProblems."""
        return self._checked(parse(text))

    def prepared_again(self, arguments: Mapping[str, Json]) -> bytes:
        """Return the arguments of a transform, checked like the model's own."""
        return self._checked(parse(canonical(arguments).decode()))

    def _checked(self, value: dict[str, Any]) -> bytes:
        try:
            return self._valid(value)
        except ArgumentProblems:
            # Models, and clients of MCP, write null for an optional argument that is not given.
            given = self.checker.without_nulls(value)
            if given is value:
                raise
            with suppress(ArgumentProblems):
                return self._valid(given)
            raise

    def _valid(self, value: dict[str, Any]) -> bytes:
        if isinstance(self.tool, FunctionTool):
            return self.tool.normalise(value)
        value = self.checker.completed(value)
        if problems := self.checker.problems(value):
            raise ArgumentProblems(problems)
        return canonical(value)


def bind(
    tool: FunctionTool | Tool,
    *,
    name: str,
    capability: str,
    plugin: str,
    operator_effects: tuple[str, ...] | None,
    trusted: bool,
    version: str = "",
    still: Callable[[], Awaitable[bool]] | None = None,
) -> BoundTool:
    """Return *tool* bound for a session.

    *version* is that of its distribution, "" in application code. *trusted*: given there and not strict, so that it
    is allowed if it declares no effects.

    Raises ArgumentProblems if its parameters are not a JSON Schema of an object.
    """
    own = tool.spec
    spec = own if own.name == name else attrs.evolve(own, name=name)
    effects = frozenset(operator_effects) if operator_effects is not None else own.effects
    return BoundTool(
        capability,
        plugin,
        spec,
        tool,
        _definition(own, version),
        effects,
        Allow("given in application code") if trusted and effects is None else by_effect(effects),
        Checker(own.parameters or {"type": "object"}),
        still,
        Checker(own.result_schema) if own.result_schema else None,
    )


def _definition(spec: ToolSpec, version: str) -> str:
    """Return the digest of what an approval is about: a new version may do something else under the same definition."""
    digest = definition_digest(spec)
    return hashlib.sha256(f"{digest} {version}".encode()).hexdigest() if version else digest


def by_effect(effects: frozenset[str] | None) -> Decision:
    """Return the host's own vote on a call with these effects."""
    if effects is None:
        return Ask("its effects are not declared", tell_model="this tool needs a person's approval")
    worrying = sorted(effects - HARMLESS)
    if worrying:
        return Ask(f"its effects are {', '.join(worrying)}", tell_model="this tool needs a person's approval")
    return Allow(f"reads only: {', '.join(sorted(effects))}" if effects else "declared pure")


class Toolset(Mapping[str, BoundTool]):
    """The tools of a session by the name that the model sees; frozen."""

    def __init__(self, tools: Iterable[BoundTool] = ()) -> None:
        self._tools = MappingProxyType({tool.spec.name: tool for tool in tools})
        self.specs = tuple(tool.spec for tool in self._tools.values())
        shown = [tool for tool in self._tools.values() if UNDO not in tool.spec.tags]
        self.offered: Toolset = self if len(shown) == len(self._tools) else Toolset(shown)
        """Those that a model may be offered."""

    def __getitem__(self, name: str) -> BoundTool:
        return self._tools[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._tools)

    def __len__(self) -> int:
        return len(self._tools)

    def narrowed(self, names: Iterable[str]) -> Toolset:
        """Return this set with only *names*, in its own order. Raises ValueError for others."""
        wanted = set(names)
        if unknown := wanted - self._tools.keys():
            raise ValueError(f"{', '.join(sorted(unknown))}: not among the offered tools; they can only be narrowed")
        return self if len(wanted) == len(self._tools) else Toolset(t for n, t in self._tools.items() if n in wanted)


def kept_names(names: Mapping[str, str], before: Toolset) -> Mapping[str, str]:
    """Return {name: capability} as *names*, where every tool in *before* keeps its name."""
    held = {tool.capability: name for name, tool in before.items()}
    kept = {held[capability]: capability for capability in names.values() if capability in held}
    for name, capability in names.items():
        if capability not in held:
            digest = hashlib.sha256(capability.encode()).hexdigest()[:16]
            kept[name if name not in kept else f"{name[: LONGEST_NAME - 17]}_{digest}"] = capability
    return dict(sorted(kept.items()))
