"""A chat as its commands see it: the session, what goes along with the next message, and what was not said."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs
from pluggent_hookspecs.messages import Message, Text, Usage
from pluggent_host.turns.next_step import Why
from pluggent_host.turns.result import TurnResult
from pluggent_transcript.rebuild import Exchange

from pluggent_cli.chat.attachments import Attached
from pluggent_cli.chat.cost import used_since
from pluggent_cli.chat.loop import Answers, Talk
from pluggent_cli.terminal.console import Console

_UNHEARD = (Why.DENIED, Why.FAILED)
"""How a turn ends that may have begun with nothing."""


@attrs.define
class Chat:
    """What the commands of a chat work on."""

    talk: Talk
    attached: list[Attached] = attrs.field(factory=list[Attached])
    """What goes along with the next message."""
    models: list[str] = attrs.field(factory=list[str])
    """Models that were used, for completion."""
    undone: Exchange | None = None
    """What was taken back last, if something in it can be put back."""
    unsaid: Message | None = None
    """The last message, if its turn failed and it is no part of the conversation."""
    draft: str = ""
    """What the next line begins with."""
    last: Usage = Usage()
    """What the last turn has used."""
    private: bool = False
    """Whether the last message began with a space: it is not remembered for the arrow keys."""
    typed: bool = False
    """Whether a person types the lines, at a terminal."""
    left: bool = False

    @property
    def console(self) -> Console:
        """Where everything is printed."""
        return self.talk.console

    def message(self, text: str) -> Message:
        """Return *text* with what is attached, which is attached no longer."""
        parts = [each.part for each in self.attached]
        self.attached.clear()
        return Message.user((Text(text), *parts))

    def privately(self, text: str) -> str:
        """Return *text*, which repeats the last message, with the space of a private one."""
        return f" {text}" if self.private else text

    async def say(self, message: Message) -> TurnResult[Any]:
        """Run a turn with *message*. One that was typed is given back if the turn fails before a tool has run.

        Raises what Talk.turn raises.
        """
        session, before = self.talk.session, self.talk.session.usage
        self.unsaid, self.draft = None, ""
        count = len(session.history)
        try:
            result = await self.talk.turn(message)
        except Exception:
            await self._give_back(message, count)
            raise
        finally:
            self.last = used_since(before, session.usage)
        if result.why in _UNHEARD and len(session.history) <= count:
            await self._give_back(message, count)
        return result

    async def resume(self, answers: Answers | None = None) -> TurnResult[Any]:
        """Continue the paused turn with *answers*."""
        session, before = self.talk.session, self.talk.session.usage
        try:
            return await self.talk.resume(answers)
        finally:
            self.last = used_since(before, session.usage)

    async def _give_back(self, message: Message, count: int) -> None:
        session = self.talk.session
        if not self.typed:
            return
        if len(session.history) > count:
            if _has_results(session.history[count:]):
                return  # tools have acted; /retry says so first
            await session.undo()
        self.unsaid = message
        said = "\n".join(part.text for part in message.content[:1] if isinstance(part, Text))
        self.draft = self.privately(said)
        self.attached = [Attached(part) for part in message.content[1:]]


def _has_results(history: Sequence[Message]) -> bool:
    return any(message.tool_call_id for message in history)
