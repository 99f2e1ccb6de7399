"""Puts an ask to those who may approve it, one after the other, and records what they said."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Any

from pluggent_hookspecs.decisions import Approval, Deny
from pluggent_hookspecs.events import ApprovalEvent
from pluggent_hookspecs.observations import DecisionMade, HookFailed, Observation

from pluggent_host.approvals.standing import capped, limits, may_approve, narrowest
from pluggent_host.common.escape import escape_all
from pluggent_host.common.names import APP, HOST
from pluggent_host.hooks.caller import Caller
from pluggent_host.hooks.chains import Chains, Impl
from pluggent_host.hooks.votes import Verdict
from pluggent_host.operations.operation import Recorded, record_of
from pluggent_host.operations.outcomes import Answer
from pluggent_host.settings import HostSettings

HOOK = "resolve_approval"


class Approvers:
    """The approvers of one host: the application's own, and the plugins that the operator lists."""

    def __init__(
        self,
        chains: Chains,
        caller: Caller,
        settings: HostSettings,
        tell: Callable[[Observation], None],
        write: Callable[[Recorded, DecisionMade], Deny | None],
    ) -> None:
        self._chain = tuple(
            impl for impl in chains[HOOK] if impl.plugin.startswith(APP) or impl.plugin in settings.grants.approvers
        )
        self._caller = caller
        self._program_s = settings.timeouts.approver_s
        self._tell = tell
        self._write = write

    async def answer(self, what: Recorded, event: Any, verdict: Verdict) -> Answer | None:
        """Return the first answer, recorded. None: nobody was there, or may, or would answer."""
        if what.scope.dry_run or not self._chain:
            return None
        most = narrowest(what.scope, verdict.asks)
        question = ApprovalEvent(
            what.scope, what.name, what.digest(event), what.rendered(event),
            tuple((plugin, escape_all(ask.tell_user)) for plugin, ask in verdict.asks), what.capability(), most,
            limits(verdict.asks),
        )  # fmt: skip
        started = perf_counter()
        for impl in self._chain:
            said = await self._asked(impl, question, started)
            if said is not None:
                by, approval = said
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
        self._tell(HookFailed(question.scope, impl.plugin, HOOK, problem))
        return None

    def _recorded(
        self, what: Recorded, event: Any, verdict: Verdict, by: str, approval: Approval, started: float
    ) -> Answer:
        outcome = "approved" if approval.agreed else "refused"
        reason = "; ".join(filter(None, (verdict.reason, approval.reason)))
        unrecorded = self._write(what, record_of(what, event, outcome, by, reason, (), (), started))
        if unrecorded is not None:
            return Answer(HOST, approval, unrecorded)
        if approval.agreed:
            return Answer(by, approval)
        why = f": {approval.reason}" if approval.reason else ""
        return Answer(by, approval, Deny(f"a person refused this{why}", tell_user=f"refused by {by}{why}"))
