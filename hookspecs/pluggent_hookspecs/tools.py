"""What a tool is, what it is given, and what it gives back. ``@tool`` marks a function."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar, cast, overload, runtime_checkable

import attrs

from pluggent_hookspecs._frozen import EMPTY, Json, freeze, freeze_object
from pluggent_hookspecs._value import Value
from pluggent_hookspecs.messages import Message, Part

__all__ = [
    "HOSTED_APPROVED", "READ_ONLY", "TOOL_MARK", "CallPreview", "Effect", "HostedTool", "Param", "Tool",
    "ToolContext", "ToolMark", "ToolOutput", "ToolSource", "ToolSpec", "UndoCall", "tool",
]  # fmt: skip

if TYPE_CHECKING:  # models builds on ToolSpec, and a tool may ask a model: a type, not a need
    from pluggent_hookspecs.embeddings import EmbeddingResponse, EmbeddingRole
    from pluggent_hookspecs.memory import MemoryAccess
    from pluggent_hookspecs.models import ModelParameters, ModelResponse
    from pluggent_hookspecs.questions import Elicited

F = TypeVar("F", bound=Callable[..., Any])


class Effect(StrEnum):
    """The effect of a call on the world. Custom effects are strings that begin with ``x:``.

    A tool that declares nothing counts as the worst; ``effects=()`` is declared pure.
    """

    FILESYSTEM_READ = "filesystem_read"
    FILESYSTEM_WRITE = "filesystem_write"
    NETWORK_READ = "network_read"
    NETWORK_WRITE = "network_write"
    SHELL = "shell"
    HARDWARE = "hardware"
    MEMORY = "memory"
    MESSAGING = "messaging"
    DESTRUCTIVE = "destructive"
    SPEND = "spend"


READ_ONLY = frozenset({Effect.FILESYSTEM_READ, Effect.NETWORK_READ})
"""Effects that change nothing: such a call may be repeated."""


def _effects(value: Iterable[str] | None) -> frozenset[str] | None:
    if value is None:
        return None
    if isinstance(value, str):
        raise TypeError(f"effects: expected several names, got the text {value!r}; write effects=({value!r},)")
    names = frozenset(value)
    unknown = sorted(name for name in names if name not in Effect.__members__.values() and not name.startswith("x:"))
    if unknown:
        known = ", ".join(Effect)
        raise ValueError(f"effects: unknown {', '.join(unknown)}; known are {known}, and x:… for your own")
    return frozenset(str(name) for name in names)


def _tags(value: Iterable[str]) -> frozenset[str]:
    return frozenset(value)


@attrs.frozen(repr=False)
class ToolSpec(Value):
    """The public description of a tool.

    ``parameters`` is a JSON Schema (2020-12) of type object. ``effects`` None is
    undeclared. ``timeout_s`` None means the host's limit. ``idempotent``: repeating a call
    changes nothing more. ``exclusive``: runs alone. ``concurrent``: may run in parallel with other
    calls although it has writing effects. ``extra`` holds vendor-specific fields of the declaration,
    under the name of the wire format: ``{"openai": {"strict": True}}``. ``stops_batch``: later calls
    of the same reply run only if this one succeeds (denials and time-outs are errors). ``result_schema``
    is the JSON Schema of ``data`` in a result; the host refuses a result that does not fit. A tool with the
    tag ``undo`` is offered to no model: it is there for ``ToolOutput.undo``.
    """

    name: str
    description: str = ""
    parameters: Mapping[str, Json] = attrs.field(default=EMPTY, converter=freeze_object)
    effects: frozenset[str] | None = attrs.field(default=None, converter=_effects)
    tags: frozenset[str] = attrs.field(default=frozenset[str](), converter=_tags)
    category: str = ""
    version: str = ""
    compact_description: str = ""
    timeout_s: float | None = None
    idempotent: bool = False
    exclusive: bool = False
    concurrent: bool = False
    extra: Mapping[str, Json] = attrs.field(default=EMPTY, converter=freeze_object)
    stops_batch: bool = False
    result_schema: Mapping[str, Json] = attrs.field(default=EMPTY, converter=freeze_object)
    _memo: dict[Any, Any] = attrs.field(factory=dict, init=False, eq=False, repr=False)

    def memo(self, key: object, make: Callable[[ToolSpec], Any]) -> Any:
        """Return ``make(self)``, made once for each *key*; see Message.memo."""
        try:
            return self._memo[key]
        except KeyError:
            made = self._memo[key] = make(self)
            return made


HOSTED_APPROVED = "approved"
"""The result of a call that a vendor may make: the first text of the message, and the message is no error."""


@attrs.frozen(repr=False)
class HostedTool(Value):
    """A tool that runs at a model's vendor, within a request: nothing of it passes the hooks of tool calls.

    So policies on model requests decide about it. ``capability`` is ``<provider>:hosted/<name>``, such as
    ``openai:hosted/web_search``; a tool server that the vendor connects to is ``mcp/<label>``, and each of its calls
    is a ToolCall that is approved here first. ``effects`` are as in ToolSpec. ``definition`` identifies how it is
    set up, without its secrets.
    """

    capability: str
    effects: frozenset[str] | None = attrs.field(default=None, converter=_effects)
    definition: str = ""

    @property
    def name(self) -> str:
        """The name below the provider's.

        >>> HostedTool("openai:hosted/mcp/wiki").name
        'mcp/wiki'
        """
        return self.capability.partition(":hosted/")[2]


def _content(value: str | Iterable[Part]) -> str | tuple[Part, ...]:
    # Any other value stays as it is: the host reports it.
    return tuple(value) if isinstance(value, list) else cast("str | tuple[Part, ...]", value)


def _media(value: Iterable[Part]) -> tuple[Part, ...]:
    return tuple(value)


@attrs.frozen(repr=False)
class UndoCall(Value):
    """A call that puts back what another one has changed. ``tool`` is the own name of a tool of the same plugin."""

    tool: str
    arguments: Mapping[str, Json] = attrs.field(default=EMPTY, converter=freeze_object)


@attrs.frozen(repr=False)
class CallPreview(Value):
    """What a call is about to do, made when a person is asked; the person reads ``text`` below the arguments.

    ``state`` names what it was made from, such as the digest of a file: an answer counts only while a new
    preview has the same state. The call gets it as ``ToolContext.approved_state``. ``reach`` is the widest reach of
    an approval: ``once`` where an answer to this text says nothing of other calls.
    """

    text: str
    state: str = ""
    reach: Literal["once", "session", "always"] = "always"


@attrs.frozen(repr=False)
class ToolOutput(Value):
    """The result of a call.

    The model reads ``for_model``. ``for_user`` is shown to the person, None shows nothing. ``data`` is
    the result in structured form. ``media`` goes to the person together with ``for_user``. ``silent``
    hides the call from the person; ``handled``: the person has been served and no further model call
    is needed (both count only if the operator granted them to the tool). ``pause_for_input`` ends the
    turn and waits for the person. ``task`` names work that continues after the call. ``undo`` are the calls
    that put back what this one has changed, in their order: they are kept with the session, where neither
    the model nor a policy sees them, and made by ``Session.put_back`` under all policies.

    >>> ToolOutput("22 degrees").for_model
    '22 degrees'
    """

    for_model: str | tuple[Part, ...] = attrs.field(default="", converter=_content)
    for_user: str | None = attrs.field(default=None, kw_only=True)
    data: Json = attrs.field(default=None, kw_only=True, converter=freeze)
    is_error: bool = attrs.field(default=False, kw_only=True)
    silent: bool = attrs.field(default=False, kw_only=True)
    media: tuple[Part, ...] = attrs.field(default=(), kw_only=True, converter=_media)
    handled: bool = attrs.field(default=False, kw_only=True)
    pause_for_input: bool = attrs.field(default=False, kw_only=True)
    task: str | None = attrs.field(default=None, kw_only=True)
    undo: tuple[UndoCall, ...] = attrs.field(default=(), kw_only=True)

    @classmethod
    def error(cls, text: str) -> ToolOutput:
        """Return a failure for the model to read; the person sees nothing of it."""
        return cls(text, is_error=True)

    @classmethod
    def both(cls, text: str) -> ToolOutput:
        """Return text for the model and the person alike."""
        return cls(text, for_user=text)


class ToolContext(Protocol):
    """The host, for one call of a tool. Ask for it with a parameter of this type.

    Its operations run under the same policies as everything else. The async ones are for
    async tools; a blocking tool may read the properties and call ``progress`` and ``log``.
    """

    @property
    def session_id(self) -> str: ...
    @property
    def turn_id(self) -> str: ...
    @property
    def call_id(self) -> str: ...
    @property
    def idempotency_key(self) -> str:
        """An idempotency key: the same for every attempt at this call."""
        ...

    @property
    def workspace(self) -> Path | None:
        """The session's folder, None if it has none."""
        ...

    @property
    def private_folders(self) -> tuple[Path, ...]:
        """Folders of the host that are for no tool: one that searches folders or runs programs leaves them out."""
        ...

    @property
    def approved_state(self) -> str:
        """The ``CallPreview.state`` that a person agreed to; "" if this call needed no person, or has no preview."""
        ...

    @property
    def channel(self) -> str: ...
    @property
    def chat_id(self) -> str: ...
    @property
    def cancelled(self) -> bool:
        """Whether the call was given up: stop as soon as possible."""
        ...

    def remaining_s(self) -> float:
        """Return the seconds left before this call is given up."""
        ...

    def progress(self, done: float, total: float | None = None, message: str = "") -> None:
        """Report the progress of this call to subscribers, as ToolProgressed. Safe from any thread.

        While a plugin filters results or outputs, *message* is not shown: it would bypass the filter.
        """
        ...

    def log(self, level: str, message: str, *, logger: str = "", data: Json = None) -> None:
        """Log a message for subscribers, as ToolLogged. Safe from any thread.

        *level* is one of LOG_LEVELS, *logger* the part of the tool that logs it, *data* the same
        for programs. While a plugin filters results or outputs, nothing is logged: it would bypass the
        filter. Raises ValueError for another level.
        """
        ...

    async def call_tool(self, name: str, arguments: Mapping[str, Json]) -> ToolOutput:
        """Call another tool of this session, as an operation of its own with all its policies."""
        ...

    async def call_model(
        self,
        prompt: str | Sequence[Message],
        *,
        system: str = "",
        parameters: ModelParameters | None = None,
        ask: str = "",
    ) -> ModelResponse:
        """Ask the session's model, without the session's history and without tools.

        *prompt* is a question, or a conversation of the tool: messages of the roles user and
        assistant, without tool calls; *system* is the system prompt. The length of the answer is
        limited by ``parameters.max_output_tokens``, as given.

        With *ask*, the reason in words, a person who can answer now has to agree first, whatever the
        policies allow; for prompts of untrusted authors, such as a server. Without a person it is denied.
        Raises Denied if a policy or the person refuses, ProviderError if the model fails, ValueError
        for an invalid conversation.
        """
        ...

    async def count(
        self, prompt: str | Sequence[Message], *, system: str = "", parameters: ModelParameters | None = None
    ) -> int:
        """Return how many tokens ``call_model`` would send with the same arguments, as the vendor counts them.

        The vendor reads the prompt, so the policies on model requests decide about it. It costs nothing. Raises
        Denied, ProviderError, and PluggentError if the provider of the session's model does not count; ValueError
        for an invalid conversation.
        """
        ...

    async def embed(
        self,
        model: str,
        texts: Iterable[str],
        *,
        role: EmbeddingRole = "document",
        dimensions: int | None = None,
        truncate: bool = False,
    ) -> EmbeddingResponse:
        """Return the vectors of *texts* by *model*, which is ``embedder/model``; see EmbeddingRequest for the rest.

        The policies on embeddings decide about it, ledgers pay for it, and what it used counts in the turn. Raises
        EmbeddingIncomplete, with the vectors that came, if a later call to the vendor fails; Denied, ProviderError;
        ConfigError for an unknown embedder; ValueError for texts or options that no embedder takes.
        """
        ...

    async def elicit(self, message: str, schema: Mapping[str, Json], *, source: str = "") -> Elicited:
        """Ask a person for data, and return Accepted, Declined or Cancelled.

        *schema* is a JSON Schema of a flat object: strings, numbers, integers, booleans, choices
        (``enum``, or ``oneOf`` with ``const`` and ``title``) and lists of choices; with titles,
        descriptions, defaults and bounds, as in MCP. *source* names the origin of the question, such as
        a server; the person reads it and the plugin's id. The host renders the question, and checks the
        answer against the schema.

        It goes to a person who can answer now; without one it is Cancelled at once. The deadline of the
        call is paused meanwhile. The answer approves nothing. Never ask for secrets. Raises Denied if a
        policy refuses (``decide_question``), ToolError for a schema that is not such a form,
        LimitReached for too many questions in a turn.
        """
        ...

    def memory(self, store: str = "") -> MemoryAccess:
        """Return a memory store; each call of it passes the memory policies."""
        ...


