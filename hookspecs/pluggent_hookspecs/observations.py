"""The events of observers and sinks: one frozen class for each kind."""

from __future__ import annotations

from typing import TypeAlias

import attrs

from pluggent_hookspecs._frozen import Json
from pluggent_hookspecs._value import Value
from pluggent_hookspecs.events import Scope
from pluggent_hookspecs.messages import Message, Usage
from pluggent_hookspecs.plans import Plan
from pluggent_hookspecs.reply_meta import ReplyMeta
from pluggent_hookspecs.tools import ToolOutput

__all__ = [
    "LOG_LEVELS", "Change", "DecisionMade", "Discarded", "EventsDropped", "HookFailed", "ModelCalled", "ModelRetried",
    "Observation", "PlanStepChanged", "PluginStateChanged", "QuestionAnswered", "ReasoningShown", "SessionClosed",
    "SessionOpened", "TextShown", "TextsEmbedded", "ToolFinished", "ToolLogged", "ToolProgressed", "ToolStarted",
    "TurnEnded", "TurnStarted", "UserNotified", "Vote",
]  # fmt: skip

LOG_LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
"""The levels of a tool's log messages, in order: those of RFC 5424."""


@attrs.frozen(repr=False)
class SessionOpened(Value):
    """A session is open. ``chains`` is the digest of all hook chains in force."""

    scope: Scope
    model: str
    tools: tuple[str, ...] = ()
    chains: str = ""


@attrs.frozen(repr=False)
class SessionClosed(Value):
    """A session is closed."""

    scope: Scope


@attrs.frozen(repr=False)
class TurnStarted(Value):
    """A turn begins with this message (as it came out of the input hooks)."""

    scope: Scope
    message: Message


@attrs.frozen(repr=False)
class TextShown(Value):
    """Text of a reply, as far as it has come and passed the hooks."""

    scope: Scope
    text: str


@attrs.frozen(repr=False)
class ReasoningShown(Value):
    """Reasoning of a reply, as far as it has come and passed the hooks."""

    scope: Scope
    text: str


@attrs.frozen(repr=False)
class Discarded(Value):
    """Everything shown of the reply so far is void; another attempt follows."""

    scope: Scope
    why: str = ""


@attrs.frozen(repr=False)
class UserNotified(Value):
    """A tool has something for the person: ``for_user`` and ``media`` of its result."""

    scope: Scope
    message: Message
    source: str


@attrs.frozen(repr=False)
class ModelCalled(Value):
    """A model call is over; ``error`` is empty if it succeeded. Usage counts either way.

    ``meta`` is what the last answer said besides the reply or the error.
    """

    scope: Scope
    model: str
    round: int
    usage: Usage
    elapsed_s: float
    finish_reason: str = ""
    error: str = ""
    meta: ReplyMeta = ReplyMeta()


@attrs.frozen(repr=False)
class TextsEmbedded(Value):
    """A request to an embedder is over; ``error`` is empty if all ``texts`` (a count) have their vectors.

    ``model`` is ``embedder/model``. ``usage`` is that of all calls, also of those before a failure; ``meta`` what
    the last answer said besides the vectors or the error.
    """

    scope: Scope
    model: str
    texts: int
    usage: Usage
    elapsed_s: float
    error: str = ""
    meta: ReplyMeta = ReplyMeta()


@attrs.frozen(repr=False)
class ModelRetried(Value):
    """A model call or an embedding failed and is tried again after ``wait_s``, maybe with another ``model``."""

    scope: Scope
    model: str
    attempt: int
    wait_s: float
    error: str


@attrs.frozen(repr=False)
class ToolStarted(Value):
    """A call has passed the policies and starts."""

    scope: Scope
    call_id: str
    name: str
    capability: str
    arguments_json: bytes


@attrs.frozen(repr=False)
class ToolProgressed(Value):
    """A running call reports its progress."""

    scope: Scope
    call_id: str
    name: str
    done: float
    total: float | None = None
    message: str = ""


