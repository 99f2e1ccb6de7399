"""The events of hooks: one frozen class a hook. Those of observers are in observations.py.

Every event is JSON-safe and converts there and back without loss. A new field has a
default and breaks no plugin. Before the freeze ``digest`` is empty; afterwards it names the
exact request, and nothing changes it any more.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cached_property
from typing import Literal, cast

import attrs

from pluggent_hookspecs._frozen import EMPTY, Json, freeze, freeze_object
from pluggent_hookspecs._value import Value
from pluggent_hookspecs.decisions import Reach
from pluggent_hookspecs.embeddings import EmbeddingRequest, EmbeddingResponse
from pluggent_hookspecs.memory import MemoryItem, MemoryQuery
from pluggent_hookspecs.messages import Message, Usage
from pluggent_hookspecs.models import ModelRequest, ModelResponse
from pluggent_hookspecs.tools import ToolOutput, ToolSpec

__all__ = [
    "ApprovalEvent", "DeltaEvent", "EmbeddingRequestEvent", "EmbeddingResponseEvent", "InputEvent",
    "MemoryReadEvent", "MemoryResultEvent", "MemoryWriteEvent", "ModelRequestEvent", "ModelResponseEvent",
    "OutputEvent", "ProvideEvent", "QuestionEvent", "ReserveEvent", "Scope", "SettleEvent", "ToolCallEvent",
    "ToolResultEvent", "ToolSelectionEvent",
]  # fmt: skip


def _to_metadata(value: Mapping[str, str]) -> Mapping[str, str]:
    return cast("Mapping[str, str]", freeze_object(value))


@attrs.frozen(repr=False)
class Scope(Value):
    """The context of an event; the same object for everything in one turn.

    ``origin`` is the way in: cli, api, stream, resume, plan, mcp, tool, … ``principal`` is the
    identity that asks, given by the application; ``claimed``: only the client itself says so, without
    proof, and no standing approval covers it. ``operation_id`` of an outer operation is ``parent_id``
    below it. ``metadata`` is the application's own, of the session and the turn.
    In a ``dry_run`` everything is decided and recorded, and nothing with effects is executed.
    ``caller`` says whose calls these are: those of the ``model`` in a turn, or one that the ``application`` makes by
    hand (``Session.call_tool``, ``pluggent tools call``, a server's client), with all that runs below it.
    """

    session_id: str = ""
    turn_id: str = ""
    origin: str = "api"
    agent: str = ""
    principal: str = ""
    channel: str = ""
    chat_id: str = ""
    workspace: str = ""
    parent_id: str = ""
    dry_run: bool = False
    metadata: Mapping[str, str] = attrs.field(default=cast("Mapping[str, str]", EMPTY), converter=_to_metadata)
    claimed: bool = False
    caller: Literal["model", "application"] = "model"


@attrs.frozen(repr=False)
class ProvideEvent(Value):
    """A plugin is asked once, when it is loaded, what it offers."""

    host_version: str = ""


@attrs.frozen(repr=False)
class InputEvent(Value):
    """A message from outside is about to start a turn."""

    scope: Scope
    message: Message
    digest: str = ""
    resumed: bool = False


@attrs.frozen(repr=False)
class OutputEvent(Value):
    """Something is about to be shown to the person.

    ``source`` is ``reply`` for the model's words, otherwise the capability id of the tool whose result this is.
    Of a result come once what the model reads (``data`` behind it, as JSON, if its text does not say the
    same), for those who watch, and once ``for_user`` and ``media``, if there are any.
    """

    scope: Scope
    message: Message
    source: str = "reply"
    digest: str = ""


@attrs.frozen(repr=False)
class ToolSelectionEvent(Value):
    """The tools about to be offered to the model, by the names that it will see."""

    scope: Scope
    tools: tuple[ToolSpec, ...]
    capabilities: Mapping[str, str] = attrs.field(factory=dict[str, str])


@attrs.frozen(repr=False)
class ModelRequestEvent(Value):
    """A model is about to be asked. ``provider`` is a capability id, ``target`` its address."""

    scope: Scope
    request: ModelRequest
    provider: str
    target: str = ""
    round: int = 0
    digest: str = ""


@attrs.frozen(repr=False)
class ModelResponseEvent(Value):
    """A model has answered; its reply is not shown yet."""

    scope: Scope
    request: ModelRequest
    response: ModelResponse
    provider: str
    round: int = 0
    digest: str = ""


@attrs.frozen(repr=False)
class DeltaEvent(Value):
    """More of a streamed reply is about to be shown.

    ``text`` is the text that the plugin held back last time, with the new text after it; ``kind`` is text
    or reasoning, each a stream of its own. ``final``: this is its end. ``state`` is that of the plugin's
    last Window of this stream.
    """

    scope: Scope
    text: str
    kind: str = "text"
    final: bool = False
    state: Json = attrs.field(default=None, converter=freeze)


@attrs.frozen(repr=False)
class EmbeddingRequestEvent(Value):
    """Texts are about to be sent to an embedder. ``embedder`` is a capability id, ``target`` its address."""

    scope: Scope
    request: EmbeddingRequest
    embedder: str
    target: str = ""
    digest: str = ""


@attrs.frozen(repr=False)
class EmbeddingResponseEvent(Value):
    """An embedder has answered; the vectors are not handed out yet.

    Of a request that failed half-way they are those of its first texts, as many as were embedded.
    """

    scope: Scope
    request: EmbeddingRequest
    response: EmbeddingResponse
    embedder: str
    digest: str = ""


@attrs.frozen(repr=False)
class ReserveEvent(Value):
    """An attempt at a call is about to be made, and may cost something.

    ``operation`` is model_call, tool_call or embedding, ``operation_id`` and ``attempt`` (from 1) tell
    attempts apart. Of an embedding: ``model`` as ``embedder/model``, and ``input_tokens`` as below. Of a model
    call: ``model`` as ``provider/model``, ``max_output_tokens`` if the
    request has a limit, and ``input_tokens``, a rough estimate of the host's: messages, calls,
    results and definitions of tools at 4 bytes a token, 1,600 for a picture (85 at detail
    ``low``), a token for 1,600 bytes of sound and for 20 of a document that is no text, 3,000
    for a document that lies elsewhere.

    ``run`` names a run that outlives processes, such as a background reply or a request of a batch, and is empty for
    all others. It may be reserved again, in another process too: what was reserved or booked for it before is
    void then, so that it is charged once.
    """

    scope: Scope
    operation: str
    operation_id: str
    attempt: int
    capability: str
    model: str = ""
    input_tokens: int = 0
    max_output_tokens: int | None = None
    run: str = ""


@attrs.frozen(repr=False)
class SettleEvent(Value):
    """An attempt is over. ``outcome`` is done, failed or cancelled; ``usage`` is of this attempt alone.

    ``reservation`` is what ``reserve`` of the same plugin returned for it. ``error`` says why the
    attempt failed or was never made, empty if it is done: of a model call in words, of a tool call
    the ToolErrorKind (its words have not passed the policies on results).
    """

    reserved: ReserveEvent
    reservation: Json = attrs.field(converter=freeze)
    usage: Usage = Usage()
    outcome: str = "done"
    elapsed_s: float = 0.0
    error: str = ""


@attrs.frozen(repr=False)
class ToolCallEvent(Value):
    """A tool is about to be called.

    ``arguments_json`` is canonical (sorted, no spaces) and is what will run;
    ``arguments`` is a read-only view of it. ``capability`` is the full id,
    ``definition`` the digest of the tool's definition, ``effects`` those that count for this
    call (None: undeclared). ``round`` and ``index`` number the calls of a turn. ``parts`` are those of
    arguments of which a pattern has to cover each one, by the name of the argument; see ``@tool``.
    """

    scope: Scope
    call_id: str
    tool: ToolSpec
    capability: str
    arguments_json: bytes
    definition: str = ""
    effects: frozenset[str] | None = None
    round: int = 0
    index: int = 0
    digest: str = ""
    parts: Mapping[str, tuple[str, ...]] = cast("Mapping[str, tuple[str, ...]]", EMPTY)

    @cached_property
    def arguments(self) -> Mapping[str, Json]:
        """The arguments as read-only objects; made when first read."""
        return cast("Mapping[str, Json]", freeze(json.loads(self.arguments_json)))


@attrs.frozen(repr=False)
class ToolResultEvent(Value):
    """A tool call has a result, failures included; it is not shown yet."""

    scope: Scope
    call_id: str
    tool: ToolSpec
    capability: str
    arguments_json: bytes
    output: ToolOutput
    round: int = 0
    index: int = 0
    digest: str = ""

    @cached_property
    def arguments(self) -> Mapping[str, Json]:
        """The arguments as read-only objects; made when first read."""
        return cast("Mapping[str, Json]", freeze(json.loads(self.arguments_json)))


@attrs.frozen(repr=False)
class MemoryWriteEvent(Value):
    """Items are about to be saved, or the (namespace, key) pairs of ``delete`` deleted."""

    scope: Scope
    store: str
    items: tuple[MemoryItem, ...] = ()
    delete: tuple[tuple[str, str], ...] = ()
    digest: str = ""


@attrs.frozen(repr=False)
class MemoryReadEvent(Value):
    """Memory is about to be read: one key, a list, or a search (``text``)."""

    scope: Scope
    store: str
    namespace: str
    key: str | None = None
    query: MemoryQuery | None = None
    text: str | None = None
    limit: int | None = None
    digest: str = ""


@attrs.frozen(repr=False)
class MemoryResultEvent(Value):
    """Memory has been read; the items are not handed out yet."""

    scope: Scope
    store: str
    namespace: str
    items: tuple[MemoryItem, ...]
    digest: str = ""


@attrs.frozen(repr=False)
class QuestionEvent(Value):
    """A tool is about to ask a person for data.

    ``source`` names the origin of the question, such as a server; ``capability`` is the tool's id.
    ``message`` and ``schema``, a JSON Schema of a flat object, are as given, perhaps by an untrusted
    server. ``rendered`` is all of it, made by the host for a person to read.
    """

    scope: Scope
    capability: str
    source: str
    message: str
    schema: Mapping[str, Json] = attrs.field(converter=freeze_object)
    rendered: str = ""
    digest: str = ""


@attrs.frozen(repr=False)
class ApprovalEvent(Value):
    """A person has to decide. ``rendered`` was made by the host from the frozen request.

    An approver answers True or False for exactly ``digest``, or an Approval; None leaves it to the
    next. ``asks`` are (plugin, question) in order. ``reach`` is the widest reach of an approval;
    ``approvers`` limit who may approve, a list of names for each ask that has one.
    """

    scope: Scope
    operation: str
    digest: str
    rendered: str
    asks: tuple[tuple[str, str], ...] = ()
    capability: str = ""
    reach: Reach = "once"
    approvers: tuple[tuple[str, ...], ...] = ()
