"""The plugins of the path matrix: one that watches every hook, and one that acts up in a single hook.

``FAULTS`` is the table of what a hook can do to refuse, or to fail, by its kind; ``changed`` is
what a transform makes of its event. A new hook is known here by its kind and its event alone.
"""

# ruff: noqa: ARG001 (every part of a path is given the same)

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

import attrs
from pluggent_hookspecs import Json, events as e
from pluggent_hookspecs.decisions import Deny, Window
from pluggent_hookspecs.hooks import HOOKS
from pluggent_hookspecs.markers import HookKind, hookimpl
from pluggent_hookspecs.memory import MemoryItem
from pluggent_hookspecs.messages import Message, Text
from pluggent_hookspecs.observations import DecisionMade, Observation
from pluggent_hookspecs.questions import Declined
from pluggent_plugin_loader.validation import HOLDING

from pluggent_testing.paths.operations import EVERYWHERE, NO_OPERATION
from pluggent_testing.paths.stage import Log

FIRED = tuple(name for name in HOOKS if name not in NO_OPERATION)
"""The hooks that the matrix is about."""

WIDE = 100_000
"""Characters that a plugin of ours may hold back of a stream: as many as it likes."""

Act: TypeAlias = Callable[[Any], Any]


# ---- plugins made of functions ----------------------------------------------------------


def plugin(name: str, /, *, band: Any = "normal", **hooks: Callable[..., Any]) -> object:
    """Return a plugin whose class is called *name* and that implements *hooks*.

    >>> plugin("Quiet", decide_input=lambda event: None).decide_input(None)
    """
    filters = "transform_delta" in hooks
    made = {hook: _method(hook, act, band, filters=filters) for hook, act in hooks.items()}
    return type(name, (), made)()


def _method(hook: str, act: Callable[..., Any], band: Any, *, filters: bool) -> Callable[..., Any]:
    if HOOKS[hook].kind is HookKind.AROUND:

        async def around(self: object, event: Any, call_next: Any) -> Any:
            return await act(event, call_next)

        return hookimpl(band=band)(around)

    def method(self: object, event: Any) -> Any:
        return act(event)

    return hookimpl(band=band, incremental=WIDE if filters and hook in HOLDING else None)(method)


def holding() -> object:
    """Return a plugin because of which streams are held until the whole reply has passed."""

    class Holder:
        @hookimpl
        def decide_output(self, event: e.OutputEvent) -> None:
            """Have no objection."""

    return Holder()


# ---- watching ---------------------------------------------------------------------------


def listener(log: Log) -> object:
    """Return an observer and a sink of everything."""

    def observe(event: Observation) -> None:
        log.note("observed", event, "observe")

    def write_record(event: Observation) -> None:
        log.note("recorded", event, "write_record")

    return plugin("Listener", observe=observe, write_record=write_record)


def witness(log: Log) -> object:
    """Return a plugin that implements every hook, notes what fired, and changes nothing."""
    hooks: dict[str, Callable[..., Any]] = {}
    for name in FIRED:
        if name not in EVERYWHERE:
            hooks[name] = _watching(log, name)
    return plugin("Witness", **hooks)


def _watching(log: Log, hook: str) -> Callable[..., Any]:
    async def around(event: Any, call_next: Callable[[], Awaitable[Any]]) -> Any:
        log.note("fired", event, hook)
        return await call_next()

    def delta(event: e.DeltaEvent) -> Window:
        if event.state is None:  # the beginning of a stream
            log.note("fired", event, hook)
        return Window(event.text, state=True)

    def reserve(event: e.ReserveEvent) -> object:
        log.note("fired", event, hook)
        return {"held": event.operation_id}

    def note(event: Any) -> None:
        log.note("fired", event, hook)

    if HOOKS[hook].kind is HookKind.AROUND:
        return around
    special: dict[str, Callable[..., Any]] = {"transform_delta": delta, "reserve": reserve}
    return special.get(hook, note)


