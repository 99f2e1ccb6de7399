"""A command that a plugin adds to ``pluggent``, and what the host does for it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Protocol, TypeAlias

import attrs

from pluggent_hookspecs._frozen import Json
from pluggent_hookspecs.decisions import Approval
from pluggent_hookspecs.errors import ToolErrorKind
from pluggent_hookspecs.events import ApprovalEvent, QuestionEvent
from pluggent_hookspecs.observations import ToolLogged
from pluggent_hookspecs.questions import Elicited
from pluggent_hookspecs.tools import ToolOutput, ToolSpec

__all__ = ["Command", "HostOperations", "HostResult", "HostTool", "OnLog", "OnProgress", "Requester"]

if TYPE_CHECKING:  # costs nothing until a command is typed
    import argparse

OnProgress: TypeAlias = Callable[[float, float | None, str], None]
"""Told how far a call is: done, of how many (None: nobody knows), and a message."""

OnLog: TypeAlias = Callable[[ToolLogged], None]
"""Told what a call has for a log."""


@attrs.frozen
class HostTool:
    """A tool of the host as a model would see it: under the name ``spec.name``.

    ``capability`` is its full id, ``effects`` what the operator or the tool says it does (None:
    undeclared), ``calls`` what becomes of a call if no policy speaks up: allow or ask.
    """

    spec: ToolSpec
    capability: str
    plugin: str
    effects: frozenset[str] | None
    calls: str


@attrs.frozen
class HostResult:
    """What came of a call: ``output`` as it came out of the hooks, ``outcome`` why it is no proper result.

    ``outcome`` is None for a call that ran and returned, be it an error of the tool's own.
    """

    output: ToolOutput
    outcome: ToolErrorKind | None = None


class Requester(Protocol):
    """Whoever asked for a call, as far as it can be asked back: a client at the other end of a wire.

    Its word counts only if the operator lists the command's plugin under ``[grants] approvers``;
    else nobody asks it. It has the time of ``timeouts.approver_s``, then it counts as not there.
    """

    async def approve(self, event: ApprovalEvent) -> bool | Approval | None:
        """Answer as ``resolve_approval`` does: True, False, or None if nobody is there to answer."""
        ...

    async def answer(self, event: QuestionEvent) -> Elicited | None:
        """Answer as ``answer_question`` does; None if nobody is there to answer."""
        ...


class HostOperations(Protocol):
    """What the host does for a command: operations under all policies, recorded like any other.

    The host is opened with the user's settings when the first of these is awaited, and closed,
    with its plugins, after the command. All are for the event loop that runs the command.
    """

    async def tools(self, *choices: str) -> tuple[HostTool, ...]:
        """Return the tools that *choices* mean, or all that are installed and work.

        A choice is a name as sessions take it: a tool's, a capability id, either with ``*``, a
        plugin's. Raises ConfigError for one that means nothing, PluginError for a plugin that was
        named and does not work. Call it again to see what has changed.
        """
        ...

    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Json],
        *,
        origin: str,
        principal: str = "",
        on_progress: OnProgress | None = None,
        on_log: OnLog | None = None,
        requester: Requester | None = None,
    ) -> HostResult:
        """Call one tool and return its result, as it came out of the hooks; failures are results too.

        *name* is a capability id, or the name from ``tools()``. *origin* says on whose behalf in
        one word (``mcp``), *principal* who asks, as far as the command knows; policies see both. Unless
        the origin is ``cli`` and there is no principal, the name counts as claimed (see Scope): policies
        see ``claimed:NAME``, and no approval that stands covers the call. What needs approval is put to a
        person where the operator lets this origin ask (``cli``: whoever typed the command), or to the
        *requester* where the operator granted that; else it is denied, with a text that says how to let
        it run. An approval is for this one call.

        Calls may run side by side. Cancelling the task that waits cancels the call. Raises
        ConfigError where there is no such tool.
        """
        ...

    async def changed(self) -> None:
        """Wait until tools() may have something new to say: some have changed, come or gone since.

        Looks about once a second. Returns at once if they have changed already.
        """
        ...


@attrs.frozen
class Command:
    """``configure`` adds arguments to the parser; ``run``, or ``run_with``, returns the exit code.

    ``run_with`` is for commands that need the host: it runs in an event loop of its own. Ctrl-C
    cancels it; it is waited for, and the host is closed.

    >>> Command("hello", "Say hello.", lambda options: 0).name
    'hello'
    """

    name: str
    help: str
    run: Callable[[argparse.Namespace], int] | None = None
    configure: Callable[[argparse.ArgumentParser], None] | None = None
    run_with: Callable[[argparse.Namespace, HostOperations], Awaitable[int]] | None = None

    def __attrs_post_init__(self) -> None:
        if (self.run is None) == (self.run_with is None):
            raise TypeError(f"the command {self.name!r} needs one of run and run_with, and not both")
