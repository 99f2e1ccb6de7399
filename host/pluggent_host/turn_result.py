"""What a turn came to, as a value."""

from __future__ import annotations

from typing import Generic, TypeVar, cast

import attrs
from pluggent_hookspecs.errors import SessionError
from pluggent_hookspecs.messages import Message, Usage

from pluggent_host.pausing import Pending
from pluggent_host.step import Done, Why

T = TypeVar("T")


@attrs.frozen
class TurnResult(Generic[T]):
    """What a turn came to. ``why`` says how it ended, ``detail`` more about it.

    ``text`` is what the person was shown by the model; ``message`` the whole last reply.
    ``limit`` names the limit that was reached, if one was. ``value`` is the reply in the form
    that was asked for, ``has_output`` whether there is one; ``output`` is it or raises.
    ``pending`` are what a paused turn waits with: see Session.resume.
    """

    text: str
    why: Why
    usage: Usage
    turn_id: str
    message: Message | None = None
    detail: str = ""
    limit: str = ""
    value: T | None = None
    pending: tuple[Pending, ...] = ()
    has_output: bool = False

    @property
    def output(self) -> T:
        """The reply in the form that was asked for. Raises SessionError if the turn has none."""
        if not self.has_output:
            why = f"the turn ended as {self.why}" + (f": {self.detail}" if self.detail else "")
            raise SessionError(f"there is no output of a form that was asked for: {why}")
        return cast("T", self.value)


def broken_by(error: BaseException) -> Done:
    """Return the end of a turn that *error* broke off."""
    return Done(Why.FAILED, str(error)) if isinstance(error, Exception) else Done(Why.CANCELLED)