def scope_of(event: Any) -> e.Scope:
    """Return where *event* happened."""
    scope: e.Scope = event.reserved.scope if isinstance(event, e.SettleEvent) else event.scope
    return scope


# ---- acting up --------------------------------------------------------------------------


def _nothing(event: object) -> None:
    """Say nothing."""


def _raise(event: object) -> object:
    raise RuntimeError("the probe fails on purpose")


async def _never(event: object) -> None:
    await asyncio.Event().wait()


def slowly(act: Act) -> Act:
    """Return *act* as a coroutine function that really waits."""

    async def slow(event: object) -> object:
        await asyncio.sleep(0)
        return act(event)

    return slow


def _deny(event: object) -> Deny:
    return Deny("refused by the probe")


def _refuse(event: object) -> object:
    return Declined() if isinstance(event, e.QuestionEvent) else False


def _rubbish(event: object) -> object:
    return object()


_LATE = {"late": (_never,)}
_FAILS = {"fails": (_raise, _rubbish)}

FAULTS: Mapping[HookKind, Mapping[str, tuple[Act, ...]]] = {
    HookKind.TRANSFORM: _FAILS,
    HookKind.DECIDE: {"deny": (_deny, slowly(_deny)), **_FAILS, **_LATE},
    HookKind.AROUND: {"fails": (_raise, slowly(_rubbish))},
    HookKind.FIRST: {"deny": (_refuse, slowly(_refuse))},
    HookKind.LEDGER: {"deny": (_deny, slowly(_deny)), "fails": (_raise,), **_LATE},
    HookKind.SINK: _FAILS,
}
"""What can come of a hook, by kind and name, that must keep its operation from having an effect: each in turn.

Not here: an around hook has the operation's own time, an approver in code has all the time of
the world and may fail (the next one is asked), and of a reservation every JSON value is good.
"""

NOT_REFUSING = ("transform_delta", "settle", "observe", "write_record")
"""Hooks that keep nothing from happening: they have tests of their own."""


class Probe:
    """Acts in one hook, the *at*-th time that it fires (0: every time). ``hit`` says on which event it did."""

    def __init__(
        self, log: Log, hook: str, act: Act, at: int = 0, *, matters: Callable[[Any], bool] | None = None
    ) -> None:
        self._log = log
        self._hook = hook
        self._act = act
        self._at = at
        self._matters = matters
        self.times = 0
        self.hit: Any = None

    def as_plugin(self) -> object:
        """Return the plugin to be registered."""
        hooks: dict[str, Callable[..., Any]] = {self._hook: self._fires}
        if HOOKS[self._hook].kind is HookKind.AROUND:
            hooks[self._hook] = self._around
        if self._hook == "reserve":
            hooks["settle"] = _nothing
        if self._hook == "transform_delta":
            hooks["transform_model_response"] = partial(changed, "transform_model_response")
        if (judge := judge_of(self._hook)) is not None:
            hooks[judge] = partial(self._log.note, "judged", hook=judge)
        return plugin("Probe", **hooks)

    def _acts(self, event: Any) -> bool:
        if self._matters is not None and not self._matters(event):
            return False
        self.times += 1
        if self._at not in (0, self.times):
            self._log.note("granted", event, self._hook)
            return False
        self.hit = event
        self._log.note("hit", event, self._hook)
        return True

    def _fires(self, event: Any) -> Any:
        return self._act(event) if self._acts(event) else None

    async def _around(self, event: Any, call_next: Callable[[], Awaitable[Any]]) -> Any:
        if not self._acts(event):
            return await call_next()
        answer = self._act(event)
        return await answer if asyncio.iscoroutine(answer) else answer


def judge_of(hook: str) -> str | None:
    """Return the hook that decides on what the transform *hook* made; None for any other hook.

    >>> judge_of("transform_tool_call"), judge_of("transform_delta"), judge_of("decide_input")
    ('decide_tool_call', None, None)
    """
    judge = hook.replace("transform_", "decide_", 1)
    return judge if judge != hook and judge in HOOKS else None