@attrs.frozen(repr=False)
class ToolLogged(Value):
    """A running call logs a message, at one of LOG_LEVELS; ``logger`` is the part of the tool that logs it."""

    scope: Scope
    call_id: str
    name: str
    level: str
    message: str
    logger: str = ""
    data: Json = None


@attrs.frozen(repr=False)
class ToolFinished(Value):
    """A call has its result. ``ran`` is false if it never ran.

    ``output`` has passed the hooks on results and then those on outputs: the model may have
    read more. ``withheld``: an output policy has denied it, failed, or wants to ask a person first; ``output``
    then says only whether it is an error. It is without ``for_user`` and ``media``: those come as
    UserNotified, if the output policies let them pass. ``outcome`` is how the call failed, a
    ToolErrorKind; empty if it did not, or if the tool itself returned an error.
    """

    scope: Scope
    call_id: str
    name: str
    capability: str
    output: ToolOutput
    elapsed_s: float
    ran: bool = True
    outcome: str = ""
    withheld: bool = False


@attrs.frozen(repr=False)
class QuestionAnswered(Value):
    """A tool has asked a person for data. ``outcome`` is accepted, declined or cancelled.

    ``fields`` are the names of the given values; the values are for the tool alone. ``by`` is the person
    who answered, empty without an answer. ``call_id`` is the call that asked.
    """

    scope: Scope
    call_id: str
    capability: str
    source: str
    outcome: str
    by: str = ""
    fields: tuple[str, ...] = ()
    elapsed_s: float = 0.0


@attrs.frozen(repr=False)
class Vote(Value):
    """The answer of one plugin to a decide hook, and its time."""

    plugin: str
    verdict: str
    reason: str = ""
    elapsed_us: float = 0.0


@attrs.frozen(repr=False)
class Change(Value):
    """A change of one plugin before the freeze: the paths, and for non-security plugins the values."""

    plugin: str
    paths: tuple[str, ...] = ()
    before: Json = None
    after: Json = None


@attrs.frozen(repr=False)
class DecisionMade(Value):
    """The record of one decision, written before anything is executed.

    ``verdict`` is allow, deny, ask, respond, approved or refused; ``by`` who settled it.
    ``arguments_json`` are the frozen arguments of a tool call.
    """

    scope: Scope
    operation: str
    operation_id: str
    digest: str
    verdict: str
    by: str
    reason: str = ""
    capability: str = ""
    call_id: str = ""
    arguments_json: bytes = b""
    votes: tuple[Vote, ...] = ()
    changes: tuple[Change, ...] = ()
    elapsed_us: float = 0.0


@attrs.frozen(repr=False)
class PlanStepChanged(Value):
    """A step of a plan has a new status."""

    scope: Scope
    plan: Plan
    step_id: str


@attrs.frozen(repr=False)
class PluginStateChanged(Value):
    """A plugin has a new state; ``reason`` says why."""

    plugin: str
    state: str
    reason: str = ""


@attrs.frozen(repr=False)
class HookFailed(Value):
    """A hook raised, was late, or answered something else than its spec allows."""

    scope: Scope
    plugin: str
    hook: str
    problem: str


@attrs.frozen(repr=False)
class TurnEnded(Value):
    """A turn is over. ``why`` names the outcome, such as completed, denied or limit."""

    scope: Scope
    why: str
    text: str
    usage: Usage
    detail: str = ""


@attrs.frozen(repr=False)
class EventsDropped(Value):
    """The subscriber was too slow: ``count`` events are missing here."""

    count: int


Observation: TypeAlias = (
    SessionOpened
    | SessionClosed
    | TurnStarted
    | TextShown
    | ReasoningShown
    | Discarded
    | UserNotified
    | ModelCalled
    | ModelRetried
    | TextsEmbedded
    | ToolStarted
    | ToolProgressed
    | ToolLogged
    | ToolFinished
    | DecisionMade
    | QuestionAnswered
    | PlanStepChanged
    | PluginStateChanged
    | HookFailed
    | TurnEnded
    | EventsDropped
)
