"""A model call that outlives its process: on record before it is submitted, attached to by its ticket, cancelled."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing

import attrs
from pluggent_hookspecs.background import RunsLater, Ticket
from pluggent_hookspecs.errors import PluggentError, ProviderError, ProviderErrorKind, SubmissionInDoubt
from pluggent_hookspecs.events import ModelRequestEvent
from pluggent_hookspecs.models import Delta, Provider

from pluggent_host.common.running import comes_from_outside, said

log = logging.getLogger("pluggent.background")

CANCEL_S = 5.0
"""How long a cancelled turn waits for the vendor: for the name of a run, and until it has ended it."""

Keep = Callable[[ModelRequestEvent, Ticket | None], Awaitable[None]]
"""Makes durable that a request is about to be submitted (None), or the ticket that it got."""


@attrs.define(eq=False, repr=False)
class BackgroundRun:
    """The run of one model call, which has a ticket once it is submitted. ``key`` names it in ledgers.

    ``keep`` makes each step durable, ``refused`` that the vendor has refused the request, so that there is no run.
    """

    key: str
    provider: Provider
    keep: Keep
    refused: Callable[[], None]
    ticket: Ticket | None = None
    in_doubt: SubmissionInDoubt | None = None
    """Why it is not known whether there is a run."""
    _over: bool = False

    @property
    def begun(self) -> bool:
        """Whether there is, or may be, a run."""
        return self.ticket is not None or self.in_doubt is not None

    @property
    def is_live(self) -> bool:
        """Whether there is a run that has not come to its end."""
        return self.ticket is not None and not self._over

    def goes_on(self, failure: ProviderError) -> bool:
        """Whether the run may go on in spite of *failure*, so that its reply is to be fetched later."""
        return self.in_doubt is not None or (self.ticket is not None and not self._over and failure.retryable)

    async def deltas(self, event: ModelRequestEvent) -> AsyncGenerator[Sequence[Delta]]:
        """Submit *event*, unless that has happened before, and yield the reply. Raises ProviderError."""
        provider = self.provider
        if not isinstance(provider, RunsLater):
            problem = "runs no request in the background; leave out parameters.background"
            raise ProviderError(ProviderErrorKind.BAD_REQUEST, problem, provider=provider.name)
        if self.in_doubt is not None:
            raise self.in_doubt
        ticket = self.ticket or await self._submitted(provider, event)
        if ticket.target != provider.target:
            problem = f"run {ticket.id} is at {ticket.target}, and this provider asks {provider.target}"
            raise ProviderError(ProviderErrorKind.UNAVAILABLE, problem, provider=provider.name)
        try:
            async with aclosing(provider.attach(ticket, event.request)) as stream:
                async for batch in stream:
                    yield batch
        except ProviderError as error:
            self._over = not error.retryable
            raise
        self._over = True

    async def cancel(self) -> None:
        """End the run at the vendor, if there is one that is not over; what goes wrong is logged."""
        ticket, provider = self.ticket, self.provider
        if ticket is not None and not self._over and isinstance(provider, RunsLater):
            self._over = True
            await cancel_run(provider, ticket)

    async def _submitted(self, provider: RunsLater, event: ModelRequestEvent) -> Ticket:
        name = self.provider.name
        await self.keep(event, None)
        task = asyncio.ensure_future(provider.submit(event.request))
        try:
            given: object = await asyncio.shield(task)
        except asyncio.CancelledError:
            # What was sent cannot be taken back; its name is needed to end it.
            await asyncio.wait((task,), timeout=CANCEL_S)
            if not task.done() or task.cancelled() or task.exception() is not None:
                task.cancel()
                self._doubt(ProviderError(ProviderErrorKind.TIMEOUT, "the submission was cancelled", provider=name))
            else:
                await self._take(task.result(), event, name)
            raise
        except SubmissionInDoubt as error:
            self.in_doubt = error
            raise
        except ProviderError:
            self.refused()
            raise
        except BaseException as error:
            if comes_from_outside(error):
                raise
            failed = ProviderError(ProviderErrorKind.PROTOCOL, f"the plugin failed: {said(error)}", provider=name)
            raise self._doubt(failed) from error
        return await self._take(given, event, name)

    async def _take(self, given: object, event: ModelRequestEvent, name: str) -> Ticket:
        if not isinstance(given, Ticket):
            problem = f"the plugin failed: submit() returned {type(given).__name__}, not a Ticket"
            raise self._doubt(ProviderError(ProviderErrorKind.PROTOCOL, problem, provider=name))
        self.ticket = given
        await self.keep(event, given)
        return given

    def _doubt(self, error: ProviderError) -> SubmissionInDoubt:
        self.in_doubt = SubmissionInDoubt(error.kind, error.message, provider=error.provider)
        return self.in_doubt


async def cancel_run(provider: RunsLater, ticket: Ticket) -> None:
    """End the run of *ticket*; what goes wrong is logged, as a run that goes on is paid for."""
    try:
        async with asyncio.timeout(CANCEL_S):
            await provider.cancel(ticket)
    except (PluggentError, TimeoutError) as error:
        why = f"no answer within {CANCEL_S:g} s" if isinstance(error, TimeoutError) else str(error)
        log.warning("run %s at %s was not cancelled and may be billed: %s", ticket.id, ticket.target, why)
    except BaseException as error:
        if comes_from_outside(error):
            raise
        log.warning("run %s at %s was not cancelled and may be billed: %s", ticket.id, ticket.target, said(error))
