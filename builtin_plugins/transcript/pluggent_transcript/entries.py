"""The entries of a transcript: what of a session is durable. They are appended and never changed.

logs.py keeps them as the lines of a log, rebuild.py makes a conversation of them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol, TypeAlias

import attrs
from pluggent_hookspecs import EMPTY, Json, Value, freeze_object
from pluggent_hookspecs.messages import Message, Usage
from pluggent_hookspecs.observations import DecisionMade

from pluggent_transcript.pending import Outcome, Paused, Resolved, Resumed
from pluggent_transcript.standing import Standing

FORMAT = 1
BY_HOST = "host"
"""``Said.by`` of what the host says itself: requests for an answer of the right form."""
WARNING = "host's warning"
"""``Said.by`` of warnings before limits: they end one request and are not part of the conversation."""


@attrs.frozen(repr=False)
class SessionBegan(Value):
    """The first entry of every transcript. The session belongs to ``principal``; ``claimed`` as in Scope."""

    session_id: str
    created_s: float
    model: str = ""
    system: str = ""
    version: int = FORMAT
    metadata: Mapping[str, str] = attrs.field(factory=dict[str, str])
    principal: str = ""
    claimed: bool = False


@attrs.frozen(repr=False)
class SessionAdopted(Value):
    """The session, which had no owner, belongs to ``principal`` from here on."""

    principal: str
    at_s: float


@attrs.frozen(repr=False)
class Given(Value):
    """Messages that the application gave a new session to begin with."""

    messages: tuple[Message, ...]


@attrs.frozen(repr=False)
class TurnBegan(Value):
    """A turn begins. ``metadata`` is that of the session and of the turn together."""

    turn_id: str
    at_s: float
    origin: str = "api"
    chains: str = ""
    dry_run: bool = False
    metadata: Mapping[str, str] = attrs.field(factory=dict[str, str])


@attrs.frozen(repr=False)
class Said(Value):
    """A message joined the conversation; tool results have an entry of their own.

    ``by`` is "host" for what the host itself said: a request for an answer of the right form;
    and "host's warning" for what it told the model of a limit, in one request alone: that is
    on record here, and joined nothing.
    """

    turn_id: str
    message: Message
    by: str = ""


@attrs.frozen(repr=False)
class Decided(Value):
    """A decision, written before anything is executed."""

    decision: DecisionMade


@attrs.frozen(repr=False)
class Dispatched(Value):
    """These calls with effects are about to run: from here on they may have happened."""

    turn_id: str
    calls: tuple[tuple[str, str, str], ...]
    """(call id, idempotency key, fingerprint of capability and arguments)"""


@attrs.frozen(repr=False)
class PutBack(Value):
    """A call that puts back what another one has changed, of the tool with this ``capability``."""

    capability: str
    arguments: Mapping[str, Json] = attrs.field(default=EMPTY, converter=freeze_object)


@attrs.frozen(repr=False)
class Settled(Value):
    """A call has its result. ``whole`` is the full text where the model got a cut one.

    ``outcome`` is a ToolErrorKind where the call failed, else empty; ``told`` what the next step
    has to know of it that the message does not say. ``undo`` puts back what it has changed: it has passed
    no policy, and no model, export or search sees it.
    """

    turn_id: str
    call_id: str
    message: Message
    outcome: str = ""
    whole: str | None = None
    told: Outcome | None = None
    undo: tuple[PutBack, ...] = ()


@attrs.frozen(repr=False)
class Spending(Value):
    """What one model call used, failed and cancelled ones included. Of a background ``run`` the last one counts."""

    turn_id: str
    model: str
    usage: Usage
    error: str = ""
    run: str = ""


@attrs.frozen(repr=False)
class RunRefused(Value):
    """The vendor has refused what was about to be submitted: nothing runs."""

    turn_id: str


@attrs.frozen(repr=False)
class TurnOver(Value):
    """A turn is over."""

    turn_id: str
    why: str
    detail: str = ""
    usage: Usage = Usage()


@attrs.frozen(repr=False)
class ModelChosen(Value):
    """From here on this model, as ``provider/model``, is asked."""

    model: str


@attrs.frozen(repr=False)
class Undone(Value):
    """What was said in this turn, and everything after it, is taken back.

    The conversation is shorter; what was spent and what tools did stays as it is.
    """

    turn_id: str


Entry: TypeAlias = (
    SessionBegan
    | SessionAdopted
    | Given
    | TurnBegan
    | Said
    | Decided
    | Dispatched
    | Settled
    | Spending
    | RunRefused
    | TurnOver
    | ModelChosen
    | Undone
    | Paused
    | Resolved
    | Standing
    | Resumed
)


class Transcript(Protocol):
    """Where entries go."""

    def append(self, *entries: Entry) -> None:
        """Keep *entries*, all or none; what is not kept yet is so when ``flush`` is done. Raises SessionError."""
        ...

    def flush(self) -> Awaitable[None] | None:
        """Return what to wait for until everything appended outlives this process; None if it does already."""
        ...

    async def sync(self, run: Callable[[Callable[[], Any]], Awaitable[Any]]) -> None:
        """Force everything appended to what survives a loss of power; *run* runs what blocks in a thread."""
        ...

    def entries(self) -> tuple[Entry, ...]:
        """Return everything appended so far."""
        ...

    async def aclose(self) -> None:
        """Write what is not written yet and give up the writer's lease. Safe twice."""
        ...
