"""Shows the text of a stream as it comes, or holds it back until the result hooks have decided."""

from __future__ import annotations

from time import perf_counter

from pluggent_hookspecs import Json
from pluggent_hookspecs.decisions import Window
from pluggent_hookspecs.events import DeltaEvent, Scope
from pluggent_hookspecs.messages import Message, Reasoning, Refusal, Text
from pluggent_hookspecs.observations import Discarded, HookFailed, ReasoningShown, TextShown

from pluggent_host.calling import Caller
from pluggent_host.chains import HOLDING, Chains, Impl
from pluggent_host.feed import Feed
from pluggent_host.operation import Journal

SHOWING_S = 0.5
"""How long transform_delta may take for one batch."""


def follow(
    journal: Journal, scope: Scope, feed: Feed | None, chains: Chains, caller: Caller, stream: str
) -> Deltas | None:
    """Return what shows the streams of one turn to *feed*, None if nobody follows them."""
    return None if feed is None else Deltas(journal, scope, feed, chains, caller, provisional=stream == "provisional")


class Deltas:
    """Shows a stream as it comes; holds back what transform_delta keeps, or all while a result hook wants it whole."""

    def __init__(
        self, journal: Journal, scope: Scope, feed: Feed, chains: Chains, caller: Caller, *, provisional: bool
    ) -> None:
        self._journal = journal
        self._scope = scope
        self._feed = feed
        holding = [impl for hook in HOLDING for impl in chains[hook]]
        self._whole = not provisional and any(impl.incremental is None for impl in holding)
        windows: dict[str, int] = {}
        for impl in holding:
            windows[impl.plugin] = max(windows.get(impl.plugin, 0), impl.incremental or 0)
        self._filters = [(impl, windows.get(impl.plugin, 0)) for impl in chains["transform_delta"]]
        self._caller = caller
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
        await self._feed.room()

    def discard(self, why: str) -> None:
        if self._shown or self._thought:
            self._journal.tell(Discarded(self._scope, why))
        self._forget()

    def settle(self, final: str, thought: str) -> None:
        """The reply has passed all hooks, is *final* after *thought*: make what was shown agree with it."""
        if "".join(self._shown) != final or (self._thought and "".join(self._thought) != thought):
            self.discard("changed by a policy")
            if thought:
                self._journal.tell(ReasoningShown(self._scope, thought))
            if final:
                self._journal.tell(TextShown(self._scope, final))
        self._forget()

    def _show(self, kind: str, text: str, *, final: bool) -> bool:
        if self._held:
            return False
        for stage in self._stages.get(kind) or self._begun(kind):
            problem = stage.take(text, self._caller, final=final)
            if problem:
                # Nothing more is shown before the whole reply has passed the result hooks.
                self._held = True
                self._journal.tell(HookFailed(self._scope, stage.plugin, "transform_delta", problem))
                return False
            text = stage.shown
        if not text:
            return False
        if kind == "text":
            self._shown.append(text)
            self._journal.tell(TextShown(self._scope, text))
        else:
            self._thought.append(text)
            self._journal.tell(ReasoningShown(self._scope, text))
        return True

    def _begun(self, kind: str) -> list[_Stage]:
        made = [_Stage(self._scope, kind, impl, window) for impl, window in self._filters]
        if made:
            self._stages[kind] = made
        return made

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
        window = self._window_in(Window(text) if answer.value is None else answer.value)
        if window is None:
            return f"returned {type(answer.value).__name__}, not a Window or None"
        problem = self._problem(window, len(text), final=final)
        if not problem:
            self.shown, self._state = window.show, window.state
            self._kept = text[len(text) - window.keep :]
        return problem

    def _window_in(self, value: object) -> Window | None:
        fits = isinstance(value, Window) and type(value.show) is str and type(value.keep) is int
        return value if fits and isinstance(value, Window) else None

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