@runtime_checkable
class Tool(Protocol):
    """A tool as an object, for sets made at run time; most tools are ``@tool`` functions.

    It may have two more methods, as the options of ``@tool`` say: ``preview(arguments, context)`` and
    ``parts(arguments)``.
    """

    @property
    def spec(self) -> ToolSpec: ...

    def call(self, arguments: Mapping[str, Json], context: ToolContext) -> Awaitable[ToolOutput | Json]:
        """Run with *arguments*, already checked against ``spec.parameters``."""
        ...


@runtime_checkable
class ToolSource(Protocol):
    """A set of tools that is known only after connecting somewhere.

    The sources of a plugin are listed concurrently, each under a deadline of its own. If one fails,
    the others keep their tools, and the failure is logged and shown. A source may have more attributes
    than the method below; each is read anew whenever it matters:

    - ``name: str``: its name in error messages.
    - ``prefix: str``: the prefix of all its tool names. It is not listed for a session that selects
      only tools with other names. A tool without the prefix makes it fail.
    - ``required: bool``: True makes its failure the plugin's; False never does. Without it, its failure
      is the plugin's if no tool of the plugin is left.
    - ``revision: int``: grows when its tools have changed, or when a retry after a failure makes sense.
      The next request to the model offers the new set. Without it, a source is listed once, and after
      a failure again when the next session opens.
    """

    async def tools(self) -> Iterable[Tool]:
        """Connect if necessary and return the tools; called when a session opens or a turn continues."""
        ...


