"""What a store of sessions promises: a log of lines for each session, one writer at a time.

The host says what a line means and which lines are sealed; a store says how lines and seals are
kept. A store may answer at once (a file) or with an awaitable (a database on another machine); the
host awaits only what is an awaitable. All methods raise SessionError (SessionLeaseLost where a
writer has lost its lease), or ConfigError where what is stored cannot be relied on, and nothing
else on purpose.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias, runtime_checkable

from pluggent_hookspecs._frozen import EMPTY, Json

if TYPE_CHECKING:  # listing the sessions of a folder imports no third-party package
    from pluggent_hookspecs.markers import MaybeAsync

__all__ = [
    "ApprovalRecord", "ApprovalRecords", "Line", "Lines", "ListedSession", "SessionLog", "SessionPage",
    "SessionQuery", "SessionStore",
]  # fmt: skip


class Line(NamedTuple):
    r"""One entry of a session: ``data`` is a JSON object in UTF-8 that ends with a newline, and has no other.

    ``kind`` is which entry it is, the value of the object's first key ``t``; an entry may hold lone
    surrogates. ``sealed``, of a line that is appended: the store keeps proof that this log wrote
    exactly this line into this session, so that nothing else can be read as ``genuine``: not a
    line that a tool wrote, nor a genuine line of another session. Of a line that is read: there is
    such a proof, right or wrong. ``genuine`` says of a line that is read that the proof is right.

    A store that no tool can write to, such as a database with a password, needs no more than a
    column for ``sealed``, and ``genuine`` is the same.

    >>> Line("TurnBegan", b'{"t":"TurnBegan","turn_id":"t1"}\n').sealed
    False
    """

    kind: str
    data: bytes
    sealed: bool = False
    genuine: bool = False


Lines: TypeAlias = "Iterable[Line] | AsyncIterable[Line]"
"""Lines in the order in which they were appended, each whole; a last one that a crash left torn is left out."""


@runtime_checkable
class SessionLog(Protocol):
    """The log of one session, open for the one writer that holds its lease.

    **Order and durability.** Lines are in the log in the order in which they were appended. An
    ``append`` that returned None, or whose awaitable is done, has handed all its lines to a place
    that outlives this process (an operating system, a server), or none of them where it raised.
    What has to outlive that place, too, is so once ``sync`` is done. The host appends further lines
    only when the awaitable of the last ``append`` is done, and awaits it before anything with an
    effect runs and before a result is returned, without a time limit: that is the store's. After
    an error of an awaitable it appends nothing any more.

    **Lease.** ``lease`` is larger than that of every earlier writer that has appended to this
    session. A writer whose lease was taken away gets SessionLeaseLost from the next ``append`` or
    ``sync``, and none of its lines is kept from then on. A store compares the number in the same
    transaction in which it keeps the lines; it keeps the number outside of the log.
    """

    @property
    def place(self) -> str:
        """Where the log is, for messages: a path, or a table and key."""
        ...

    @property
    def lease(self) -> int:
        """The number of this writer."""
        ...

    def append(self, *lines: Line) -> MaybeAsync[None]:
        """Keep *lines*, all or none; see above for when they are durable."""
        ...

    def sync(self) -> MaybeAsync[None]:
        """Force everything appended to what survives a loss of power.

        A log whose ``append`` answers at once may block here: it is called from a thread.
        """
        ...

    def read(self) -> Lines:
        """Return every line so far; may raise while it is read.

        A log whose ``append`` answers later returns an AsyncIterable, any other an Iterable, which is
        read from a thread, too.
        """
        ...

    def close(self) -> MaybeAsync[None]:
        """Give up the lease. Raises nothing; safe twice."""
        ...


class SessionQuery(NamedTuple):
    """Which sessions to list: those whose id begins with ``prefix``, ``limit`` at most.

    ``cursor`` is what the last page gave. ``brief``: only ``id``, ``modified_s`` and ``in_use`` are
    needed; a store may leave the other fields at their defaults, to read no session.
    """

    prefix: str = ""
    limit: int = 100
    cursor: str | None = None
    brief: bool = False


class ListedSession(NamedTuple):
    """One session of a list. Times are seconds since 1970, None where it is unknown.

    ``principal`` is whose it is, empty if it has no owner. ``waits``: its last turn has paused, as
    far as the kinds of its lines say (a ``Paused`` without a later ``TurnBegan``, ``TurnOver`` or
    ``Undone``). ``in_use``: a writer holds the lease. ``problem`` says what is wrong with what is
    stored; empty if it is whole.
    """

    id: str
    modified_s: float
    created_s: float | None = None
    principal: str = ""
    waits: bool = False
    in_use: bool = False
    problem: str = ""


class SessionPage(NamedTuple):
    """Some sessions, newest first; ``cursor`` leads to the next page, None ends the list.

    ``total`` is how many sessions all pages of the query have together, None if the store does not count.
    """

    sessions: tuple[ListedSession, ...]
    cursor: str | None = None
    total: int | None = None


class ApprovalRecord(NamedTuple):
    """One record that holds beyond a session. Where ``genuine`` is False nothing else of it is to be believed."""

    kind: str
    name: str
    about: Mapping[str, Json] = EMPTY
    genuine: bool = True


@runtime_checkable
class ApprovalRecords(Protocol):
    """What holds in every session of a store: approvals for always. Sealed as sealed lines are."""

    def put(self, kind: str, name: str, about: Mapping[str, Json]) -> MaybeAsync[None]:
        """Keep *about* under ``(kind, name)`` in place of what was there; durable once this is done."""
        ...

    def all(self) -> MaybeAsync[Iterable[ApprovalRecord]]:
        """Return every record as it is now, those that are not genuine too.

        Where the records cannot be told apart any more, one without a kind, which is not genuine,
        stands for all of them; its name says where they are kept.
        """
        ...

    def drop(self, kind: str, name: str) -> MaybeAsync[bool]:
        """Forget a record; return whether there was one."""
        ...


@runtime_checkable
class SessionStore(Protocol):
    """Keeps sessions and what holds in all of them. Calls may overlap.

    ``read``, ``list`` and ``delete`` are called from a thread unless they are coroutine functions.

    A store is used only where the operator or the application names it, never because it is
    installed: it sees all that is said, and says which approvals count.
    """

    @property
    def name(self) -> str:
        """The short name, usually that of the entry point."""
        ...

    def open(self, session_id: str) -> MaybeAsync[SessionLog]:
        """Return the log of a session, empty if it is new, with the writer's lease.

        Raises SessionError if another writer holds the lease, or *session_id* is none that this
        store can have. At least ids of 100 ASCII letters, digits and ``._-`` can be had that
        begin with a letter or a digit.
        """
        ...

    def read(self, session_id: str) -> MaybeAsync[Lines]:
        """Return the lines of a session without its lease, as far as it has come; its writer is not disturbed.

        Raises SessionError if there is no such session.
        """
        ...

    def delete(self, session_id: str) -> MaybeAsync[None]:
        """Remove a session under its lease. Raises SessionError if there is none, or a writer holds the lease."""
        ...

    def list(self, query: SessionQuery) -> MaybeAsync[SessionPage]:
        """Return one page, the session last written to first.

        A session that is written to meanwhile may be on two pages, or on none of those that follow.
        """
        ...

    def approvals(self) -> ApprovalRecords:
        """Return what holds in every session of this store. Answers at once."""
        ...
