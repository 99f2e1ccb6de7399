"""Shows the text of a stream as it comes, or holds it back until the result hooks have decided."""

from __future__ import annotations

from pluggent_hookspecs.events import Discarded, ReasoningShown, Scope, TextShown
from pluggent_hookspecs.messages import Message, Refusal, Text

from pluggent_host.chains import Chains
from pluggent_host.feed import Feed
from pluggent_host.operation import Journal

_HOLDING = ("transform_model_response", "decide_model_response", "transform_output", "decide_output")
"""Hooks that may change or refuse a whole reply: while one is active, nothing is shown before."""


class Deltas:
    """Shows a stream as it comes, or holds it back while result hooks are active."""

    def __init__(self, journal: Journal, scope: Scope, feed: Feed, chains: Chains, *, provisional: bool) -> None:
        self._journal = journal
        self._scope = scope
        self._feed = feed
        self._held = not provisional and any(chains[hook] for hook in _HOLDING)
        self._shown: list[str] = []
        self._thought = False

    def show(self, text: str, reasoning: str) -> bool:
        if self._held:
            return False
        if reasoning:
            self._thought = True
            self._journal.tell(ReasoningShown(self._scope, reasoning))
        if text:
            self._shown.append(text)
            self._journal.tell(TextShown(self._scope, text))
        return True

    @property
    def full(self) -> bool:
        return self._feed.full

    async def room(self) -> None:
        await self._feed.room()

    def discard(self, why: str) -> None:
        if self._shown or self._thought:
            self._journal.tell(Discarded(self._scope, why))
        self._forget()

    def settle(self, final: str) -> None:
        """The reply has passed all hooks and is *final*: make what was shown agree with it."""
        shown = "".join(self._shown)
        if shown != final:
            self.discard("changed by a policy")
            if final:
                self._journal.tell(TextShown(self._scope, final))
        self._forget()

    def _forget(self) -> None:
        self._shown.clear()
        self._thought = False


def visible(message: Message) -> str:
    """Return what a person reads of a reply: its text and its refusals."""
    return "".join(part.text for part in message.content if isinstance(part, Text | Refusal))
