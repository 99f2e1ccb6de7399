"""Batches of one host: many requests to one model that its vendor answers together, later, and cheaper."""

from __future__ import annotations

import secrets
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from typing import TypeAlias

import attrs
from pluggent_contract_values.sanitize import clean_history
from pluggent_hookspecs.background import BatchResult, BatchState
from pluggent_hookspecs.events import Scope
from pluggent_hookspecs.messages import Message
from pluggent_hookspecs.models import ModelParameters, ModelRequest

from pluggent_host.hooks.event_bus import UnrecordedJournal
from pluggent_host.operations.batch import Batch, BatchDesk, Keep
from pluggent_host.plugins.lookup import Capabilities
from pluggent_host.turns.options import check
from pluggent_host.turns.record import Services

BatchRequest: TypeAlias = "str | Sequence[Message] | ModelRequest"
"""One request of a batch: what a user says, a conversation, or a ModelRequest, whose model is that of the batch."""


async def _keep_nothing(batch: Batch) -> None:
    """Leave it to the caller, who knows that a process may end."""


@attrs.frozen(eq=False, repr=False)
class HostBatches:
    """Submits batches and reads their results, under the policies of the host. ``Host.batches`` is one.

    Each request is decided about by itself; what is refused is not in the batch, and its result says so. Results pass
    the hooks on replies and on outputs. A Batch is all that another process needs: JSON in both directions.
    """

    _services: Services
    _capabilities: Capabilities
    _alive: Callable[[], None]

    async def submit(
        self,
        model: str,
        requests: Mapping[str, BatchRequest],
        *,
        parameters: ModelParameters | None = None,
        system: str = "",
        principal: str = "",
        keep: Keep = _keep_nothing,
        key: str = "",
    ) -> Batch:
        """Send *requests*, by ids of your own (1 to 64 of ``A-Z a-z 0-9 _ -``), to *model* as one batch.

        *parameters* and *system* are for requests that are not a ModelRequest. *keep* is awaited with the batch before
        anything is sent, and with its ticket when it was: what it has written outlives this process, and ``find``
        tells whether a batch without a ticket was sent. *key* is that of a batch that surely was not, to send it
        after all.

        Raises NoBatches, ProviderError; SubmissionInDoubt if the vendor may have taken the batch; ConfigError for an
        unknown model; ValueError for ids that cannot be sent.
        """
        desk = await self._desk(model, principal)
        asked = {id: _request(given, parameters, system) for id, given in requests.items()}
        return await desk.submit(key or secrets.token_hex(8), model, asked, keep)

    async def find(self, batch: Batch) -> Batch:
        """Return *batch* with its ticket if its vendor has it, as it is if the vendor surely has not.

        Raises SubmissionInDoubt where the vendor cannot say, ProviderError.
        """
        return await (await self._desk_of(batch)).find(batch)

    async def state(self, batch: Batch) -> BatchState:
        """Return how far *batch* is, as its vendor says. Raises ProviderError."""
        return await (await self._desk_of(batch)).state(batch)

    async def cancel(self, batch: Batch) -> None:
        """End *batch*; what is done of it stays, and is paid for. Raises ProviderError."""
        await (await self._desk_of(batch)).cancel(batch)

    async def results(self, batch: Batch, known: Iterable[str] = ()) -> AsyncGenerator[BatchResult]:
        """Yield what became of each request but *known* ones, in any order, as soon as the vendor shows it.

        Of a batch that has not ended it is what is there by now. May be read again: nothing is charged twice. Raises
        ProviderError, HookError.
        """
        desk = await self._desk_of(batch)
        async with aclosing(desk.results(batch, frozenset(known))) as results:
            async for result in results:
                yield result

    async def _desk_of(self, batch: Batch) -> BatchDesk:
        check("batch", batch, Batch)
        return await self._desk(batch.model, batch.principal)

    async def _desk(self, model: str, principal: str) -> BatchDesk:
        self._alive()
        services = self._services
        scope = Scope(origin="api", principal=principal or services.settings.principal)
        found = await self._capabilities.model(model)
        journal = UnrecordedJournal(services.emit)
        return BatchDesk(services.operations, journal, scope, found, services.settings.timeouts.model_s)


def _request(given: BatchRequest, parameters: ModelParameters | None, system: str) -> ModelRequest:
    if isinstance(given, ModelRequest):
        return attrs.evolve(given, messages=clean_history(given.messages))
    said = (Message.user(given),) if isinstance(given, str) else tuple(given)
    for message in said:
        check("requests", message, Message)
    above = (Message.system(system),) if system else ()
    return ModelRequest("", clean_history((*above, *said)), (), parameters or ModelParameters())
