"""What a person is shown of a turn: streams, as they come or held back; nothing that output policies withhold."""

from __future__ import annotations

from time import perf_counter
from typing import Any, cast

import attrs
import msgspec
from pluggent_hookspecs import Json, errors, thaw
from pluggent_hookspecs.decisions import Deny, Window
from pluggent_hookspecs.events import DeltaEvent, Scope
from pluggent_hookspecs.messages import Message, Part, Reasoning, Refusal, Text
from pluggent_hookspecs.observations import Discarded, HookFailed, ReasoningShown, TextShown, UserNotified
from pluggent_hookspecs.tools import ToolOutput
from pluggent_plugin_loader.validation import HOLDING

from pluggent_host.hooks.caller import Caller
from pluggent_host.hooks.order import Chains, Impl
from pluggent_host.operations.input_output import OutputOperation
from pluggent_host.operations.operation import Denied, Journal, Ready
from pluggent_host.operations.pipeline import Operations
from pluggent_host.operations.tool_call import ToolCallOperation
from pluggent_host.turns.consent import Consent
from pluggent_host.turns.record import Services
from pluggent_host.turns.result import Feed

SHOWING_S = 0.5
"""How long transform_delta may take for one batch."""


class Deltas:
    """Shows a stream as it comes; holds back what transform_delta keeps, or all while a result hook wants it whole."""

    def __init__(self, journal: Journal, scope: Scope, feed: Feed, services: Services, provisional: bool) -> None:  # noqa: FBT001 (one caller)
        chains = services.chains
        self._journal = journal
        self._scope = scope
        self._feed = feed
        holding = [impl for hook in HOLDING for impl in chains[hook]]
        self._whole = feed.by_reply or (not provisional and any(impl.incremental is None for impl in holding))
        windows: dict[str, int] = {}
        for impl in holding:
            windows[impl.plugin] = max(windows.get(impl.plugin, 0), impl.incremental or 0)
        self._filters = [(impl, windows.get(impl.plugin, 0)) for impl in chains["transform_delta"]]
        self._caller = services.caller
        self._held = self._whole
        self._shown: list[str] = []
        self._thought: list[str] = []
        self._stages: dict[str, list[_Stage]] = {}

    def show(self, text: str, reasoning: str) -> bool:
        shown = self._show("reasoning", reasoning, final=False) if reasoning else False
        return (self._show("text", text, final=False) if text else False) or shown

    def end(self) -> None:
        """The stream is complete: show what was kept of it."""
        for kind in self._stages:
            self._show(kind, "", final=True)

    @property
    def full(self) -> bool:
        return self._feed.full

    async def room(self) -> None:
        await self._feed.space()

    def discard(self, why: str) -> None:
        if self._shown or self._thought:
            self._journal.emit(Discarded(self._scope, why))
        self._forget()

    def settle(self, final: str, thought: str) -> None:
        """The reply has passed all hooks, is *final* after *thought*: make what was shown agree with it."""
        if "".join(self._shown) != final or (self._thought and "".join(self._thought) != thought):
            self.discard("changed by a policy")
            if thought:
                self._journal.emit(ReasoningShown(self._scope, thought))
            if final:
                self._journal.emit(TextShown(self._scope, final))
        self._forget()

    def _show(self, kind: str, text: str, *, final: bool) -> bool:
        if self._held:
            return False
        if kind not in self._stages:
            self._stages[kind] = [_Stage(self._scope, kind, impl, window) for impl, window in self._filters]
        for stage in self._stages[kind]:
            problem = stage.take(text, self._caller, final=final)
            if problem:
                # Nothing more is shown before the whole reply has passed the result hooks.
                self._held = True
                self._journal.emit(HookFailed(self._scope, stage.plugin, "transform_delta", problem))
                return False
            text = stage.shown
        if not text:
            return False
        if kind == "text":
            self._shown.append(text)
            self._journal.emit(TextShown(self._scope, text))
        else:
            self._thought.append(text)
            self._journal.emit(ReasoningShown(self._scope, text))
        return True

    def _forget(self) -> None:
        self._held = self._whole
        self._shown.clear()
        self._stages.clear()
        self._thought.clear()


class _Stage:
    """One transform_delta on one stream: what it kept, and what it lets be shown."""

    def __init__(self, scope: Scope, kind: str, impl: Impl, most: int) -> None:
        self.plugin = impl.plugin
        self.shown = ""
        self._scope = scope
        self._kind = kind
        self._impl = impl
        self._most = most
        self._kept: str = ""
        self._state: Json = None

    def take(self, text: str, caller: Caller, *, final: bool) -> str:
        """Hand on *text*; ``shown`` is then what may be seen. Return what went wrong, empty if nothing did."""
        text = self._kept + text
        event = DeltaEvent(self._scope, text, self._kind, final, self._state)
        answer = caller.call_now(self._impl, event, perf_counter() + SHOWING_S)
        if answer.problem:
            return answer.problem
        window: Any = Window(text) if answer.value is None else answer.value
        if not (isinstance(window, Window) and type(window.show) is str and type(window.keep) is int):
            return f"returned {type(answer.value).__name__}, not a Window or None"
        problem = self._problem(window, len(text), final=final)
        if not problem:
            self.shown, self._state = window.show, window.state
            self._kept = text[len(text) - window.keep :]
        return problem

    def _problem(self, window: Window, length: int, *, final: bool) -> str:
        if not 0 <= window.keep <= length:
            return f"keeps {window.keep} characters of {length}"
        if final and window.keep:
            return f"keeps {window.keep} characters at the end of the stream"
        if window.keep > self._most:
            return f"keeps {window.keep} characters, more than incremental={self._most} allows"
        return ""


