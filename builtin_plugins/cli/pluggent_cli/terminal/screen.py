"""Shows a turn while it runs: the answer on standard output, what happens on standard error."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

from pluggent_hookspecs.observations import (
    DecisionMade,
    Discarded,
    HookFailed,
    ModelCalled,
    ModelRetried,
    Observation,
    ReasoningShown,
    TextShown,
    ToolLogged,
    ToolProgressed,
    UserNotified,
)
from pluggent_host.common.escape import escape_all

from pluggent_cli.terminal.answers import Answer
from pluggent_cli.terminal.calls import Call, Calls, text_of
from pluggent_cli.terminal.consent import who
from pluggent_cli.terminal.console import Console, cut, escape_controls

_CATCHING_UP_S = 1.0
_ARGUMENTS_SHOWN = 300
_CONSOLE = "app:_approver"
_RESULT_LINES = 2
_WITHHELD = "(it ran; a policy withholds the result)"
_SETTLED = frozenset({"approved", "refused"})


class Screen:
    """Reads the events of one turn in order.

    What the model says goes to *answer* as it comes, *results* shows what the calls brought;
    without them the caller shows both afterwards.
    """

    def __init__(self, console: Console, calls: Calls, *, answer: Answer | None, results: bool = True) -> None:
        self._console = console
        self._calls = calls
        self._answer = answer
        self._results = results
        self._shown: dict[str, asyncio.Event] = {}

    async def shown(self, digest: str) -> None:
        """Wait until the decision about *digest* is on the screen; a second at most, because some are not emitted."""
        try:
            async with asyncio.timeout(_CATCHING_UP_S):
                await self._shown.setdefault(digest, asyncio.Event()).wait()
        except TimeoutError:
            pass

    def show(self, event: Observation) -> None:
        """Take in *event* and show what there is to show of it."""
        call = self._calls.read(event)
        match event:
            case TextShown(text=text) if self._answer is not None:
                self._answer.add(text)
            case Discarded(why=why) if self._answer is not None:
                self._answer.drop()
                self._console.error(
                    self._dim(f"(void: the text above; {escape_all(why) or 'another attempt follows'})")
                )
            case UserNotified(message=message) if self._answer is not None:
                self._answer.end()
                text = message.text or f"[{', '.join(type(part).__name__.lower() for part in message.content)}]"
                self._console.line(escape_controls(text) if self._console.out_is_terminal else text)
            case DecisionMade():
                self._decision(event, call)
                self._shown.setdefault(event.digest, asyncio.Event()).set()
            case _ if call is not None:
                if call.output is not None:
                    self._result(call)
            case _:
                self._aside(event)

    # ---- calls ---------------------------------------------------------------------------

    def _decision(self, event: DecisionMade, call: Call | None) -> None:
        verdict = self._verdict(event)
        if call is not None and self._answer is not None:
            self._answer.end()  # a call comes when the model has said what it had to say
        if call is None:
            if event.verdict != "allow" or self._console.verbose:
                what = event.operation.replace("_", " ")
                self._console.note(f"{self._dim('·')} {what}  {verdict}")
            return
        earlier = [decision.verdict for decision in call.decisions[:-1]]
        if event.verdict in _SETTLED:
            self._console.note(f"{self._indent(call)}  {verdict}")
        elif not earlier or earlier[-1] != event.verdict:
            changes = "".join(
                f"; {escape_all(change.plugin)} changed {escape_all(', '.join(change.paths))}"
                for change in event.changes
            )
            self._console.note(f"{self._arrow('→', call)} {self._shown_call(call)}  {verdict}{self._dim(changes)}")

    def _verdict(self, event: DecisionMade) -> str:
        ink = self._console.err_ink
        by_whom = "you" if event.by in (_CONSOLE, who()) else escape_all(event.by)
        reason = f": {escape_all(event.reason)}" if event.reason else ""
        by = "" if event.by == "host" else f" by {by_whom}"
        match event.verdict:
            case "allow":
                return ink("green", "allowed") + self._dim(by + reason)
            case "approved":
                return ink("green", f"approved{by}")
            case "respond":
                return ink("yellow", f"answered{by}") + self._dim(reason)
            case "ask":
                return ink("yellow", "needs approval") + self._dim(f" ({by_whom}{reason})")
            case "refused":
                return ink("red", f"REFUSED{by}")
            case _:
                return ink("red", f"DENIED by {by_whom}") + reason

    def _result(self, call: Call) -> None:
        if not self._results or call.output is None or (call.verdict in ("deny", "refused") and not call.ran):
            return  # the verdict has been shown, and says why
        failed = call.output.is_error
        if not call.decisions:  # it could not even be put to the policies
            self._console.note(f"{self._arrow('→', call)} {self._shown_call(call)}")
        whole = text_of(call.output)
        text = " ⏎ ".join(whole.strip().splitlines()) or (_WITHHELD if call.withheld else "(nothing)")
        shown = cut(escape_all(text), _RESULT_LINES * self._console.width - 8, len(whole))
        shown = self._console.err_ink("red", shown) if failed else self._dim(shown)
        self._console.note(f"{self._arrow('←', call)} {shown}")

    def _shown_call(self, call: Call) -> str:
        arguments = escape_all(call.typed) if call.arguments is None else shown_arguments(call.arguments)
        return f"{self._console.err_ink('bold', escape_all(call.name))}({cut(arguments, _ARGUMENTS_SHOWN)})"

    def _arrow(self, arrow: str, call: Call) -> str:
        number = f"{call.place} " if call.place else ""
        return self._indent(call) + self._console.err_ink("cyan", f"{arrow} {number}".rstrip())

    def _indent(self, call: Call) -> str:
        return "  " if call.nested else ""

    # ---- everything else -----------------------------------------------------------------

    def _aside(self, event: Observation) -> None:
        match event:
            case HookFailed(plugin=plugin, hook=hook, problem=problem):
                text = f"! plugin '{plugin}' failed in {hook}: {problem}"
                self._console.note(self._console.err_ink("yellow", escape_all(text)))
            case ModelRetried(error=error, wait_s=wait_s):
                text = f"! the model call failed: {error}; trying again in {wait_s:.1f} s"
                self._console.note(self._console.err_ink("yellow", escape_all(text)))
            case ModelCalled(model=model, usage=usage, elapsed_s=elapsed_s) if self._console.verbose:
                if self._answer is not None:
                    self._answer.end()
                tokens = f"{_count(usage.input)} tokens in, {_count(usage.output)} out"
                self._console.note(self._dim(f"· {escape_all(model)}: {tokens}, {elapsed_s:.2f} s"))
            case ToolProgressed(name=name, done=done, total=total, message=message) if self._console.verbose:
                far = f"{done:g}" if total is None else f"{done:g} of {total:g}"
                self._console.note(self._dim(f"· {escape_all(name)}: {far} {escape_all(message)}".rstrip()))
            case ToolLogged(name=name, level=level, message=message) if self._console.verbose:
                self._console.note(self._dim(f"· {escape_all(name)}: {level}: {escape_all(message)}"))
            case ReasoningShown(text=text) if self._console.verbose:
                self._console.note(self._dim(f"· thinking: {cut(escape_all(text), self._console.width)}"))
            case _:
                pass

    def _dim(self, text: str) -> str:
        return self._console.err_ink("dim", text)


def shown_arguments(arguments: Mapping[str, Any]) -> str:
    """Return *arguments* as they are read most easily.

    >>> shown_arguments({"city": "Beijing", "days": 3})
    'city="Beijing", days=3'
    """
    return ", ".join(
        f"{escape_all(name)}={escape_all(json.dumps(value, ensure_ascii=False))}" for name, value in arguments.items()
    )


def _count(tokens: int | None) -> str:
    return "?" if tokens is None else f"{tokens:,}"
