"""Says who may give an approval and which later calls it covers, and hands lasting ones to the session store."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Awaitable, Iterable, Iterator, Mapping, Sequence
from time import time
from types import MappingProxyType
from typing import Any

import attrs
from pluggent_hookspecs import Value
from pluggent_hookspecs.decisions import REACHES, Approval, Ask, Reach
from pluggent_hookspecs.events import Scope, ToolCallEvent
from pluggent_hookspecs.sessions import ApprovalRecord, ApprovalRecords

from pluggent_transcript.patterns import fits, may_approve, part_fits

DOUBT = "host:doubt"
"""The voter where only a person may decide: a call that may have happened, a prompt of an unknown author."""

KIND = "approval"
NO_PARTS: Mapping[str, tuple[str, ...]] = MappingProxyType({})
_ID_LENGTH = 12


@attrs.frozen(repr=False)
class Standing(Value):
    """An approval of later calls: the same asks about the same tool in the same folder, with arguments as in ``where``.

    It holds for the same ``principal`` alone, and never for a claimed one. ``definition`` is the digest of the
    tool's definition, ``identities`` stand for version and settings of each asking plugin: a change asks anew.
    Of arguments that have parts (see ToolCallEvent) it covers the ``parts`` of the approved call, or those that fit
    their pattern in ``where``; several approvals may cover a call together.
    """

    capability: str
    definition: str
    asks: tuple[tuple[str, str], ...]
    identities: tuple[str, ...]
    where: Mapping[str, str]
    workspace: str
    principal: str
    turn_id: str
    by: str
    at_s: float
    reach: Reach = "session"
    parts: Mapping[str, tuple[str, ...]] = NO_PARTS

    @property
    def id(self) -> str:
        """A short name, the same for the same approval."""
        asked = sorted(zip(self.asks, self.identities, strict=True))
        what = [self.capability, self.definition, asked, dict(self.where), self.workspace, self.principal]
        what += [dict(self.parts)] if self.parts else []  # so that the others keep the names that they had
        return hashlib.sha256(json.dumps(what, sort_keys=True).encode()).hexdigest()[:_ID_LENGTH]

    @property
    def how(self) -> str:
        """Its reach, in words."""
        where = " in this folder" if self.workspace else ""
        return "for this session" if self.reach == "session" else f"for every session{where}"

    def covers(self, event: ToolCallEvent, asks: Iterable[tuple[str, Ask]], identities: Sequence[str]) -> bool:
        """Say whether it answers all of *asks* about *event*; one that must be asked anew is not answered.

        Of arguments with parts it may cover some alone: see ``covering``.
        """
        asked = tuple(asks)
        return (
            (self.capability, self.definition, self.workspace, self.principal)
            == (event.capability, event.definition, event.scope.workspace, event.scope.principal)
            and not event.scope.claimed
            and all(_reaches(self.reach, ask) and plugin != DOUBT for plugin, ask in asked)
            and asked_by(asked, identities) <= frozenset(pairs(self.asks, self.identities))
            and may_approve(limits(asked), self.by)
            and self.parts.keys() <= event.parts.keys()  # it was limited to parts: a call without them is another one
            and fits(_whole(self.where, event.parts), event.arguments, event.scope.workspace)
        )

    def has_part(self, name: str, part: str) -> bool:
        """Say whether it covers *part* of the argument *name*."""
        return part in self.parts.get(name, ()) or (name in self.where and part_fits(self.where[name], part))


def _whole(where: Mapping[str, str], parts: Mapping[str, tuple[str, ...]]) -> Mapping[str, str]:
    """Return the patterns of *where* for arguments that are looked at as a whole."""
    return {name: pattern for name, pattern in where.items() if name not in parts} if parts else where


def parts_without(where: Mapping[str, str], parts: Mapping[str, tuple[str, ...]]) -> Mapping[str, tuple[str, ...]]:
    """Return the *parts* of a call that an approval of it covers as they are: those without a pattern in *where*."""
    return {name: each for name, each in parts.items() if name not in where} if parts else NO_PARTS


def covering(
    held: Iterable[Standing], event: ToolCallEvent, asks: Sequence[tuple[str, Ask]], identities: Sequence[str]
) -> Standing | None:
    """Return the first of *held* that answers all of *asks* about *event*; with parts, together with the others."""
    if not event.parts:
        return next((each for each in held if each.covers(event, asks, identities)), None)
    found = [each for each in held if each.covers(event, asks, identities)]
    covered = all(
        parts and all(any(each.has_part(name, part) for each in found) for part in parts)
        for name, parts in event.parts.items()
    )
    return found[0] if found and covered else None


def _reaches(given: Reach, ask: Ask) -> bool:
    return ask.reach != "once" and REACHES.index(given) <= REACHES.index(ask.reach)


def asked_by(asks: Iterable[tuple[str, Ask]], identities: Sequence[str]) -> frozenset[tuple[str, str, str]]:
    """Return each of *asks* as plugin, words, identity."""
    return frozenset(pairs(((plugin, ask.tell_user) for plugin, ask in asks), identities))


def pairs(asks: Iterable[tuple[str, str]], identities: Iterable[str]) -> Iterator[tuple[str, str, str]]:
    """Yield plugin, words, identity for each of *asks*, (plugin, its words)."""
    return ((*ask, identity) for ask, identity in zip(asks, identities, strict=True))


def standing_of(
    by: str, approval: Approval, event: ToolCallEvent, asks: Iterable[tuple[str, Ask]], identities: tuple[str, ...]
) -> Standing | None:
    """Return the approval of later calls in *approval*, just given to *asks* about *event*; None if it has none."""
    asked = tuple(asks)
    given = capped(approval, narrowest(event.scope, asked))
    if not given.agreed or given.reach == "once":
        return None
    words = tuple((plugin, ask.tell_user) for plugin, ask in asked)
    return Standing(
        event.capability, event.definition, words, identities, given.where, event.scope.workspace,
        event.scope.principal, event.scope.turn_id, by, time(), given.reach, parts_without(given.where, event.parts),
    )  # fmt: skip


def narrowest(scope: Scope, asks: Iterable[tuple[str, Ask]], most: Reach = "always") -> Reach:
    """Return the widest reach that an approval of all *asks* in *scope* can have, at *most* this one."""
    reaches = {ask.reach if plugin != DOUBT else "once" for plugin, ask in asks}
    if reaches:
        reaches.add(most)
    if scope.claimed or "once" in reaches or not reaches:
        return "once"
    return "session" if "session" in reaches else "always"


def capped(approval: Approval, most: Reach) -> Approval:
    """Return *approval* with a reach of *most* at most."""
    reach = min(approval.reach, most, key=REACHES.index)
    return approval if reach == approval.reach else attrs.evolve(approval, reach=reach)


def limits(asks: Iterable[tuple[str, Ask]]) -> tuple[tuple[str, ...], ...]:
    """Return the approvers of each of *asks* that limits them."""
    return tuple(ask.approvers for _, ask in asks if ask.approvers)


class Approvals:
    """The approvals that hold in every session of a store; those that are not genuine are left out.

    Read afresh by every call, or by ``refresh`` from a store that answers later; *at_once*: the store is known to
    answer at once. Raises ConfigError if the records cannot be relied on.
    """

    def __init__(self, records: ApprovalRecords, *, at_once: bool = False) -> None:
        self._records = records
        self._known: tuple[Standing, ...] | None = None
        self._at_once = at_once
        self._keeping: list[Awaitable[None]] = []

    def keep(self, standing: Standing) -> None:
        """Store *standing*."""
        about = attrs.asdict(standing, filter=lambda field, _: field.name not in ("turn_id", "reach", "parts"))
        parts = {"parts": {name: list(each) for name, each in standing.parts.items()}} if standing.parts else {}
        answer = self._records.put(KIND, standing.id, {**about, "where": dict(standing.where), **parts})
        if answer is not None:
            self._keeping.append(answer)
            self._known = (*(self._known or ()), standing)

    def all(self) -> tuple[Standing, ...]:
        """Return those that hold, oldest first."""
        if self._known is not None:
            return self._known
        found = self._records.all()
        if isinstance(found, Awaitable):
            raise RuntimeError("approvals of a store that answers later are read by refresh()")
        self._at_once = True
        return read_standing(found)

    def refresh(self) -> Awaitable[None] | None:
        """Return an awaitable that reads the records into ``all``; None for a store that answers at once."""
        return None if self._at_once else self._refresh()

    async def _refresh(self) -> None:
        await self._flush()
        found = self._records.all()
        if isinstance(found, Awaitable):
            self._known = read_standing(await found)
        else:
            self._at_once = True

    def flush(self) -> Awaitable[None] | None:
        """Return an awaitable that makes every kept one durable; None if they are."""
        return self._flush() if self._keeping else None

    async def _flush(self) -> None:
        while self._keeping:
            await self._keeping.pop(0)


def read_standing(records: Iterable[ApprovalRecord]) -> tuple[Standing, ...]:
    """Return the approvals among *records* that hold, oldest first."""
    genuine = (record.about for record in records if record.genuine and record.kind == KIND)
    return tuple(sorted((_standing(about) for about in genuine), key=lambda each: each.at_s))


def _standing(about: Mapping[str, Any]) -> Standing:
    asks = tuple((str(plugin), str(words)) for plugin, words in about["asks"])
    return Standing(
        str(about["capability"]), str(about["definition"]), asks, tuple(map(str, about["identities"])),
        dict(about["where"]), str(about["workspace"]), str(about["principal"]), "",
        str(about["by"]), float(about["at_s"]), "always",
        {str(name): tuple(map(str, parts)) for name, parts in about.get("parts", NO_PARTS).items()},
    )  # fmt: skip
