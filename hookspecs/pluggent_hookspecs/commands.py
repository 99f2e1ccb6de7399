"""A command that a plugin adds to ``pluggent``, and the operations of the host for it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Protocol, TypeAlias

import attrs

from pluggent_hookspecs._frozen import Json
from pluggent_hookspecs._value import Value
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
"""Gets the progress of a call: done, total (None: unknown), and a message."""

OnLog: TypeAlias = Callable[[ToolLogged], None]
"""Gets the log messages of a call."""


@attrs.frozen(repr=False)
class HostTool(Value):
    """A tool of the host as a model would see it: under the name ``spec.name``.

    ``capability`` is its full id, ``effects`` are those that count (None: undeclared), ``calls`` is the
    decision about a call without a policy's vote: allow or ask.
    """

    spec: ToolSpec
    capability: str
    plugin: str
    effects: frozenset[str] | None
    calls: str


@attrs.frozen(repr=False)
class HostResult(Value):
    """The result of a call: its ``output`` after the hooks, and in ``outcome`` why it has no proper result.

    ``outcome`` is None for a call that ran and returned, even an error of the tool itself.
    """

    output: ToolOutput
    outcome: ToolErrorKind | None = None


class Requester(Protocol):
    """The client that asked for a call, if it can be asked back.

    Its answers count only if the operator lists the command's plugin under ``[grants] approvers``; else it
    is not asked. It has ``timeouts.approver_s`` seconds, then it counts as absent.
    """

    async def approve(self, event: ApprovalEvent) -> bool | Approval | None:
        """Answer as ``resolve_approval`` does: True, False, an Approval, or None if no person is there."""
        ...

    async def answer(self, event: QuestionEvent) -> Elicited | None:
        """Answer as ``answer_question`` does; None if no person is there."""
        ...


class HostOperations(Protocol):
    """Operations of the host for a command: under all policies, recorded like any other.

    The host is opened with the user's settings when the first of these is awaited, and closed,
    with its plugins, after the command. All are for the event loop that runs the command.
    """

    async def tools(self, *choices: str) -> tuple[HostTool, ...]:
        """Return the tools that *choices* mean, or all installed ones that work.

        A choice is a name as for sessions: of a tool, a capability id, either with ``*``, or of a plugin.
        Raises ConfigError for an unknown one, PluginError for a named plugin that fails. Each call looks again.
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
        """Call one tool and return its result after the hooks; failures are results too.

        *name* is a capability id, or the name from ``tools()``. *origin* names the way in (``mcp``), *principal*
        the client, as far as the command knows; policies see both. Unless the origin is ``cli`` and there is no
        principal, the name counts as claimed (see Scope): policies see ``claimed:NAME``, and no standing approval
        covers the call. Asks go to a person if the operator allows that for this origin (``cli``: the user of the
        command), or to the *requester* if the operator granted it; else the call is denied, with a text that
        says how to allow it. An approval is for this one call.

        Calls may run concurrently. Cancelling the awaiting task cancels the call. Raises ConfigError for an
        unknown tool.
        """
        ...

    async def changed(self) -> None:
        """Wait until the result of tools() may have changed since its last call.

        Checks about once a second. Returns at once after a change.
        """
        ...


@attrs.frozen(repr=False)
class Command(Value):
    """``configure`` adds arguments to the parser; ``run``, or ``run_with``, returns the exit code.

    ``run_with`` is for commands that need the host: it runs in an event loop of its own. Ctrl-C
    cancels it; after its end the host is closed.

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
