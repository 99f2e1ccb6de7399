"""Runs that outlive a process: a vendor makes a reply, or a batch of them, while no connection waits for it.

Both protocols are up to the provider. A ticket is all that another process needs, besides the request, to fetch
the result; it is JSON in both directions, holds no secret, and is kept before anything is waited for.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Literal, Protocol, runtime_checkable

import attrs

from pluggent_hookspecs._frozen import EMPTY, Json, freeze_object
from pluggent_hookspecs._value import Value
from pluggent_hookspecs.errors import ProviderErrorKind
from pluggent_hookspecs.models import Delta, ModelRequest, ModelResponse

__all__ = ["BatchResult", "BatchState", "BatchTicket", "Batches", "RunsLater", "Ticket"]


@attrs.frozen(repr=False)
class Ticket(Value):
    """One run at a vendor. ``provider`` and ``target`` are those of its Provider, ``model`` is the name that was asked.

    ``id`` is the vendor's id of the run, ``submitted_s`` seconds since 1970, ``extra`` what else the provider needs.
    """

    provider: str
    target: str
    model: str
    id: str
    submitted_s: float = 0.0
    extra: Mapping[str, Json] = attrs.field(default=EMPTY, converter=freeze_object)


@runtime_checkable
class RunsLater(Protocol):
    """A Provider whose vendor continues a reply when the connection is lost. Offering this is up to the provider.

    ``ModelParameters.background`` asks for it. A reply is paid for once, however often it is attached to.
    """

    async def submit(self, request: ModelRequest) -> Ticket:
        """Begin a run and return its ticket as soon as the vendor has named it.

        Raises SubmissionInDoubt if the vendor may have begun a run whose name did not arrive, else ProviderError:
        then there is none.
        """
        ...

    def attach(self, ticket: Ticket, request: ModelRequest) -> AsyncGenerator[Sequence[Delta]]:
        """Yield the whole reply of a run from its beginning, as ``Provider.stream`` does; *request* is what was asked.

        A connection that is lost is opened again, and the reply goes on where it broke off. Any number of processes
        may attach, one after the other, as long as the vendor keeps the run. Closing it ends nothing at the vendor.
        Raises ProviderError: one that is ``retryable`` leaves the run as it is, so that attaching again may succeed;
        any other is the end of the run (failed, cancelled, unknown, expired).
        """
        ...

    async def cancel(self, ticket: Ticket) -> None:
        """End a run at the vendor; one that is over or unknown is left as it is. Raises ProviderError."""
        ...


@attrs.frozen(repr=False)
class BatchTicket(Value):
    """One batch at a vendor. ``key`` is what ``submit_batch`` was given; the rest is as in Ticket."""

    provider: str
    target: str
    id: str
    key: str
    submitted_s: float = 0.0
    extra: Mapping[str, Json] = attrs.field(default=EMPTY, converter=freeze_object)


@attrs.frozen(repr=False)
class BatchState(Value):
    """How far a batch is: of ``total`` requests ``done`` have a reply and ``failed`` an error, as the vendor counts.

    ``ended``: its results can be read, and no more will come. ``status`` is the vendor's word, ``problem`` why the
    batch as a whole failed.
    """

    status: str
    ended: bool
    total: int = 0
    done: int = 0
    failed: int = 0
    problem: str = ""


@attrs.frozen(repr=False)
class BatchResult(Value):
    """What became of one request of a batch: a reply, or why there is none.

    ``outcome``: ``done`` has a ``response``, ``failed`` a ``kind`` and a ``message`` as in ProviderError; what is
    ``cancelled`` or ``expired`` was not asked, and costs nothing.
    """

    id: str
    outcome: Literal["done", "failed", "cancelled", "expired"]
    response: ModelResponse | None = None
    kind: ProviderErrorKind = ProviderErrorKind.UNAVAILABLE
    message: str = ""


@runtime_checkable
class Batches(Protocol):
    """A Provider whose vendor answers many requests together, later, and cheaper. Offering this is up to the provider.

    Requests have ids of their own: 1 to 64 of ``A-Z a-z 0-9 _ -``, distinct in a batch.
    """

    async def submit_batch(self, requests: Mapping[str, ModelRequest], key: str) -> BatchTicket:
        """Send *requests*, by their ids, as one batch; *key* marks it at the vendor so that it can be found.

        What is too much for one batch is refused before anything is sent. Raises SubmissionInDoubt if the vendor may
        have taken the batch, else ProviderError: then there is none.
        """
        ...

    async def find_batch(self, key: str, requests: Mapping[str, ModelRequest], since_s: float) -> BatchTicket | None:
        """Return the batch of *key*, sent not before *since_s* (seconds since 1970); None if there surely is none.

        Raises SubmissionInDoubt if the vendor does not tell one batch from another, ProviderError.
        """
        ...

    async def batch_state(self, ticket: BatchTicket) -> BatchState:
        """Return how far the batch is. Raises ProviderError."""
        ...

    def batch_results(
        self, ticket: BatchTicket, requests: Mapping[str, ModelRequest]
    ) -> AsyncGenerator[Sequence[BatchResult]]:
        """Yield the results there are, in any order, each id once; *requests* are what was asked.

        May be read any number of times. A batch that has not ended has what the vendor shows of it, or nothing.
        Raises ProviderError, ``bad_request`` for a batch that is unknown or whose results have expired.
        """
        ...

    async def cancel_batch(self, ticket: BatchTicket) -> None:
        """End a batch; what is done of it stays and is paid for. One that has ended is left as it is."""
        ...
