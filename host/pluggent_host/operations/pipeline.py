"""The one sequence that every operation goes through, and nothing else executes anything.

    request -> transform -> freeze + digest -> decide (all) -> [ask] -> around -> execute
            -> transform result -> decide result -> emit to observers

It has two halves. Only ``decide`` makes a Ready, and nothing is executed without one.
After the freeze nothing changes the request. Whatever goes wrong in a policy is a denial.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from time import perf_counter
from typing import Any, Final, TypeVar

import attrs
from pluggent_contract_values.escape import escape_all
from pluggent_hookspecs import errors
from pluggent_hookspecs.decisions import Approval, Ask, Decision, Deny
from pluggent_hookspecs.events import ApprovalEvent
from pluggent_hookspecs.observations import Change, DecisionMade, HookFailed, Observation, Vote
from pluggent_plugin_loader.names import APP
from pluggent_transcript.patterns import may_approve
from pluggent_transcript.standing import capped, limits, narrowest

from pluggent_host.common.names import HOST
from pluggent_host.hooks.caller import NOTHING, Caller
from pluggent_host.hooks.event_bus import Sinks
from pluggent_host.hooks.ledgers import Ledgers, RefusedError
from pluggent_host.hooks.order import Chain, Chains, Impl
from pluggent_host.hooks.votes import Verdict, ballot, combine
from pluggent_host.operations.around import Around, Attempting, Attempts, Layer
from pluggent_host.operations.input_output import RefusalOperation
from pluggent_host.operations.operation import (
    MADE_BY_DECIDE,
    Answer,
    Answered,
    Asked,
    Attempt,
    Decided,
    Denied,
    Granted,
    Operation,
    Ready,
    Recorded,
    Release,
    Settled,
    unanswered,
    with_digest,
)
from pluggent_host.settings import HostSettings

log = logging.getLogger("pluggent.operations")

STALE_S: Final = 5.0
"""A decision older than this is made again before another attempt."""

UNRECORDED: Final = "the decision could not be recorded, so this was not done"

APPROVAL_HOOK: Final = "resolve_approval"

E = TypeVar("E")
R = TypeVar("R")


class Operations:
    """The sequence, with the chains and grants of one host."""

    def __init__(
        self, chains: Chains, caller: Caller, settings: HostSettings, emit: Callable[[Observation], None], sinks: Sinks
    ) -> None:
        self._identities = chains.identities
        self._chain = chains.by_hook.get
        self._caller = caller
        self._emit = emit
        self._grants = settings.grants
        self._hook_s = settings.timeouts.hook_s
        self._sinks = sinks
        listed = settings.grants.approvers
        approvers = tuple(
            impl for impl in chains[APPROVAL_HOOK] if impl.plugin.startswith(APP) or impl.plugin in listed
        )
        self._approvers = Approvers(approvers, caller, settings.timeouts.approver_s, emit, self._record, self._heard)
        self._ledgers = Ledgers(chains, caller, self._hook_s, emit) if chains["reserve"] else None

    # ---- the first half ------------------------------------------------------------------

    async def decide(self, operation: Operation[E, R]) -> Decided[E, R]:
        """Transform, freeze, and let every policy vote. Raises HookError if a transform fails."""
        started = perf_counter()
        event, changes = operation.event, tuple[Change, ...]()
        if chain := self._chain(operation.hooks.transform):
            event, changes = await self._transform(operation, chain, started + self._hook_s)
        event = operation.freeze(event)
        return await self._vote(operation, event, changes, perf_counter())

    async def decide_frozen(self, operation: Operation[E, R], event: E) -> Decided[E, R]:
        """Let every policy vote on a request that was frozen before, in another process maybe."""
        return await self._vote(operation, event, (), perf_counter())

    def approved(self, asked: Asked[E, R], by: str, reason: str) -> Settled[E, R]:
        """Record a stored approval and return the decision that it grants."""
        operation, event = asked.operation, asked.event
        if (unrecorded := self._record(operation, event, "approved", by, reason, perf_counter())) is not None:
            return Denied(operation, event, HOST, unrecorded)
        if asked.verdict.respond is not None:
            return Answered(operation, event, by, asked.verdict.respond.value)
        return Ready(MADE_BY_DECIDE, operation, event, asked.asks)

    def identities(self, asks: Iterable[tuple[str, Ask]]) -> tuple[str, ...]:
        """Return what stands for the version and the settings of each plugin that asks."""
        return tuple(self._identities.get(plugin, "") for plugin, _ in asks)

    async def refused(self, operation: Operation[E, R], event: E, by: str, reason: str) -> Denied[E, R]:
        """Record a stored refusal and return the denial that it means."""
        reason = await self._heard(operation, reason)
        self._record(operation, event, "refused", by, reason, perf_counter())
        why = f"{': ' if reason else ''}{reason}"
        return Denied(operation, event, by, Deny(f"a person refused this{why}", tell_user=f"refused by {by}{why}"))

    async def _heard(self, refused: Recorded, words: str) -> str:
        """Return what the policies on input leave of the *words* of a refusal; "" if one of them lets none pass."""
        hooks = RefusalOperation.hooks
        if not words or refused.name == RefusalOperation.name:  # after the refusal of an input no model reads them
            return words
        if not (self._chain(hooks.transform) or self._chain(hooks.decide)):
            return words
        try:
            decided = await self.decide(RefusalOperation(refused, words))
        except errors.HookError:  # it has been emitted
            return ""
        return str(decided.event.message.text) if isinstance(decided, Ready) else ""

    async def confirm(self, before: Granted[E, R]) -> Decided[E, R]:
        """Let every policy vote again on the same frozen request; what was approved stays so."""
        decided = await self._vote(before.operation, before.event, (), perf_counter())
        approved = before.approved if isinstance(before, Ready) else ()
        if isinstance(decided, Asked) and set(decided.asks) <= set(approved):
            given = before.approval if isinstance(before, Ready) else None
            return Ready(MADE_BY_DECIDE, before.operation, before.event, approved, given)
        return decided

    async def _transform(
        self, operation: Operation[E, R], chain: Chain, deadline: float
    ) -> tuple[E, tuple[Change, ...]]:
        event = operation.event
        changes: list[Change] = []
        hook = operation.hooks.transform
        for impl in chain:
            answer = await self._caller.call(impl, event, deadline)
            if answer.problem:
                raise self._failed(operation, impl.plugin, hook, answer.problem)
            if answer.value is not None:
                try:
                    after = operation.changed(event, answer.value, impl.plugin)
                except ValueError as error:
                    raise self._failed(operation, impl.plugin, hook, str(error)) from error
                changes.append(attrs.evolve(operation.diff(event, after), plugin=impl.plugin))
                event = after
        if any(impl.band == "security" for impl in chain):
            # What a redactor removed must not stand in the record of those before it either.
            changes = [attrs.evolve(change, before=None, after=None) for change in changes]
        return event, tuple(changes)

    async def _vote(
        self, operation: Operation[E, R], event: E, changes: tuple[Change, ...], started: float
    ) -> Decided[E, R]:
        hook = operation.hooks.decide
        ballots = await self._ballots(operation, hook, event, started + self._hook_s, responding=True)
        if operation.recorded_elsewhere and not ballots and not changes:
            return Ready(MADE_BY_DECIDE, operation, event)
        vote, doubt = (operation.host_vote(event), operation.doubt(event)) if operation.votes else (None, None)
        verdict = _usable(operation, combine(ballots, vote, self._grants, doubt))
        unrecorded = self._record(
            operation, event, verdict.outcome, verdict.by, verdict.reason, started, verdict.votes, changes
        )
        if unrecorded is not None:
            return Denied(operation, event, HOST, unrecorded)
        match verdict.outcome:
            case "allow":
                return Ready(MADE_BY_DECIDE, operation, event)
            case "deny":
                assert verdict.deny is not None
                return Denied(operation, event, verdict.by, verdict.deny)
            case "ask":
                return Asked(operation, event, verdict.asks, verdict)
            case "respond":
                assert verdict.respond is not None
                return Answered(operation, event, verdict.by, verdict.respond.value)

    async def _ballots(
        self, operation: Operation[Any, Any], hook: str, event: object, deadline: float, *, responding: bool
    ) -> list[tuple[Decision | None, Vote]]:
        caller = self._caller
        ballots: list[tuple[Decision | None, Vote]] = []
        for impl in self._chain(hook, ()):
            answer = caller.call_now(impl, event, deadline)
            if answer is NOTHING:
                ballots.append(impl.abstains)
                continue
            if answer.waits:
                answer = await caller.awaited(impl, answer, deadline)
            may_respond = responding and self._may_answer(operation, impl.plugin)
            ballots.append(ballot(hook, impl.plugin, answer, may_respond=may_respond))
            if answer.problem:
                self._emit(HookFailed(operation.scope, impl.plugin, hook, answer.problem))
        return ballots

    def _record(
        self, what: Recorded, event: Any, outcome: str, by: str, reason: str, started: float,
        votes: tuple[Vote, ...] = (), changes: tuple[Change, ...] = (),
    ) -> Deny | None:  # fmt: skip
        """Make a decision about *event* durable; return why it may not be acted on if that fails."""
        record = DecisionMade(
            what.scope,
            what.name,
            what.id,
            event.digest,
            outcome,
            by,
            reason,
            what.capability,
            getattr(event, "call_id", ""),
            getattr(event, "arguments_json", b""),
            votes,
            changes,
            round((perf_counter() - started) * 1e6, 1),
        )
        try:
            what.journal.record(record)
        except Exception as error:  # noqa: BLE001 (whatever the sink raises: unrecorded means not done)
            log.error("decision %s was not recorded: %s", record.operation_id, error)  # noqa: TRY400 (it is told)
            return Deny(UNRECORDED, tell_user=str(error))
        if self._sinks.chain and (problem := self._sinks.write(record)):
            denied = attrs.evolve(record, verdict="deny", by=HOST, reason=f"{UNRECORDED}: {problem}")
            with contextlib.suppress(Exception):  # the transcript told otherwise before; it is denied in any case
                what.journal.record(denied)
            what.journal.emit(denied)
            return Deny(UNRECORDED, tell_user=f"{UNRECORDED}: {problem}")
        what.journal.emit(record)
        return None

    # ---- a person in between -------------------------------------------------------------

    async def settle(self, decided: Decided[E, R]) -> Settled[E, R]:
        """Return *decided*, or what the approvers say if a person has to agree. Outside of turns: see Consent."""
        return decided if not isinstance(decided, Asked) else await self.ask(decided) or unanswered(decided)

    def settle_unasked(self, decided: Decided[E, R]) -> Settled[E, R]:
        """Return *decided*, denied if a person would have to agree: no person is asked about this."""
        return unanswered(decided) if isinstance(decided, Asked) else decided

    async def ask(self, asked: Asked[E, R]) -> Settled[E, R] | None:
        """Put *asked* to the approvers in order; None if none of them answers."""
        operation, event = asked.operation, asked.event
        started = perf_counter()
        answer = await self._approvers.answer(operation, event, asked.verdict)
        if answer is None:
            return None
        if answer.deny is not None:
            return Denied(operation, event, answer.by, answer.deny)
        if asked.verdict.respond is not None:
            return Answered(operation, event, answer.by, asked.verdict.respond.value)
        ready = Ready(MADE_BY_DECIDE, operation, event, asked.asks, answer)
        return ready if perf_counter() - started <= STALE_S else await self.confirm_approved(ready)

    async def confirm_approved(self, before: Granted[E, R]) -> Settled[E, R]:
        """Let every policy vote again on what a person has approved; what they ask beyond it denies it."""
        decided = await self.confirm(before)
        if isinstance(decided, Asked):
            deny = Deny("a policy asks about something else now; the approval does not cover it")
            return Denied(before.operation, before.event, decided.verdict.by, deny)
        return decided

    # ---- the second half -----------------------------------------------------------------

    async def perform(self, ready: Granted[E, R]) -> R:
        """Execute what was decided, and pass the result through the result hooks."""
        if isinstance(ready, Ready) and ready.made_by is not MADE_BY_DECIDE:
            raise TypeError("a Ready comes from Operations.decide, nowhere else")
        if (task := asyncio.current_task()) is not None and task.cancelling():
            # A hook swallowed the cancellation: that is not consent.
            raise asyncio.CancelledError
        operation, event = ready.operation, ready.event
        if (written := operation.journal.flush()) is not None:
            await written
        if isinstance(ready, Answered):
            result = operation.response(ready.value)
        else:
            if ready.used:
                raise RuntimeError("a Ready was used twice")
            ready.used = True
            layers = self._layers(operation)
            if layers or self._ledgers is not None:
                result = await self._around(ready, layers, Attempts())
            else:  # no layer and no ledger: there is this one attempt
                result = await operation.execute(event, Attempt(1))
        hooks = operation.hooks
        if self._chain(hooks.transform_result) or self._chain(hooks.decide_result):
            return await self.finish(operation, event, result)
        return result

    async def reserve(self, ready: Ready[E, R]) -> errors.Denied | None:
        """Hold what *ready* may cost, for a result that comes later; return why that is refused. Uses up *ready*."""
        operation, event = ready.operation, ready.event
        ready.used = True
        cost = None if self._ledgers is None else operation.cost(event, 1)
        if self._ledgers is None or cost is None:
            return None
        try:
            await self._ledgers.hold(cost)
        except RefusedError as refused:
            return self._unpaid(operation, event, refused)
        return None

    async def finish(self, operation: Operation[E, R], event: E, result: R) -> R:
        """Run the result hooks on *result*; return what may be used of it."""
        hooks = operation.hooks
        transforms = self._chain(hooks.transform_result, ())
        deciders = self._chain(hooks.decide_result, ())
        if not transforms and not deciders:
            return result
        seen = operation.result_event(event, result)
        deadline = perf_counter() + self._hook_s
        for impl in transforms:
            answer = await self._caller.call(impl, seen, deadline)
            problem = answer.problem
            if not problem and answer.value is not None:
                try:
                    seen = operation.changed_result(seen, answer.value, impl.plugin)
                except ValueError as error:
                    problem = str(error)
            if problem:
                failure = self._failed(operation, impl.plugin, hooks.transform_result, problem)
                return operation.broken(event, failure)
        if not deciders:
            return operation.result(seen)
        return await self._release(operation, event, seen, perf_counter())

    async def _release(self, operation: Operation[E, R], event: E, seen: Any, started: float) -> R:
        hook = operation.hooks.decide_result
        seen = with_digest(seen, hashlib.sha256(repr(seen).encode("utf-8", "surrogatepass")).hexdigest())
        ballots = await self._ballots(operation, hook, seen, started + self._hook_s, responding=False)
        verdict = combine(ballots, None, self._grants)
        release = Release(operation, event)
        unrecorded = self._record(release, seen, verdict.outcome, verdict.by, verdict.reason, started, verdict.votes)
        deny = unrecorded or verdict.deny
        if deny is None and verdict.outcome == "ask":
            answer = await self._approvers.answer(release, seen, verdict)
            unreleased = Deny("a person would have to release this, and no approver answered", tell_user=verdict.reason)
            deny = unreleased if answer is None else answer.deny
        return operation.withheld(event, deny) if deny is not None else operation.result(seen)

    def _layers(self, operation: Operation[E, R]) -> tuple[Layer, ...]:
        chain = self._chain(operation.hooks.around, ())
        if not chain:
            return ()
        return tuple(
            Layer(
                impl.plugin,
                impl.function,
                retries=impl.plugin in self._grants.retriers or impl.plugin.startswith(APP),
                answers=self._may_answer(operation, impl.plugin),
            )
            for impl in chain
        )

    async def _reissue(
        self, operation: Operation[E, R], changed: Any, model: str, below: Sequence[Layer], attempts: Attempts
    ) -> R:
        """Decide about *changed* and do it in place of *operation*, inside the layers *below*."""
        try:
            child = await operation.reissued(changed, model, attempts.reissue())
        except ValueError as error:
            raise errors.SessionError(f"reissue: {error}") from error
        # A kind that asks no person leaves an ask as it is, which is denied here.
        settled = self.settle_unasked(await operation.settle(await self.decide(child)))
        match settled:
            case Denied(by=by, deny=deny):
                raise errors.Denied(by, deny.tell_user, _digest(settled.event))
            case Answered(value=value):
                return child.response(value)
            case Ready():
                settled.used = True
        if (written := child.journal.flush()) is not None:
            await written
        started, failure = perf_counter(), ""
        try:
            return await self._around(settled, below, attempts)
        except BaseException as error:
            failure = str(error) or type(error).__name__
            raise
        finally:
            operation.absorb(child, perf_counter() - started, failure)

    async def _around(self, ready: Ready[E, R], layers: Sequence[Layer], attempts: Attempts) -> R:
        operation, event = ready.operation, ready.event
        execute = Attempting(
            operation, event, attempts, self._ledgers,
            lambda: self._decide_again(ready), lambda refused: self._unpaid(operation, event, refused),
        )  # fmt: skip

        def answered(plugin: str) -> None:
            reason = "answered without call_next()"
            unrecorded = self._record(operation, event, "respond", plugin, reason, perf_counter())
            if unrecorded is not None:
                raise errors.Denied(HOST, unrecorded.tell_user, _digest(event))

        if not layers:
            return await execute()

        async def reissue(changed: Any, model: str, below: Sequence[Layer]) -> R:
            return await self._reissue(operation, changed, model, below, attempts)

        onion = Around(
            operation, event, self._caller, execute, answered, self._failed, operation.limit_s, reissue, attempts
        )
        return await onion.run(layers)

    def _unpaid(self, operation: Operation[E, R], event: E, refused: RefusedError) -> errors.Denied:
        deny = refused.deny
        self._record(operation, event, "deny", refused.by, deny.tell_user, perf_counter())
        return errors.Denied(refused.by, deny.tell_user, _digest(event), tell_model=deny.tell_model)

    def _may_answer(self, operation: Operation[Any, Any], plugin: str) -> bool:
        return plugin in self._grants.may_respond or plugin.startswith(APP) or operation.may_respond(plugin)

    async def _decide_again(self, ready: Ready[E, R]) -> None:
        if perf_counter() - ready.decided_at <= STALE_S:
            return
        if not isinstance(await self.confirm(ready), Ready):
            raise errors.Denied(HOST, "a policy no longer allows this request", _digest(ready.event))
        ready.decided_at = perf_counter()

    def _failed(self, operation: Operation[Any, Any], plugin: str, hook: str, problem: str) -> errors.HookError:
        self._emit(HookFailed(operation.scope, plugin, hook, problem))
        return errors.HookError(plugin, hook, problem)


def _usable(operation: Operation[Any, Any], verdict: Verdict) -> Verdict:
    """Return *verdict*, or a denial if a policy responds with something that is not an answer to *operation*."""
    if verdict.respond is None:
        return verdict
    try:
        operation.response(verdict.respond.value)
    except ValueError as error:
        deny = Deny("a policy failed, so this was not done", tell_user=f"policy '{verdict.by}' {error}")
        return attrs.evolve(verdict, outcome="deny", reason=deny.tell_user, deny=deny, asks=(), respond=None)
    return verdict


def _digest(event: Any) -> str:
    return str(event.digest)


# ---- approvers --------------------------------------------------------------------------


RecordDecision = Callable[[Recorded, Any, str, str, str, float], Deny | None]
"""Makes a decision about an event durable; returns why it may not be acted on if that fails."""


@attrs.frozen(eq=False, repr=False)
class Approvers:
    """The approvers of one host: the application's own, and the plugins that the operator lists."""

    _chain: Chain
    _caller: Caller
    _program_s: float
    _emit: Callable[[Observation], None]
    _record: RecordDecision
    _heard: Callable[[Recorded, str], Awaitable[str]]

    async def answer(self, what: Recorded, event: Any, verdict: Verdict) -> Answer | None:
        """Return the first answer, recorded; None if no approver may answer, or none does."""
        if what.scope.dry_run or not self._chain:
            return None
        most = narrowest(what.scope, verdict.asks, what.reach)
        question = ApprovalEvent(
            what.scope, what.name, event.digest, what.rendered(event),
            tuple((plugin, escape_all(ask.tell_user)) for plugin, ask in verdict.asks), what.capability, most,
            limits(verdict.asks),
        )  # fmt: skip
        started = perf_counter()
        for impl in self._chain:
            said = await self._asked(impl, question, started)
            if said is not None:
                by, approval = said
                if not approval.agreed:
                    approval = attrs.evolve(approval, reason=await self._heard(what, approval.reason))
                return self._recorded(what, event, verdict, by, capped(approval, most), started)
        return None

    async def _asked(self, impl: Impl, question: ApprovalEvent, started: float) -> tuple[str, Approval] | None:
        in_code = impl.plugin.startswith(APP)
        if not in_code and not may_approve(question.approvers, impl.plugin):
            return None
        # A person has no deadline; a program that the operator listed has one.
        limit = float("inf") if in_code else started + self._program_s
        answer = await self._caller.call(impl, question, limit)
        value = Approval(answer.value) if isinstance(answer.value, bool) else answer.value
        problem = answer.problem
        if not problem and value is None:
            return None
        if not problem and not isinstance(value, Approval):
            problem = f"answered {type(value).__name__}, not True, False, an Approval or None"
        if isinstance(value, Approval) and not problem:
            by = (in_code and value.by) or impl.plugin
            if not value.agreed or may_approve(question.approvers, by):
                return by, value
            problem = f"approved as {by}, which the ask is not limited to"
        self._emit(HookFailed(question.scope, impl.plugin, APPROVAL_HOOK, problem))
        return None

    def _recorded(
        self, what: Recorded, event: Any, verdict: Verdict, by: str, approval: Approval, started: float
    ) -> Answer:
        outcome = "approved" if approval.agreed else "refused"
        reason = "; ".join(filter(None, (verdict.reason, approval.reason)))
        unrecorded = self._record(what, event, outcome, by, reason, started)
        if unrecorded is not None:
            return Answer(HOST, approval, unrecorded)
        if approval.agreed:
            return Answer(by, approval)
        why = f": {approval.reason}" if approval.reason else ""
        return Answer(by, approval, Deny(f"a person refused this{why}", tell_user=f"refused by {by}{why}"))
