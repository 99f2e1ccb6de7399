"""The background run of one model call on the record of its turn, so that another process can fetch the reply."""

from __future__ import annotations

from time import time
from typing import Protocol

import attrs
from pluggent_hookspecs.background import RunsLater, Ticket
from pluggent_hookspecs.decisions import Ask
from pluggent_hookspecs.errors import ConfigError, PluginError, ProviderError, ProviderErrorKind
from pluggent_hookspecs.events import ModelRequestEvent
from pluggent_hookspecs.models import Provider
from pluggent_transcript.entries import RunRefused
from pluggent_transcript.pending import Paused, Pending, Run, Waiting
from pluggent_transcript.standing import DOUBT

from pluggent_host.operations.background import BackgroundRun, cancel_run, log
from pluggent_host.operations.model_call import IN_DOUBT, ModelCallOperation, content_digest
from pluggent_host.operations.operation import Asks
from pluggent_host.operations.pipeline import Operations
from pluggent_host.turns.consent import Hold, pending_request
from pluggent_host.turns.record import Services, TurnRecord


class Place(Protocol):
    """Returns what a turn goes on from: it waits since *at_s* for *pending*, in *round*."""

    def __call__(
        self, round: int, pending: tuple[Pending, ...], at_s: float, *, before: str, warning: str, run: Run
    ) -> Paused: ...


@attrs.define(eq=False, repr=False)
class RunRecord:
    """Writes what becomes of the run of ``operation``. ``warning`` is the host's text in the request."""

    operation: ModelCallOperation
    warning: str
    key: str
    _record: TurnRecord
    _operations: Operations
    _place: Place
    _at_s: float = attrs.field(factory=time, init=False)

    @classmethod
    def begin(
        cls, operation: ModelCallOperation, provider: Provider, warning: str, known: Run | None, record: TurnRecord,
        operations: Operations, place: Place,
    ) -> RunRecord:  # fmt: skip
        """Let *operation* run in the background if it is asked to, or attach to the run that is *known*."""
        ticket = None if known is None else known.ticket
        own = f"{operation.scope.session_id}/{operation.id}"
        # What is submitted again, because a person has said so, is paid for again.
        key = own if known is None else known.key if ticket is not None else f"{known.key}+"
        made = cls(operation, warning, key, record, operations, place)
        operation.run = BackgroundRun(key, provider, made.keep, made.refused, ticket)
        return made

    async def keep(self, event: ModelRequestEvent, ticket: Ticket | None) -> None:
        """Make durable where the turn goes on from. Raises ProviderError for what cannot be kept, SessionError."""
        run = Run(self.key, content_digest(event), ticket)
        pending = self._pending(event, run)
        if pending is None:
            problem = "the request cannot be kept exactly, so it cannot run in the background"
            raise ProviderError(ProviderErrorKind.BAD_REQUEST, problem)
        before = self.operation.freeze(self.operation.event).digest
        self._record.append(
            self._place(event.round, (pending,), self._at_s, before=before, warning=self.warning, run=run)
        )
        if (written := self._record.flush()) is not None:
            await written
        await self._record.commit()

    def refused(self) -> None:
        """The vendor has refused the request: nothing runs."""
        self._record.append(RunRefused(self.operation.scope.turn_id))

    def held(self, event: ModelRequestEvent, failure: ProviderError) -> Hold | None:
        """Return what the turn waits with, if its run may go on in spite of *failure*; None if it does not."""
        background = self.operation.run
        if background is None or not background.goes_on(failure):
            return None
        run = Run(self.key, content_digest(event), background.ticket)
        pending = self._pending(event, run)
        if pending is None:
            return None
        what = "whether it was submitted is not known" if run.ticket is None else f"run {run.ticket.id} may go on"
        before = self.operation.freeze(self.operation.event).digest
        return Hold(pending, before, self.warning, run, f"{what}: {failure}")

    def _pending(self, event: ModelRequestEvent, run: Run) -> Pending | None:
        asks: Asks = () if run.ticket is not None else ((DOUBT, Ask(IN_DOUBT)),)
        return pending_request(self.operation, event, asks, self._operations.identities(asks))


async def cancel_waiting(services: Services, waiting: Waiting | None) -> None:
    """End the run that *waiting* waits for, whose reply will not be fetched; what goes wrong is logged."""
    run = None if waiting is None else waiting.paused.run
    if run is None or run.ticket is None:
        return
    ticket = run.ticket
    try:
        provider = (await services.model(f"{ticket.provider}/{ticket.model}")).provider
    except (ConfigError, PluginError) as error:
        log.warning("run %s at %s was not cancelled and may be billed: %s", ticket.id, ticket.target, error)
        return
    if provider.target != ticket.target:
        known = provider.target
        log.warning("run %s was not cancelled and may be billed: it is at %s, not %s", ticket.id, ticket.target, known)
    elif isinstance(provider, RunsLater):
        await cancel_run(provider, ticket)