@attrs.frozen(repr=False)
class ToolMark(Value):
    """The options of ``@tool`` on a function; the host makes the ToolSpec from both."""

    name: str | None
    description: str | None
    compact_description: str
    effects: frozenset[str] | None = attrs.field(converter=_effects)
    tags: frozenset[str] = attrs.field(converter=_tags)
    category: str
    version: str
    timeout_s: float | None
    idempotent: bool
    exclusive: bool
    concurrent: bool
    extra: Mapping[str, Json] = attrs.field(default=EMPTY, converter=freeze_object)
    stops_batch: bool = False
    result_schema: Mapping[str, Json] = attrs.field(default=EMPTY, converter=freeze_object)
    preview: Callable[..., Awaitable[CallPreview | None] | CallPreview | None] | None = None
    parts: Callable[..., Mapping[str, Sequence[str]]] | None = None


TOOL_MARK = "__pluggent_tool__"


@attrs.frozen(repr=False)
class Param(Value):
    """Says more about a parameter: ``city: Annotated[str, Param("a city", min_length=1)]``.

    A bare string in ``Annotated`` is a description. Bounds follow JSON Schema. ``format`` is
    too; ``"path"`` marks a file path (or several): a tool whose one effect is to write files
    runs without asking where all its paths lie inside the session's workspace. A parameter that is annotated
    ``pathlib.Path``, alone, with None or in a list, is marked so and handed over as one. An unmarked one that may be
    a path, by its name (``dest``, ``output_file``) or because its text begins as paths do, makes it ask; ``"text"``
    marks one that never is, such as the content of a file: ``// comment`` begins as paths do.
    """

    description: str | None = None
    ge: float | None = attrs.field(default=None, kw_only=True)
    gt: float | None = attrs.field(default=None, kw_only=True)
    le: float | None = attrs.field(default=None, kw_only=True)
    lt: float | None = attrs.field(default=None, kw_only=True)
    multiple_of: float | None = attrs.field(default=None, kw_only=True)
    min_length: int | None = attrs.field(default=None, kw_only=True)
    max_length: int | None = attrs.field(default=None, kw_only=True)
    pattern: str | None = attrs.field(default=None, kw_only=True)
    format: str | None = attrs.field(default=None, kw_only=True)
    examples: tuple[Json, ...] = attrs.field(default=(), kw_only=True)


