"""What the last exchange of a conversation was: the one that can be taken back. Pure."""

from __future__ import annotations

from collections.abc import Iterable

import attrs
from pluggent_hookspecs.errors import ToolErrorKind
from pluggent_hookspecs.messages import Message, Role

from pluggent_host.approvals.pending import Waiting
from pluggent_host.transcript.entries import Decided, Dispatched, Entry, Said, Settled, Undone

_NOT_RUN = frozenset({str(ToolErrorKind.NOT_RUN), str(ToolErrorKind.SKIPPED), str(ToolErrorKind.DENIED)})


@attrs.frozen
class Exchange:
    """A message and everything that followed it.

    ``effects`` are the capability ids of calls that did, or may have done, something to the
    world, in order; taking the exchange back does not undo them.
    """

    turn_id: str
    message: Message
    effects: tuple[str, ...] = ()


def unsaid(waiting: Waiting) -> Exchange | None:
    """Return what *waiting* would say if a person agreed; None if it waits for something else."""
    return Exchange(waiting.paused.turn_id, waiting.said) if waiting.paused.stage == "input" else None


def last_exchange(entries: Iterable[Entry]) -> Exchange | None:
    """Return the last exchange that was not taken back; None if there is none."""
    exchanges: list[Exchange] = []
    capabilities: dict[str, str] = {}
    effects: dict[str, list[tuple[str, str]]] = {}
    running: dict[str, tuple[str, str]] = {}
    for entry in entries:
        match entry:
            case Said(turn_id, message, by) if message.role is Role.USER and not by:
                exchanges.append(Exchange(turn_id, message))
            case Decided(decision) if decision.capability:
                capabilities[decision.call_id] = decision.capability
            case Dispatched(turn_id, calls):
                begun = {id: (id, capabilities.get(id, id)) for id, _, _ in calls}
                effects.setdefault(turn_id, []).extend(begun.values())
                running |= begun
            case Settled(turn_id, call_id, outcome=outcome):
                # Ids come again in later rounds: only the call that is running now is meant.
                call = running.pop(call_id, None)
                if call is not None and outcome in _NOT_RUN:
                    effects[turn_id].reverse()
                    effects[turn_id].remove(call)
                    effects[turn_id].reverse()
            case Undone(turn_id):
                turns = [exchange.turn_id for exchange in exchanges]
                del exchanges[turns.index(turn_id) if turn_id in turns else len(turns) :]
            case _:
                pass
    if not exchanges:
        return None
    last = exchanges[-1]
    return attrs.evolve(last, effects=tuple(capability for _, capability in effects.get(last.turn_id, [])))
