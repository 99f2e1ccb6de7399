"""What a reply says of the history that was not sent with its request (ReplyMeta.notes)."""

from __future__ import annotations

from pluggent_hookspecs import Message, Reasoning

WHY = "changed since, cut off, or of another model or server"


def thinking_note(replies: int, why: str = WHY) -> tuple[str, ...]:
    """Return what is said of so many earlier *replies* whose thinking was left out; nothing for none.

    >>> thinking_note(1)
    ('the thinking of one earlier reply was left out: changed since, cut off, or of another model or server',)
    """
    if not replies:
        return ()
    which = "one earlier reply" if replies == 1 else f"{replies} earlier replies"
    return (f"the thinking of {which} was left out: {why}",)


def thoughts_in(message: Message) -> int:
    """Return how many parts of *message* are thinking."""
    return sum(type(part) is Reasoning for part in message.content)