@overload
def tool(function: F, /) -> F: ...
@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    compact_description: str = "",
    effects: Iterable[str] | None = None,
    tags: Iterable[str] = (),
    category: str = "",
    version: str = "",
    timeout_s: float | None = None,
    idempotent: bool = False,
    exclusive: bool = False,
    concurrent: bool = False,
    extra: Mapping[str, Json] = EMPTY,
    stops_batch: bool = False,
    result_schema: Mapping[str, Json] = EMPTY,
    preview: Callable[..., Awaitable[CallPreview | None] | CallPreview | None] | None = None,
    parts: Callable[..., Mapping[str, Sequence[str]]] | None = None,
) -> Callable[[F], F]: ...
def tool(
    function: F | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    compact_description: str = "",
    effects: Iterable[str] | None = None,
    tags: Iterable[str] = (),
    category: str = "",
    version: str = "",
    timeout_s: float | None = None,
    idempotent: bool = False,
    exclusive: bool = False,
    concurrent: bool = False,
    extra: Mapping[str, Json] = EMPTY,
    stops_batch: bool = False,
    result_schema: Mapping[str, Json] = EMPTY,
    preview: Callable[..., Awaitable[CallPreview | None] | CallPreview | None] | None = None,
    parts: Callable[..., Mapping[str, Sequence[str]]] | None = None,
) -> F | Callable[[F], F]:
    """Mark a typed, documented function, sync or async, as a tool. It stays an ordinary function.

    Name, description and parameters are read from it by the host: annotations (builtin
    types, Literal, enums, unions, attrs classes, TypedDict), defaults, ``Annotated`` with a
    string or Param, and an ``Args:`` section. A parameter annotated ToolContext is filled by
    the host and not shown to the model.

    *preview* takes the parameters of the tool (a ToolContext too, if it has one) and says what a call would do.
    It is asked for when a person is about to be, sync or async, and must change nothing.

    *parts* takes the parameters and returns, at once, the parts of arguments that patterns have to cover one
    by one: ``{"command": ("git status", "git log")}``. An approval of later calls covers a call if each part fits,
    and without a pattern it is one of exactly these parts; a rule that denies applies if any part fits.
    An argument that has none of its parts listed (an empty tuple) fits no pattern of an approval.

    >>> @tool(effects=())
    ... def add(a: int, b: int) -> int:
    ...     '''Add two numbers.'''
    ...     return a + b
    >>> add(1, 2)
    3
    """
    mark = ToolMark(
        name, description, compact_description, effects, tags, category, version,
        timeout_s, idempotent, exclusive, concurrent, extra, stops_batch, result_schema, preview, parts,
    )  # fmt: skip

    def write(marked: F) -> F:
        setattr(marked, TOOL_MARK, mark)
        return marked

    return write if function is None else write(function)
