"""A vendor in memory whose runs outlive connections and hosts, and a model called ``later`` that asks it."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence

import attrs
from pluggent_hookspecs.background import BatchResult, BatchState, BatchTicket, Ticket
from pluggent_hookspecs.errors import ProviderError, ProviderErrorKind
from pluggent_hookspecs.models import Delta, ModelRequest, ModelResponse, deltas
from pluggent_hookspecs.tools import HostedTool

from pluggent_testing.fakes import Reply, ScriptedModel


@attrs.define(eq=False)
class LaterVendor:
    """What the vendor has: ``runs`` and ``batches`` by id, each paid for once; ``cancelled`` are ids of both."""

    runs: dict[str, ModelRequest] = attrs.field(factory=dict[str, ModelRequest])
    replies: dict[str, ModelResponse] = attrs.field(factory=dict[str, ModelResponse])
    batches: dict[str, tuple[str, Mapping[str, ModelRequest]]] = attrs.field(
        factory=dict[str, "tuple[str, Mapping[str, ModelRequest]]"]
    )
    cancelled: list[str] = attrs.field(factory=list[str])
    attached: list[str] = attrs.field(factory=list[str])
    """The id of each run, each time that its reply was asked for."""
    numbers: itertools.count[int] = attrs.field(factory=lambda: itertools.count(1))


class LaterModel(ScriptedModel):
    """A ScriptedModel called ``later`` whose vendor runs requests in the background, and in batches.

    *on_submit* and *on_attach* are raised, in order, where such a call would be answered; None lets it pass. A
    submission that raises SubmissionInDoubt has reached the vendor.
    """

    name = "later"

    def __init__(
        self,
        *replies: Reply,
        vendor: LaterVendor | None = None,
        on_submit: Sequence[BaseException | None] = (),
        on_attach: Sequence[BaseException | None] = (),
        hold: asyncio.Event | None = None,
        hosted: Iterable[HostedTool] = (),
    ) -> None:
        super().__init__(*replies, hold=hold, hosted=hosted)
        self.vendor = vendor or LaterVendor()
        self._on_submit = list(on_submit)
        self._on_attach = list(on_attach)

    async def submit(self, request: ModelRequest) -> Ticket:
        """Begin a run; see RunsLater."""
        id = f"run_{next(self.vendor.numbers)}"
        failure = self._on_submit.pop(0) if self._on_submit else None
        if failure is None or type(failure).__name__ == "SubmissionInDoubt":
            self.vendor.runs[id] = request
        if failure is not None:
            raise failure
        return Ticket(self.name, self.target, request.model, id)

    async def attach(self, ticket: Ticket, request: ModelRequest) -> AsyncGenerator[Sequence[Delta]]:
        """Yield the reply of a run; see RunsLater."""
        self.vendor.attached.append(ticket.id)
        if ticket.id not in self.vendor.runs or ticket.id in self.vendor.cancelled:
            raise self._unknown(f"there is no run {ticket.id}")
        failure = self._on_attach.pop(0) if self._on_attach else None
        if ticket.id not in self.vendor.replies:
            self.vendor.replies[ticket.id] = await self.complete(self.vendor.runs[ticket.id])
        for delta in deltas(self.vendor.replies[ticket.id]):
            if failure is not None:
                raise failure
            yield (delta,)

    async def cancel(self, ticket: Ticket) -> None:
        """End a run; see RunsLater."""
        self.vendor.cancelled.append(ticket.id)

    # ---- batches -------------------------------------------------------------------------

    async def submit_batch(self, requests: Mapping[str, ModelRequest], key: str) -> BatchTicket:
        """Take a batch; see Batches."""
        id = f"batch_{next(self.vendor.numbers)}"
        failure = self._on_submit.pop(0) if self._on_submit else None
        if failure is None or type(failure).__name__ == "SubmissionInDoubt":
            self.vendor.batches[id] = key, dict(requests)
        if failure is not None:
            raise failure
        return BatchTicket(self.name, self.target, id, key)

    async def find_batch(self, key: str, requests: Mapping[str, ModelRequest], since_s: float) -> BatchTicket | None:
        """Return the batch of *key*; see Batches."""
        found = next((id for id, (own, _) in self.vendor.batches.items() if own == key), None)
        return None if found is None else BatchTicket(self.name, self.target, found, key)

    async def batch_state(self, ticket: BatchTicket) -> BatchState:
        """Return how far a batch is; see Batches."""
        total = len(self._batch(ticket))
        return BatchState("ended", ended=True, total=total, done=total)

    async def batch_results(
        self, ticket: BatchTicket, requests: Mapping[str, ModelRequest]
    ) -> AsyncGenerator[Sequence[BatchResult]]:
        """Yield the results, the last one first; see Batches."""
        for name, request in reversed(list(self._batch(ticket).items())):
            place = f"{ticket.id}/{name}"
            try:
                if place not in self.vendor.replies:
                    self.vendor.replies[place] = await self.complete(request)
                yield (BatchResult(name, "done", self.vendor.replies[place]),)
            except ProviderError as error:
                yield (BatchResult(name, "failed", kind=error.kind, message=error.message),)

    async def cancel_batch(self, ticket: BatchTicket) -> None:
        """End a batch; see Batches."""
        self._batch(ticket)
        self.vendor.cancelled.append(ticket.id)

    def _batch(self, ticket: BatchTicket) -> Mapping[str, ModelRequest]:
        if ticket.id not in self.vendor.batches:
            raise self._unknown(f"there is no batch {ticket.id}")
        return self.vendor.batches[ticket.id][1]

    def _unknown(self, problem: str) -> ProviderError:
        return ProviderError(ProviderErrorKind.BAD_REQUEST, problem, provider=self.name)
