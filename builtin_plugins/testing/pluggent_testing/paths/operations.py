"""What an entry path is made of: operations, each with the hooks that have to fire for it once.

A path says which operations it contains; which hooks it must fire, and how often, follows from that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal, TypeAlias

import attrs
from pluggent_hookspecs.hooks import HOOKS
from pluggent_hookspecs.markers import HookKind

from pluggent_testing.fakes import Reply


@attrs.frozen
class Operation:
    """One kind of operation: the hooks that fire for one of it, and what it executes, if it gets so far.

    ``executes`` is ``asked`` (a provider), ``ran`` (a tool), ``wrote`` or ``read`` (a store),
    ``questioned`` (a person), ``embedded`` (an embedder), ``counted`` (a provider), or empty: what
    the log of a path has to say once for each.
    """

    name: str
    hooks: tuple[str, ...]
    executes: str = ""

    def without(self, name: str, *hooks: str) -> Operation:
        """Return this operation, called *name*, as it is when *hooks* do not fire and nothing is executed."""
        return Operation(name, tuple(hook for hook in self.hooks if hook not in hooks))


TURN = Operation("turn", ("transform_input", "decide_input", "around_turn"))
RESUMED = Operation("turn, resumed", ("decide_input", "around_turn"))
TURN_ANSWERED = TURN.without("turn, answered", "around_turn")
OFFER = Operation("offer of tools", ("select_tools",))
MODEL = Operation(
    "model call",
    (
        "transform_model_request", "decide_model_request", "around_model_call", "reserve", "settle",
        "transform_model_response", "decide_model_response",
    ),
    "asked",
)  # fmt: skip
COUNT = Operation("count of tokens", ("transform_model_request", "decide_model_request"), "counted")
MODEL_AGAIN = Operation("another attempt at a model call", ("around_model_call", "reserve", "settle"), "asked")
MODEL_REPLACED = Operation(
    "a model call in place of another",
    ("transform_model_request", "decide_model_request", "around_model_call", "reserve", "settle"),
    "asked",
)
MODEL_FORGONE = Operation(
    "a model call that another replaced",
    ("transform_model_request", "decide_model_request", "transform_model_response", "decide_model_response"),
)
MODEL_ANSWERED = MODEL.without("model call, answered", "around_model_call", "reserve", "settle")
MODEL_ANSWERED_AROUND = MODEL.without("model call, answered by a layer", "reserve", "settle")
BATCHED = Operation(
    "a request of a batch, sent", ("transform_model_request", "decide_model_request", "reserve"), "asked"
)
BATCH_READ = Operation(
    "a result of a batch, read",
    (
        "decide_model_request", "around_model_call", "reserve", "settle", "transform_model_response",
        "decide_model_response",
    ),
)  # fmt: skip
STREAM = Operation("stream", ("transform_delta",))
TOOL = Operation(
    "tool call",
    (
        "transform_tool_call", "decide_tool_call", "around_tool_call", "reserve", "settle",
        "transform_tool_result", "decide_tool_result", "transform_output", "decide_output",
    ),
    "ran",
)  # fmt: skip
"""Its result is shown to those who watch; what a tool has for a person besides is an OUTPUT of its own."""
TOOL_AGAIN = Operation("another attempt at a tool call", ("around_tool_call", "reserve", "settle"), "ran")
TOOL_ANSWERED = TOOL.without("tool call, answered", "around_tool_call", "reserve", "settle")
TOOL_ANSWERED_AROUND = TOOL.without("tool call, answered by a layer", "reserve", "settle")
TOOL_DRY = TOOL.without("tool call, dry", "reserve", "settle")
TOOL_REFUSED = Operation(
    "result of a call that never ran",
    ("transform_tool_result", "decide_tool_result", "transform_output", "decide_output"),
)
TOOL_HOSTED = attrs.evolve(TOOL, name="call at the vendor, approved", executes="")
TOOL_PENDING = Operation("tool call that waits", ("transform_tool_call", "decide_tool_call"))
TOOL_RESUMED = attrs.evolve(TOOL, name="tool call, resumed", hooks=TOOL.hooks[1:])
TOOL_CONFIRMED = Operation("tool call, decided again", ("decide_tool_call",))
OUTPUT = Operation("something shown", ("transform_output", "decide_output"))
WRITE = Operation("memory write", ("transform_memory_write", "decide_memory_write"), "wrote")
READ = Operation("memory read", ("decide_memory_read", "transform_memory_result"), "read")
EMBED = Operation(
    "embedding",
    (
        "transform_embedding_request", "decide_embedding_request", "around_embedding_call", "reserve", "settle",
        "transform_embedding_response", "decide_embedding_response",
    ),
    "embedded",
)  # fmt: skip
EMBED_AGAIN = Operation("another attempt at an embedding", ("around_embedding_call", "reserve", "settle"), "embedded")
EMBED_ANSWERED = EMBED.without("embedding, answered", "around_embedding_call", "reserve", "settle")
EMBED_ANSWERED_AROUND = EMBED.without("embedding, answered by a layer", "reserve", "settle")
QUESTION = Operation("question to a person", ("decide_question", "answer_question"), "questioned")
APPROVAL = Operation("approval", ("resolve_approval",))

ROUND = (OFFER, MODEL)
"""One round of a turn: tools are offered, and the model answers."""

EVERYWHERE = ("write_record", "observe")
"""Hooks that are told of whatever happens, so that they belong to every path and count no operation."""

NO_OPERATION: Mapping[str, str] = {
    name: "a plugin is asked once what it offers; nothing passes through it"
    for name, info in HOOKS.items()
    if info.kind is HookKind.PROVIDE
}
"""Hooks that belong to no operation, with the reason."""

_REQUESTS = {
    "input": "decide_input",
    "model_call": "decide_model_request",
    "tool_call": "decide_tool_call",
    "memory_write": "decide_memory_write",
    "memory_read": "decide_memory_read",
    "question": "decide_question",
    "embedding": "decide_embedding_request",
}
"""What sinks are told of before it is executed: the operation's name, and the hook that decides about it."""