def decides_on(operation: str) -> Callable[[Observation], bool]:
    """Return what tells the records that let an *operation* go on, which sinks are told before it does."""

    def tells(event: Observation) -> bool:
        if not isinstance(event, DecisionMade):
            return False
        return event.operation == operation and event.verdict in ("allow", "approved", "respond")

    return tells


def without_approvers(plugins: Iterable[object]) -> Iterator[object]:
    """Yield those of *plugins* that agree to nothing."""
    return (each for each in plugins if not hasattr(each, "resolve_approval"))


# ---- changing ---------------------------------------------------------------------------

SECRET = ("said", "reply", "answer", "result", "shown", "kept", "item", "given", "vector")
"""How texts begin that something of ours has made; ``clean`` is what a transform makes of them."""

ANSWERED = "Oslo"
"""What a person answers to a question: for the tool that asked, and in no record."""

MARK = re.compile(r"\bmark-[a-z]+")
"""What the arguments of a call carry somewhere, so that what is run can be told apart."""

TEMPERATURE = 0.125
CHANGED_MARK = "-changed"


def cleaned(text: str, *words: str) -> str:
    """Return *text* with *words* (default: all) taken out.

    >>> cleaned("reply-1 of said-2")
    'clean-1 of clean-2'
    """
    for word in words or SECRET:
        text = text.replace(f"{word}-", "clean-")
    return text


def changed(hook: str, event: Any) -> Any:
    """Return what our transform *hook* makes of *event*."""
    match event:
        case e.InputEvent() | e.OutputEvent():
            return _message(event.message)
        case e.ToolSelectionEvent():
            return ()
        case e.ModelRequestEvent():
            parameters = attrs.evolve(event.request.parameters, temperature=TEMPERATURE)
            return attrs.evolve(event.request, parameters=parameters)
        case e.DeltaEvent():
            sure = len(event.text) if event.final else event.text.rfind(" ") + 1
            return Window(cleaned(event.text[:sure]), keep=len(event.text) - sure)
        case e.ModelResponseEvent():
            return attrs.evolve(event.response, message=_message(event.response.message))
        case e.ToolCallEvent():
            return _everywhere(event.arguments, lambda text: MARK.sub(rf"\g<0>{CHANGED_MARK}", text))
        case e.ToolResultEvent():
            output = event.output
            for_user = None if output.for_user is None else cleaned(output.for_user)
            data = _everywhere(output.data, cleaned)
            return attrs.evolve(output, for_model=cleaned(_plain(output.for_model)), for_user=for_user, data=data)
        case e.EmbeddingRequestEvent() | e.EmbeddingResponseEvent():
            return _embedding(event)
        case e.MemoryWriteEvent() | e.MemoryResultEvent():
            return [_item(item) for item in event.items]
        case _:
            raise AssertionError(f"the path matrix does not know what {hook} changes: add it to probes.changed")


def _embedding(event: e.EmbeddingRequestEvent | e.EmbeddingResponseEvent) -> Any:
    if isinstance(event, e.EmbeddingRequestEvent):
        return attrs.evolve(event.request, texts=map(cleaned, event.request.texts))
    return attrs.evolve(event.response, model=cleaned(event.response.model))


def _message(message: Message) -> Message:
    content = tuple(Text(cleaned(part.text)) if isinstance(part, Text) else part for part in message.content)
    return attrs.evolve(message, content=content)


def _plain(content: Any) -> str:
    return content if isinstance(content, str) else "".join(getattr(part, "text", "") for part in content)


def _everywhere(value: Json, change: Callable[[str], str]) -> Any:
    """Return *value* with every text in it changed, but for keys."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {key: _everywhere(each, change) for key, each in value.items()}
    if isinstance(value, Sequence):
        return [_everywhere(each, change) for each in value]
    return value


def _item(item: MemoryItem) -> MemoryItem:
    return attrs.evolve(item, text=cleaned(item.text))
