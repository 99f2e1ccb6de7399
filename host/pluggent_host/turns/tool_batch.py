"""Runs all tool calls of one reply: decided in order, run side by side, each with one result.

Every outcome is a value for the model. Calls with effects run one after the other among
themselves, an exclusive one alone; asks are put to a person when the rest is done.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Any

import attrs
from pluggent_contract_values.sanitize import clean, clean_message
from pluggent_contract_values.tool_output import fit
from pluggent_function_tools.arguments import ArgumentProblems
from pluggent_hookspecs import Value, errors
from pluggent_hookspecs.decisions import Deny
from pluggent_hookspecs.errors import ToolErrorKind
from pluggent_hookspecs.events import ToolCallEvent
from pluggent_hookspecs.messages import Message, Part, Text, ToolCall
from pluggent_hookspecs.observations import ToolStarted
from pluggent_hookspecs.tools import ToolOutput
from pluggent_transcript.entries import Dispatched, PutBack, Settled
from pluggent_transcript.pending import Outcome, Pending
from pluggent_transcript.rebuild import close_call
from pluggent_transcript.standing import limits, narrowest

from pluggent_host.operations.operation import (
    Answered,
    Decided,
    Denied,
    Granted,
    Ready,
    Unanswered,
)
from pluggent_host.operations.tool_call import CallRunner, ToolCallOperation
from pluggent_host.tools.hosted import hosted_call
from pluggent_host.tools.toolset import BoundTool, Toolset
from pluggent_host.tools.unknown_tool import missing, unknown_tool
from pluggent_host.turns.consent import Waits
from pluggent_host.turns.next_step import ToolsSettled
from pluggent_host.turns.parts import TurnParts

EARLIER = "An earlier run of this call was interrupted: whether it took effect is unknown."
EARLIER_IN_PART = "An earlier run of this call was interrupted: it may have run in part."


@attrs.define
class Slot:
    """One call on its way to its one result."""

    call: ToolCall
    operation: ToolCallOperation
    decided: Decided[ToolCallEvent, ToolOutput] | None = None
    dispatched: bool = False
    begun: bool = False
    effects_seen: int = 0
    """How many calls of the batch had taken effect when this one was decided."""
    asked: bool = False
    unanswered: str = ""
    pending: Pending | None = None
    note: str = ""
    denied: bool = False
    ends_turn: bool = False
    stops: bool = False
    """Whether what stands behind it begins only once it has succeeded."""
    output: ToolOutput | None = None
    message: Message | None = None
    outcome: Outcome | None = None
    """How it ended, where that is known from before a pause."""
    interrupted: str | None = None
    """What a process that ended before had begun of it; see ``Doubts.interrupted``."""

    @property
    def interrupting(self) -> str | None:
        """What has begun of it if it ends now, as ``close_call`` takes it."""
        if self.dispatched and self.decided is not None:
            return self.operation.fingerprint(self.decided.event)
        return self.interrupted or ("" if self.begun else self.interrupted)

    @property
    def earlier(self) -> str:
        """What its result has to say of an earlier run; empty if there was none, or if it has run now."""
        if self.interrupted is None or self.operation.ran:
            return ""
        return EARLIER if self.interrupted else EARLIER_IN_PART

    @property
    def open(self) -> bool:
        """Whether it has no result yet, and does not wait for one either."""
        return self.message is None and self.pending is None

    @property
    def stopped(self) -> bool:
        """Whether it has failed, so that what stands behind it is not run."""
        return self.stops and self.message is not None and self.message.is_error

    @property
    def in_place(self) -> bool:
        """Whether nothing behind it may begin before it has its result."""
        return self.stops or self.operation.tool.spec.exclusive


def segments(slots: Sequence[Slot]) -> list[list[Slot]]:
    """Cut a batch behind the calls that stop it, and around the exclusive ones, each a segment of its own."""
    segments: list[list[Slot]] = [[]]
    for slot in slots:
        if slot.operation.tool.spec.exclusive:
            segments += [[slot], []]
        else:
            segments[-1].append(slot)
            if slot.stops:
                segments.append([])
    return [segment for segment in segments if segment]


def stops(tool: BoundTool, named: Sequence[str]) -> bool:
    """Whether *tool* stops the calls behind it: by its own word, or because the operator has *named* it."""
    if tool.spec.stops_batch or not named:
        return tool.spec.stops_batch
    return any(fnmatchcase(tool.capability, name) or fnmatchcase(tool.spec.name, name) for name in named)


def with_shown(output: ToolOutput, shown: Message | None) -> ToolOutput:
    """Return *output* with nothing for the person but what was *shown*."""
    parts = () if shown is None else shown.content
    text = "".join(part.text for part in parts if isinstance(part, Text))
    return attrs.evolve(
        output, for_user=text or None, media=tuple(part for part in parts if not isinstance(part, Text))
    )


def notable(slot: Slot, *, served: bool) -> Outcome | None:
    """Return how *slot* has ended, if its message does not say all of it. See ``outcome_of``."""
    output = slot.output or ToolOutput()
    if not (slot.denied or slot.ends_turn or output.handled or output.pause_for_input):
        return None
    outcome = outcome_of(slot, served=served)
    told = outcome.denied or outcome.ends_turn or outcome.handled or outcome.waits
    return outcome if told else None


def outcome_of(slot: Slot, *, served: bool) -> Outcome:
    """Return how *slot* ended; ``served``: its tool may serve the person directly."""
    if slot.outcome is not None:
        return slot.outcome
    output = slot.output or ToolOutput()
    seen = hashlib.sha256(repr(output.for_model).encode("utf-8", "surrogatepass")).hexdigest()
    return Outcome(slot.call.id, seen, slot.denied, slot.ends_turn, output.handled and served, output.pause_for_input)


def put_backs(call: ToolCallOperation) -> tuple[PutBack, ...]:
    """Return the calls that put back what *call* has changed, each by the capability of its tool."""
    return tuple(PutBack(f"{call.tool.plugin}:tool/{each.tool}", each.arguments) for each in call.undo)


WOULD_ASK = "Dry run: '{}' would need a person's approval ({}) and was not run. Go on as if it had been."

NOT_APPROVED = "This call was not run: one before it was not approved."

SKIPPED = (
    "This call was not run: '{0}', a call before it in the same reply, {1}, and what stands behind it runs"
    " only if it succeeds. Look at that result first."
)


@attrs.frozen(repr=False)
class BatchRun(Value):
    """The outcome of a batch; messages and outputs in the order of the calls. ``pending`` calls have neither yet."""

    messages: tuple[Message, ...]
    outputs: tuple[ToolOutput, ...]
    settled: ToolsSettled
    pending: tuple[Pending, ...] = ()


async def run_batch(
    turn: TurnParts, runner: CallRunner, offered: Toolset, calls: Sequence[ToolCall], round: int
) -> BatchRun:
    """Run *calls*; every one has exactly one result afterwards.

    A cancellation reaches every running call, gives the open ones their result, and is raised again.
    """
    batch = Batch(turn, runner, offered, round)
    try:
        run = await batch.run(calls)
    except BaseException:
        batch.close()
        raise
    if not run.pending:
        turn.record.add(*run.messages)
    return run


@attrs.define(eq=False, repr=False)
class Batch:
    """The calls of one reply on their way; see run_batch."""

    _turn: TurnParts
    _runner: CallRunner
    _offered: Toolset
    _round: int
    _slots: list[Slot] = attrs.field(factory=list[Slot], init=False)
    _unread: list[ToolCall] = attrs.field(factory=list[ToolCall], init=False)

    async def run(self, calls: Sequence[ToolCall]) -> BatchRun:
        """Decide all *calls* in order, then run what may run."""
        self._unread = list(calls)
        for index, call in enumerate(calls):
            self._slots.append(await self._decided(call, index))
            self._unread.pop(0)
        return await self._go_on()

    async def _go_on(self) -> BatchRun:
        stopper: Slot | None = None
        for segment in segments(self._slots):
            last = segment[-1]
            if stopper is not None:
                await self._skip(segment, stopper)
            elif any(slot.unanswered or slot.pending for slot in self._slots):  # nothing overtakes one in its place
                await self._leave(segment)
            else:
                await self._dispatch([slot for slot in segment if isinstance(slot.decided, Ready)])
                await self._run_segment(segment)
                if last.open and last.in_place:
                    await self._ask(last)
            stopper = stopper or (last if last.stopped else None)
        for slot in self._slots:
            if slot.open:
                await self._ask(slot)
        messages = tuple(slot.message for slot in self._slots if slot.message is not None)
        outputs = tuple(slot.output for slot in self._slots if slot.output is not None)
        pending = tuple(slot.pending for slot in self._slots if slot.pending is not None)
        settled = ToolsSettled(
            tuple(
                outcome_of(slot, served=slot.operation.capability in self._turn.serving)
                for slot in self._slots
                if slot.message is not None
            ),
            tuple(slot.unanswered for slot in self._slots if slot.unanswered),
            sum(slot.asked for slot in self._slots),
            pending=tuple(each.call_id for each in pending),
        )
        return BatchRun(messages, outputs, settled, pending)

    def close(self) -> None:
        """Give every call that has none its result, after a cancellation or a failure."""
        turn_id = self._turn.scope.turn_id
        messages: list[Message] = []
        closing: list[Settled] = []
        for slot in self._slots:
            if slot.message is None:
                closing.append(close_call(turn_id, slot.call, slot.interrupting))
            messages.append(slot.message or closing[-1].message)
        closing += [close_call(turn_id, call) for call in self._unread]
        messages += [entry.message for entry in closing[len(closing) - len(self._unread) :]]
        # In memory first: a disk that is full must not leave the conversation torn.
        self._turn.record.add(*messages)
        self._turn.record.append(*closing)

    # ---- decide --------------------------------------------------------------------------

    async def _decided(self, call: ToolCall, index: int) -> Slot:
        tool = self._tool(call)
        problem, kind, arguments = "", None, b"{}"
        if tool is None:
            tool = unknown_tool(call.name)
            problem = f"Error: {missing(call.name, self._offered)}"
            kind = ToolErrorKind.UNKNOWN
        else:
            try:
                arguments = tool.prepare(call.arguments)
            except ArgumentProblems as error:
                problem = f"Error: invalid arguments for '{call.name}': {'; '.join(error.problems)}"
                kind = ToolErrorKind.ARGUMENTS
        turn, note = self._turn, ""
        if not problem:
            taken = turn.meter.quota.take(tool)
            problem, note, kind = taken.refusal, taken.note, ToolErrorKind.LIMIT
        slot = self._slot(call, tool, index, arguments, note=note)
        operation = slot.operation
        if problem:
            operation.kind = kind
            output = await turn.operations.finish(operation, operation.event, ToolOutput.error(problem))
            await self._settle(slot, output)
            return slot
        try:
            slot.decided = await turn.operations.decide(operation)
        except errors.HookError as error:
            await self._fail(slot, f"Denied: a policy failed, so this was not done ({error.plugin}).")
            return slot
        await self._note(slot, slot.decided)
        return slot

    def _tool(self, call: ToolCall) -> BoundTool | None:
        if not call.hosted:
            return self._offered.get(call.name)
        return hosted_call(call, self._turn.agent.model, self._turn.services.settings.effects)

    def _slot(self, call: ToolCall, tool: BoundTool, index: int, arguments: bytes, **more: Any) -> Slot:
        turn = self._turn
        operation = ToolCallOperation(
            self._runner, turn.record, turn.scope, tool, call.id, arguments, self._round, index,
            turn.meter.left_s(turn.meter.quota.timeout_s(tool)),
        )  # fmt: skip
        stopping = stops(operation.tool, turn.services.settings.stops_batch)
        interrupted = turn.conversation.doubtful.interrupted(call.id)
        operation.unsure = bool(interrupted)  # until it has run to its end now
        return Slot(call, operation, effects_seen=turn.meter.effects, stops=stopping, interrupted=interrupted, **more)

    async def _note(self, slot: Slot, decided: Decided[ToolCallEvent, ToolOutput]) -> None:
        slot.decided = decided
        slot.asked = bool(decided.asks)
        if isinstance(decided, Denied):
            await self._deny(slot, decided.deny)
        elif (refused := self._turn.consent.refusal(slot.operation, decided.event)) is not None:
            await self._deny(slot, refused.deny)

    # ---- run -----------------------------------------------------------------------------

    async def _dispatch(self, slots: Sequence[Slot]) -> None:
        risky = [slot for slot in slots if not slot.operation.tool.repeatable]
        if not risky or self._turn.scope.dry_run:
            return
        entries = tuple(
            (slot.call.id, self.key(slot), slot.operation.fingerprint(slot.decided.event))
            for slot in risky
            if slot.decided is not None
        )
        self._turn.record.append(Dispatched(self._turn.scope.turn_id, entries))
        for slot in risky:
            slot.dispatched = True
        await self._turn.record.commit()

    def key(self, slot: Slot) -> str:
        """The idempotency key: the same for every attempt at this call."""
        return f"{self._turn.scope.session_id}.{slot.operation.id}"

    async def _leave(self, slots: Sequence[Slot]) -> None:
        for slot in slots:
            if slot.message is None and self._turn.consent.may_wait:
                self._wait(slot)
            else:
                await self._pass_over(slot, ToolErrorKind.NOT_RUN, NOT_APPROVED)

    async def _skip(self, slots: Sequence[Slot], stopper: Slot) -> None:
        text = SKIPPED.format(stopper.call.name, "was denied" if stopper.denied else "failed")
        for slot in slots:
            await self._pass_over(slot, ToolErrorKind.SKIPPED, text)

    async def _pass_over(self, slot: Slot, kind: ToolErrorKind, text: str) -> None:
        if slot.message is not None:
            return
        slot.dispatched, slot.asked, slot.note = False, False, ""
        self._turn.meter.quota.give_back(slot.operation.tool)
        slot.operation.kind = kind
        await self._settle(slot, ToolOutput.error(text))

    async def _run_segment(self, slots: Sequence[Slot]) -> None:
        async def in_order(slots: Sequence[Slot]) -> None:
            for slot in slots:
                await self._perform(slot)

        free = [slot for slot in slots if not slot.operation.tool.serial]
        serial = [slot for slot in slots if slot.operation.tool.serial]
        if len(free) + bool(serial) <= 1:
            await in_order(slots)
            return
        try:
            async with asyncio.TaskGroup() as group:
                for slot in free:
                    group.create_task(self._perform(slot))
                if serial:
                    group.create_task(in_order(serial))
        except BaseExceptionGroup as failures:
            # Calls fail as values; what comes out is one failure of the host, such as a full disk.
            raise failures.exceptions[0] from failures

    async def _perform(self, slot: Slot) -> None:
        if isinstance(slot.decided, Ready | Answered) and self._outdated(slot):
            await self._note(slot, await self._turn.operations.confirm(slot.decided))
            slot.dispatched = slot.dispatched and isinstance(slot.decided, Ready)
        if slot.message is None and isinstance(slot.decided, Ready | Answered):
            await self._execute(slot, slot.decided)

    def _outdated(self, slot: Slot) -> bool:
        """Say whether a sibling has taken effect since *slot* was decided about; it is from now on seen."""
        seen, slot.effects_seen = slot.effects_seen, self._turn.meter.effects
        return seen != slot.effects_seen

    async def _execute(self, slot: Slot, decided: Granted[ToolCallEvent, ToolOutput]) -> None:
        turn, event = self._turn, decided.event
        slot.begun = True
        turn.record.emit(ToolStarted(turn.scope, slot.call.id, slot.call.name, event.capability, event.arguments_json))
        try:
            output = await turn.operations.perform(decided)
        except errors.Denied as error:
            await self._deny(slot, Deny(error.tell_model, tell_user=error.reason))
            return
        except errors.PluggentError as error:
            slot.operation.kind = slot.operation.kind or ToolErrorKind.FAILED
            failed = ToolOutput.error(clean(f"Error: this call failed in a plugin around it: {error}"))
            output = await turn.operations.finish(slot.operation, event, failed)
        turn.meter.effects += slot.operation.ran and slot.operation.tool.changes
        await self._settle(slot, output)

    async def _ask(self, slot: Slot) -> None:
        if slot.decided is None or not slot.decided.asks:
            return
        settled = await self._turn.consent.settle(slot.decided)
        if isinstance(settled, Ready | Answered) and self._outdated(slot):
            settled = await self._turn.operations.confirm_approved(settled)
        match settled:
            case Ready() | Answered():
                slot.decided = settled
                await self._dispatch([slot] if isinstance(settled, Ready) else [])
                await self._execute(slot, settled)
            case Waits():
                self._wait(slot)
            case Unanswered(why=why) if self._turn.scope.dry_run:
                await self._settle(slot, ToolOutput(WOULD_ASK.format(slot.call.name, why)))
            case Unanswered(why=why, deny=deny):
                slot.unanswered = f"'{slot.call.name}' needs approval: {why}"
                await self._deny(slot, deny)
            case Denied(deny=deny):
                await self._deny(slot, deny)

    def _wait(self, slot: Slot) -> None:
        """Leave the call as it is: a person is asked about it later."""
        decided = slot.decided
        event = slot.operation.event if decided is None else decided.event
        # One that only waits for another has no ask of its own; it is decided about again then.
        asked = () if decided is None else decided.asks
        asks = tuple((plugin, ask.tell_user) for plugin, ask in asked)
        slot.dispatched = False
        slot.pending = Pending(
            slot.call.id, slot.call.name, event.capability, event.definition, event.arguments_json, event.digest,
            asks, slot.operation.rendered(event), event.scope.workspace, event.scope.principal,
            narrowest(event.scope, asked, slot.operation.reach), limits(asked),
            self._turn.operations.identities(asked), parts=event.parts, state=slot.operation.state,
        )  # fmt: skip

    # ---- settle --------------------------------------------------------------------------

    async def _deny(self, slot: Slot, deny: Deny) -> None:
        slot.ends_turn = slot.ends_turn or deny.ends_turn
        await self._fail(slot, f"Denied: {deny.tell_model}")

    async def _fail(self, slot: Slot, text: str) -> None:
        slot.denied = True
        slot.operation.kind = ToolErrorKind.DENIED
        if not slot.operation.ran:
            self._turn.meter.quota.give_back(slot.operation.tool)
            slot.note = ""
        await self._settle(slot, ToolOutput.error(clean(text)))

    async def _settle(self, slot: Slot, output: ToolOutput) -> None:
        turn, operation = self._turn, slot.operation
        slot.ends_turn = slot.ends_turn or operation.ends_turn
        output, whole = fit(output, turn.meter.quota.result_bytes(operation.tool))
        content: tuple[Part, ...] = (
            (Text(output.for_model),) if isinstance(output.for_model, str) else tuple(output.for_model)
        )
        for note in filter(None, (slot.note, slot.earlier)):
            content = (*content, Text(f"\n\n{note}"))
        message = clean_message(Message.tool(slot.call, content, is_error=output.is_error))
        outcome = operation.outcome
        slot.output = output
        told = notable(slot, served=operation.capability in turn.serving)
        settled = Settled(turn.scope.turn_id, slot.call.id, message, outcome, whole, told, put_backs(operation))
        turn.record.append(settled)
        slot.message = message  # not before it is durable
        seen: ToolOutput | None = None
        try:
            seen = await turn.gate.seen(output, operation)
        finally:
            turn.record.emit(operation.finished(slot.call.name, output, seen))
        shown = (*((Text(output.for_user),) if output.for_user else ()), *output.media)
        if shown and not (output.silent and operation.capability in turn.serving):
            out = await turn.gate.show(Message.assistant(shown), operation.capability)
            slot.output = with_shown(output, out)