Doing: TypeAlias = Mapping[str, tuple[Operation, ...]]


@attrs.frozen(eq=False)
class EntryPath:
    """One way into operations of the host.

    ``enters`` are the public methods that it goes through. ``does`` are its operations by their
    origin (``tool``: below a running tool). ``way`` goes it, given a Stage and, unless it ``opens``
    one itself, a host; it may be a coroutine function. ``replies`` are the model's, ``other`` those
    of a second model; ``plugins`` makes further plugins of the path (given the log); ``nested`` is
    what the tool ``probe_nested`` does; ``settings`` are fields of HostSettings. ``installed`` says
    which of the suite's plugins come by entry point instead of in code; ``functions``: its tools
    are functions instead of objects; ``durable``: its sessions have to be kept. ``cut`` and
    ``whole`` are how the model streams, ``failures`` how often the embedder fails at first.
    ``repeats`` are operations that it shares with another path, which tests them against what
    refuses and changes them; on this one they have to fire. ``hosted`` are names of tools at the model's vendor.
    """

    name: str
    enters: tuple[str, ...]
    does: Doing
    way: Callable[..., Any]
    replies: tuple[Reply, ...] = ()
    plugins: Callable[[Any], tuple[object, ...]] = lambda _: ()
    nested: Callable[[Any, Any], Any] | None = None
    settings: Mapping[str, Any] = attrs.field(factory=dict[str, Any])
    opens: bool = False
    installed: Literal["nothing", "tools", "everything"] = "nothing"
    functions: bool = False
    durable: bool = False
    repeats: tuple[Operation, ...] = ()
    other: tuple[Reply, ...] = ()
    cut: int | None = None
    failures: int = 0
    whole: bool = False
    hosted: tuple[str, ...] = ()

    def operations(self) -> Iterator[tuple[str, Operation]]:
        """Yield every operation of the path with its origin."""
        return ((origin, each) for origin, done in self.does.items() for each in done)

    def fires(self) -> Counter[tuple[str, str]]:
        """Return how often each hook fires, by (hook, origin)."""
        return Counter((hook, origin) for origin, each in self.operations() for hook in each.hooks)

    def times(self, hook: str) -> int:
        """Return how often *hook* fires on this path."""
        return sum(hook in each.hooks for _, each in self.operations())

    def executes(self) -> Counter[str]:
        """Return how often a provider is asked, a tool runs, a store is written to and read, texts are embedded."""
        return Counter(each.executes for _, each in self.operations() if each.executes)

    def decided(self) -> tuple[str, ...]:
        """Return the kinds of operations that are decided about on this path, as records name them."""
        counts = self.executes()["counted"]
        found = [name for name, hook in _REQUESTS.items() if self.times(hook) > (counts if name == "model_call" else 0)]
        return (*found, *(["count"] if counts else []))

    def about(self) -> tuple[str, ...]:
        """Return those of its hooks that this path tests against what they refuse and change."""
        fired = {hook for _, each in self.operations() for hook in each.hooks if each not in self.repeats}
        return tuple(name for name in HOOKS if name in fired)

    def hooks(self) -> tuple[str, ...]:
        """Return the hooks that fire on this path, in the order of the contract."""
        fired = {hook for _, each in self.operations() for hook in each.hooks}
        return tuple(name for name in HOOKS if name in fired or name in EVERYWHERE)