def thoughts(message: Message) -> str:
    """Return the reasoning in a reply, as far as its vendor let it out."""
    return "".join(part.text for part in message.content if isinstance(part, Reasoning))


def visible(message: Message) -> str:
    """Return what a person reads of a reply: its text and its refusals."""
    return "".join(part.text for part in message.content if isinstance(part, Text | Refusal))


# ---- the output policies -------------------------------------------------------------------


@attrs.define(eq=False, repr=False)
class OutputGate:
    """The way out of one turn. ``notes`` are what was shown in addition to the model's replies, denials included.

    In a ``direct`` call ``passed`` is what the output policies made of its result, or why they withhold it;
    None if they left it as it is.
    """

    journal: Journal
    scope: Scope
    operations: Operations
    chains: Chains
    deltas: Deltas | None
    consent: Consent
    direct: bool = False
    notes: list[str] = attrs.field(factory=list[str])
    passed: ToolOutput | Deny | None = None
    _shown: int = 0

    @property
    def last_note(self) -> str:
        """What was noted last, empty if nothing was."""
        return self.notes[-1] if self.notes else ""

    async def release(self, message: Message, source: str) -> Message | None:
        """Return *message* as it may be shown, None if it may not."""
        if not self._filters:
            return message
        try:
            decided = await self.operations.decide(self._operation(message, source, self.scope))
        except errors.HookError:
            self.take_back("a policy failed")
            raise
        decided = await self.consent.settle_now(decided)
        if isinstance(decided, Ready):
            return await self.operations.perform(decided)
        assert isinstance(decided, Denied)
        self.take_back("withheld by a policy")
        self.notes.append(decided.deny.tell_user)
        return None

    async def result(self, output: ToolOutput, source: str, scope: Scope, *, ask: bool = False) -> ToolOutput | Deny:
        """Return what may be seen of *output*, a tool's result, or why nothing may. Fails nothing.

        A person is asked only where *ask* says so: in a turn, to see that it ran is enough. ``for_user`` and
        ``media`` stay as they are: these are shown on their own.
        """
        if not self._filters:
            return output
        content = _stated(output)
        if not content:
            return output
        try:
            message = Message.assistant(content)
            decided = await self.operations.decide(self._operation(message, source, scope, of_a_tool=True))
            decided = await self.consent.settle_now(decided) if ask else self.operations.settle_unasked(decided)
            if isinstance(decided, Ready):
                return _with_content(output, content, (await self.operations.perform(decided)).content)
        except errors.HookError:
            return Deny("a policy on what is shown failed")
        assert isinstance(decided, Denied)
        return decided.deny

    async def seen(self, output: ToolOutput, call: ToolCallOperation) -> ToolOutput | None:
        """Return what may be seen of *output*, the result of *call*; None for nothing."""
        ask = self.direct and call.scope is self.scope  # not what runs below it
        seen = await self.result(output, call.capability, call.scope, ask=ask)
        if ask:
            self.passed = None if seen is output else seen
        return None if isinstance(seen, Deny) else seen

    async def show(self, message: Message, source: str) -> Message | None:
        """Show *message* to the person; return what the output policies let pass of it, None for nothing."""
        out = await self.release(message, source)
        if out is not None:
            self.notes.append(out.text)
            self.journal.emit(UserNotified(self.scope, out, source))
        return out

    @property
    def _filters(self) -> bool:
        return "transform_output" in self.chains.by_hook or "decide_output" in self.chains.by_hook

    def _operation(self, message: Message, source: str, scope: Scope, *, of_a_tool: bool = False) -> OutputOperation:
        self._shown += 1
        id = f"{scope.turn_id}.out{self._shown}"
        return OutputOperation(self.journal, scope, message, source, id, of_a_tool=of_a_tool)

    def take_back(self, why: str) -> None:
        """What was streamed of the reply so far is void."""
        if self.deltas is not None:
            self.deltas.discard(why)


# ---- results of tools ------------------------------------------------------------------


def _stated(output: ToolOutput) -> tuple[Part, ...]:
    """Return all that *output* says: what the model reads and, if that is not in its text already, ``data`` as JSON."""
    text = output.for_model
    content: tuple[Part, ...] = ((Text(text),) if text else ()) if isinstance(text, str) else text
    if output.data is None:
        return content
    data = Text(msgspec.json.encode(thaw(output.data)).decode())
    return content if content == (data,) else (*content, data)


def _with_content(output: ToolOutput, before: tuple[Part, ...], after: tuple[Part, ...]) -> ToolOutput:
    """Return *output* with what the policies made of it: of *before*, which is what it stated, *after*."""
    if after == before:
        return output
    data: Json = None
    text = output.for_model
    parts = len(text) if not isinstance(text, str) else 1 if text else 0
    if output.data is not None and len(after) == len(before):
        data = _read(after[-1])
        after = after[:parts]
    words = "".join(part.text for part in after if isinstance(part, Text))
    whole = isinstance(text, str) and all(isinstance(part, Text) for part in after)
    return attrs.evolve(output, for_model=words if whole else after, data=data)


def _read(part: Part) -> Json:
    try:
        return cast("Json", msgspec.json.decode(part.text)) if isinstance(part, Text) else None
    except msgspec.DecodeError:
        return None
