"""Shows the events of a turn: the answer on standard output, calls and decisions on standard error.

Screen prints, Calls collects what became of each tool call.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import attrs
from pluggent_contract_values.escape import escape_all
from pluggent_hookspecs import thaw
from pluggent_hookspecs.messages import Message, Text, ToolCall
from pluggent_hookspecs.observations import (
    Change,
    DecisionMade,
    Discarded,
    HookFailed,
    ModelCalled,
    ModelRetried,
    Observation,
    ReasoningShown,
    TextShown,
    ToolFinished,
    ToolLogged,
    ToolProgressed,
    ToolStarted,
    UserNotified,
    Vote,
)
from pluggent_hookspecs.tools import ToolOutput

from pluggent_cli.terminal.console import Console, cut, escape_controls
from pluggent_cli.terminal.live import Answer
from pluggent_cli.terminal.progress import SAID_AFTER_S, shown_arguments, shown_seconds
from pluggent_cli.terminal.tty import who

_CATCHING_UP_S = 1.0
_ARGUMENTS_SHOWN = 300
CONSOLE = "app:_approver"
"""By whom a decision is that the person at a terminal made while the turn ran."""
_RESULT_LINES = 2
_WITHHELD = "(it ran; a policy withholds the result)"
_SETTLED = frozenset({"approved", "refused"})


class Screen:
    """Reads the events of one turn in order.

    What the model says goes to *answer* as it comes, *results* shows what the calls brought;
    without them the caller shows both afterwards. *drawn*: a call that runs is drawn in place, and its line
    is printed when it is over.
    """

    def __init__(
        self, console: Console, calls: Calls, *, answer: Answer | None, results: bool = True, drawn: bool = False
    ) -> None:
        self._console = console
        self._calls = calls
        self._answer = answer
        self._results = results
        self._drawn = drawn and not console.verbose
        self._unprinted: dict[str, str] = {}
        """The lines of calls that are drawn in place, by call id."""
        self._shown: dict[str, asyncio.Event] = {}
        self._noted: set[str] = set()
        """Results that were shown whole, in one line."""

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
            case UserNotified(message=message) if self._console.out_is_terminal and message.text in self._noted:
                pass
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

    def end(self) -> None:
        """Print what is only drawn so far."""
        for id in tuple(self._unprinted):
            self._print(id)

    # ---- calls ---------------------------------------------------------------------------

    def _print(self, id: str) -> None:
        if (line := self._unprinted.pop(id, "")) != "":
            self._console.note(line)

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
        if event.verdict != "allow" or call.nested:
            self.end()  # in the order of the decisions
        if event.verdict in _SETTLED:
            self._console.note(f"{self._indent(call)}  {verdict}")
        elif not earlier or earlier[-1] != event.verdict:
            changes = "".join(
                f"; {escape_all(change.plugin)} changed {escape_all(', '.join(change.paths))}"
                for change in event.changes
            )
            line = f"{self._arrow('→', call)} {self._shown_call(call)}  {verdict}{self._dim(changes)}"
            if self._drawn and event.verdict == "allow" and not call.nested:
                self._unprinted[call.id] = line
            else:
                self._console.note(line)

    def _verdict(self, event: DecisionMade) -> str:
        ink = self._console.err_ink
        by_whom = "you" if event.by in (CONSOLE, who()) else escape_all(event.by)
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
        self._print(call.id)
        if not self._results or call.output is None or (call.verdict in ("deny", "refused") and not call.ran):
            return  # the verdict has been shown, and says why
        failed = call.output.is_error
        if not call.decisions:  # it could not even be put to the policies
            self._console.note(f"{self._arrow('→', call)} {self._shown_call(call)}")
        whole = text_of(call.output)
        text = " ⏎ ".join(whole.strip().replace("\t", " ").splitlines()) or (
            _WITHHELD if call.withheld else "(nothing)"
        )
        shown = cut(escape_all(text), _RESULT_LINES * self._console.width - 8, len(whole))
        if len(shown) == len(text):
            self._noted.add(whole)
        shown = self._console.err_ink("red", shown) if failed else self._dim(shown)
        time = f" · {shown_seconds(call.elapsed_s)}" if call.elapsed_s >= SAID_AFTER_S else ""
        self._console.note(f"{self._arrow('←', call)} {shown}{self._dim(time)}")

    def _shown_call(self, call: Call) -> str:
        arguments = (
            escape_all(call.typed)
            if call.arguments is None
            else shown_arguments(call.arguments, _object(call.typed) or ())
        )
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
                tokens = f"{count(usage.input)} tokens in, {count(usage.output)} out"
                request = f" (request {escape_all(event.meta.request_id)})" if event.meta.request_id else ""
                self._console.note(self._dim(f"· {escape_all(model)}: {tokens}, {elapsed_s:.2f} s{request}"))
                for note in event.meta.notes:
                    self._console.note(self._dim(f"· {escape_all(model)}: {escape_all(note)}"))
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


def count(tokens: int | None) -> str:
    """Return a number of tokens; ``?`` if it is unknown."""
    return "?" if tokens is None else f"{tokens:,}"


# ---- calls: what became of each ---------------------------------------------------------


@attrs.define
class Call:
    """One call. ``arguments`` are what will run as soon as that is known, None if they are not an object."""

    id: str
    name: str = ""
    capability: str = ""
    arguments: Mapping[str, Any] | None = None
    typed: str = ""
    place: int = 0
    """Which of several calls of one reply this is, from 1; 0 if it is the only one."""
    nested: bool = False
    decisions: list[DecisionMade] = attrs.field(factory=list[DecisionMade])
    output: ToolOutput | None = None
    withheld: bool = False
    """Whether nothing of the output may be seen."""
    ran: bool = False
    elapsed_s: float = 0.0

    @property
    def verdict(self) -> str:
        """The last verdict; empty where no policy was asked, because the call could not be read."""
        return self.decisions[-1].verdict if self.decisions else ""

    def document(self) -> dict[str, Any]:
        """Return the call as JSON has it."""
        last = self.decisions[-1] if self.decisions else None
        changes = [change for one in self.decisions for change in one.changes]
        return {
            "id": self.id,
            "tool": self.name,
            "capability": self.capability,
            "arguments": self.typed if self.arguments is None else self.arguments,
            "verdict": self.verdict,
            "by": last.by if last else "",
            "reason": last.reason if last else "",
            "votes": [vote_document(vote) for one in self.decisions[:1] for vote in one.votes],
            "changes": [change_document(change) for change in changes],
            "ran": self.ran,
            "failed": self.output.is_error if self.output else None,
            "withheld": self.withheld,
            "result": text_of(self.output) if self.output and not self.withheld else None,
            "data": thaw(self.output.data) if self.output else None,
            "elapsed_s": round(self.elapsed_s, 6),
        }


class Calls:
    """The calls of one turn in the order in which they turned up.

    *asked_for* finds a call, by its id, as the model or the person asked for it, with its place.
    """

    def __init__(self, asked_for: Callable[[str], tuple[int, ToolCall] | None]) -> None:
        self._asked_for = asked_for
        self._by_id: dict[str, Call] = {}
        self.all: list[Call] = []

    def read(self, event: Observation) -> Call | None:
        """Record *event* and return its call, None if it is not about a call."""
        match event:
            case DecisionMade(operation="tool_call"):
                call = self._call(event.call_id, event.capability.rpartition("/")[2], event.scope.parent_id)
                call.capability = event.capability
                if (
                    event.verdict != "ask" or call.verdict != "approved"
                ):  # an ask is repeated where an approval took long
                    call.decisions.append(event)
                call.arguments = _object(event.arguments_json) or call.arguments
                return call
            case ToolStarted():
                call = self._call(event.call_id, event.name, event.scope.parent_id)
                call.name, call.capability = event.name, event.capability
                call.arguments = _object(event.arguments_json)
                return call
            case ToolFinished():
                call = self._call(event.call_id, event.name, event.scope.parent_id)
                call.name, call.capability = event.name, event.capability
                call.output, call.withheld = event.output, event.withheld
                call.ran, call.elapsed_s = event.ran, event.elapsed_s
                return call
            case _:
                return None

    def _call(self, id: str, name: str, parent: str) -> Call:
        call = self._by_id.get(id)
        if call is None or call.output is not None:  # some models number their calls anew in every reply
            found = self._asked_for(id)
            call = Call(id, name, nested=bool(parent))
            if found is not None:
                call.place, typed = found
                call.name, call.typed, call.arguments = typed.name, typed.arguments, _object(typed.arguments)
            self._by_id[id] = call
            self.all.append(call)
        return call


def model_call_document(called: ModelCalled) -> dict[str, Any]:
    """Return a model call as JSON has it."""
    return {
        "model": called.model,
        "finish_reason": called.finish_reason,
        "error": called.error,
        "elapsed_s": round(called.elapsed_s, 6),
        "usage": attrs.asdict(called.usage),
        "meta": attrs.asdict(called.meta),
    }


def vote_document(vote: Vote) -> dict[str, Any]:
    """Return a vote as JSON has it."""
    return {"plugin": vote.plugin, "verdict": vote.verdict, "reason": vote.reason}


def change_document(change: Change) -> dict[str, Any]:
    """Return a change as JSON has it, without before and after: what was there before is what a hook took out."""
    return {"by": change.plugin, "what": list(change.paths)}


def last_asked(history: Sequence[Message], id: str) -> tuple[int, ToolCall] | None:
    """Return the last call of that id in *history*, and which of several in its message it is (0: the only one)."""
    for message in reversed(history):
        for place, call in enumerate(message.tool_calls, 1):
            if call.id == id:
                return place if len(message.tool_calls) > 1 else 0, call
    return None


def text_of(output: ToolOutput) -> str:
    """Return *output* as text for the model; of parts that are not text their kind."""
    if isinstance(output.for_model, str):
        return output.for_model
    parts = output.for_model
    return "".join(part.text if isinstance(part, Text) else f"[{type(part).__name__.lower()}]" for part in parts)


def _object(text: str | bytes) -> Mapping[str, Any] | None:
    try:
        value: Any = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None


# ---- a reply that breaks off -------------------------------------------------------------


class Unwritten:
    """What came of a reply that broke off, where answers are written when they are whole."""

    def __init__(self) -> None:
        self._pieces: list[str] = []

    @property
    def text(self) -> str:
        """What came of it."""
        return "".join(self._pieces)

    def read(self, event: Observation) -> None:
        """Take in *event*."""
        match event:
            case TextShown(text=text):
                self._pieces.append(text)
            case Discarded() | ModelCalled(error=""):
                self._pieces.clear()
            case _:
                pass
