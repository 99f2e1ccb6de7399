"""Decides what a turn does next. Pure: no await, no clock, no plugin, no message content.

State and one event make a new State and exactly one Effect. Everything about *what next*,
limits and the loop guard included, is here and is tested without an event loop.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, TypeAlias, assert_never

import attrs
from pluggent_hookspecs import Json, Value
from pluggent_hookspecs.messages import Usage
from pluggent_transcript.limits import Limits
from pluggent_transcript.pending import Outcome

NEARLY = 0.8
"""The part of a limit from which on the model is warned of it."""
LAST_ROUND = "No more tool calls are possible in this turn. Answer now with what you have."
NEARLY_SPENT = "Most of the {} of this turn is used up. Come to an end."
REPAIR = "Your answer does not have the form that was asked for: {}. Answer again, with nothing but the corrected JSON."
_WORDS = {"wall_s": "time", "tokens": "token budget", "cost_usd": "money"}


class Why(StrEnum):
    """Why a turn ended."""

    COMPLETED = "completed"
    HANDLED = "handled"
    WAITING = "waiting_for_input"
    DENIED = "denied"
    LIMIT = "limit"
    CANCELLED = "cancelled"
    FAILED = "failed"
    PAUSED = "paused"
    INVALID_OUTPUT = "invalid_output"


@attrs.frozen(repr=False)
class Spent(Value):
    """What has gone so far: seconds of the turn (a person's thinking not counted) and tokens."""

    elapsed_s: float = 0.0
    usage: Usage = Usage()


# ---- events -----------------------------------------------------------------------------


@attrs.frozen(repr=False)
class Started(Value):
    """The input has passed its policies and is durable."""


@attrs.frozen(repr=False)
class Replied(Value):
    """A model has answered. ``calls`` are (call id, signature of name and arguments).

    ``paused``: the vendor interrupted the reply, and the model is to go on with it.
    ``problems``: why the reply is not of the form that was asked for.
    """

    calls: tuple[tuple[str, str], ...]
    spent: Spent = Spent()
    paused: bool = False
    problems: tuple[str, ...] = ()


@attrs.frozen(repr=False)
class ToolsSettled(Value):
    """Every call of the reply has a result; ``unanswered`` are asks that no approver answered.

    ``pending`` are calls that have none yet, because a person is to be asked later.
    """

    outcomes: tuple[Outcome, ...]
    unanswered: tuple[str, ...] = ()
    asks: int = 0
    spent: Spent = Spent()
    pending: tuple[str, ...] = ()


@attrs.frozen(repr=False)
class Held(Value):
    """The model was not asked: a person has to agree to the request, and is to be asked later."""


@attrs.frozen(repr=False)
class Stopped(Value):
    """The turn cannot go on: cancelled, denied as a whole, or failed."""

    why: Why
    detail: str = ""
    limit: str = ""


Event: TypeAlias = Started | Replied | ToolsSettled | Held | Stopped
EVENTS = (Started, Replied, ToolsSettled, Held, Stopped)


# ---- effects ----------------------------------------------------------------------------


@attrs.frozen(repr=False)
class AskModel(Value):
    """Ask the model; ``round`` counts from 0.

    ``notice`` is what the host has to tell it first, as a part of the conversation; ``warning``
    what it tells it of a limit, in this request alone: it would be wrong in those of later turns.
    """

    round: int
    notice: str = ""
    warning: str = ""


@attrs.frozen(repr=False)
class RunTools(Value):
    """Run these calls, all of one reply; ``round`` is that of the reply."""

    call_ids: tuple[str, ...]
    round: int


@attrs.frozen(repr=False)
class Pause(Value):
    """Keep the turn as it is until these calls are answered; settling them continues from this state.

    Without calls it is the request to the model that waits; its reply continues from this state.
    """

    call_ids: tuple[str, ...]


@attrs.frozen(repr=False)
class Done(Value):
    """End the turn. ``close`` are calls that still need a result; ``limit`` the one reached."""

    why: Why
    detail: str = ""
    limit: str = ""
    close: tuple[str, ...] = ()


Effect: TypeAlias = AskModel | RunTools | Pause | Done


@attrs.frozen(repr=False)
class State(Value):
    """How far a turn is."""

    limits: Limits
    model_calls: int = 0
    tool_rounds: int = 0
    open_calls: tuple[tuple[str, str], ...] = ()
    rounds_seen: tuple[str, ...] = ()
    asks: int = 0
    denials: int = 0
    repairs: int = 0
    done: bool = False

    def progress(self) -> dict[str, Json]:
        """Return everything but the limits, as JSON."""
        return {name: value for name, value in attrs.asdict(self, recurse=False).items() if name != "limits"}

    @classmethod
    def resumed(cls, limits: Limits, progress: Mapping[str, Any]) -> State:
        """Return the state that *progress* tells, under *limits*."""
        # A turn that another version has begun may tell more, or less.
        kept = {name: value for name, value in progress.items() if name in attrs.fields_dict(cls)}
        kept["open_calls"] = tuple((str(id), str(signature)) for id, signature in progress["open_calls"])
        kept["rounds_seen"] = tuple(str(seen) for seen in progress["rounds_seen"])
        return cls(limits, **kept)


def step(state: State, event: Event) -> tuple[State, Effect]:
    """Return the state after *event* and what to do now. Raises ValueError after Done."""
    if state.done:
        raise ValueError("the turn is over")
    match event:
        case Started():
            return _ask(state)
        case Replied():
            return _replied(state, event)
        case ToolsSettled():
            return _settled(state, event)
        case Held():
            return state, Pause(())
        case Stopped(why, detail, limit):
            return _end(state, Done(why, detail, limit))
        case _:
            assert_never(event)


def _ask(state: State, notice: str = "", warning: str = "") -> tuple[State, Effect]:
    if state.model_calls >= state.limits.model_calls:
        return _limit(state, "model_calls", state.limits.model_calls)
    return attrs.evolve(state, model_calls=state.model_calls + 1), AskModel(state.model_calls, notice, warning)


def _replied(state: State, event: Replied) -> tuple[State, Effect]:
    if not event.calls:
        return _answered(state, event)
    state = attrs.evolve(state, open_calls=event.calls)
    if (over := _overspent(state.limits, event.spent)) is not None:
        return _limit(state, *over)
    if state.tool_rounds >= state.limits.tool_rounds:
        return _limit(state, "tool_rounds", state.limits.tool_rounds)
    after = attrs.evolve(state, tool_rounds=state.tool_rounds + 1)
    return after, RunTools(tuple(id for id, _ in event.calls), state.model_calls - 1)


def _answered(state: State, event: Replied) -> tuple[State, Effect]:
    if not event.paused and not event.problems:
        return _end(state, Done(Why.COMPLETED))
    why = "; ".join(event.problems)
    if not event.paused and state.repairs >= state.limits.repairs:
        return _end(state, Done(Why.INVALID_OUTPUT, why))
    if (over := _overspent(state.limits, event.spent)) is not None:
        return _limit(state, *over)
    if event.paused:
        return _ask(state)
    return _ask(attrs.evolve(state, repairs=state.repairs + 1), REPAIR.format(why))


def _settled(state: State, event: ToolsSettled) -> tuple[State, Effect]:
    if event.pending:
        return state, Pause(event.pending)
    seen = _signature(state.open_calls, event.outcomes)
    state = attrs.evolve(
        state,
        open_calls=(),
        rounds_seen=(*state.rounds_seen, seen),
        asks=state.asks + event.asks,
        denials=state.denials + sum(outcome.denied for outcome in event.outcomes),
    )
    if event.unanswered:
        return _end(state, Done(Why.DENIED, "; ".join(event.unanswered)))
    if any(outcome.ends_turn for outcome in event.outcomes):
        return _end(state, Done(Why.DENIED, "a policy ended the turn"))
    if any(outcome.waits for outcome in event.outcomes):
        return _end(state, Done(Why.WAITING))
    if event.outcomes and all(outcome.handled for outcome in event.outcomes):
        return _end(state, Done(Why.HANDLED))
    if state.asks > state.limits.asks:
        return _limit(state, "asks", state.limits.asks)
    if state.denials > state.limits.denials:
        return _limit(state, "denials", state.limits.denials)
    if _goes_in_circles(state.rounds_seen, state.limits.repeats):
        return _limit(state, "repeats", state.limits.repeats)
    if (over := _overspent(state.limits, event.spent)) is not None:
        return _limit(state, *over)
    return _ask(state, warning=_warning(state, event.spent))


def _warning(state: State, spent: Spent) -> str:
    """Return what the model has to know of limits before the next request."""
    if state.tool_rounds >= state.limits.tool_rounds or state.model_calls + 1 >= state.limits.model_calls:
        return LAST_ROUND
    nearly = attrs.evolve(spent, elapsed_s=spent.elapsed_s / NEARLY, usage=_scaled(spent.usage, 1 / NEARLY))
    over = _overspent(state.limits, nearly)
    return "" if over is None else NEARLY_SPENT.format(_WORDS[over[0]])


def _scaled(usage: Usage, factor: float) -> Usage:
    cost = None if usage.cost_usd is None else usage.cost_usd * factor
    return Usage(input=int(usage.total * factor), cost_usd=cost)


def _signature(calls: tuple[tuple[str, str], ...], outcomes: tuple[Outcome, ...]) -> str:
    results = {outcome.call_id: outcome.signature for outcome in outcomes}
    return "\n".join(sorted(f"{signature} {results.get(id, '')}" for id, signature in calls))


def _goes_in_circles(rounds: tuple[str, ...], repeats: int) -> bool:
    """Whether the last rounds were the same one, or two in turn, with the same results."""
    if repeats <= 0:
        return False
    for period in (1, 2):
        last = rounds[-period * repeats :]
        if len(last) == period * repeats and last == last[:period] * repeats:
            return True
    return False


def _overspent(limits: Limits, spent: Spent) -> tuple[str, float] | None:
    if limits.wall_s is not None and spent.elapsed_s >= limits.wall_s:
        return "wall_s", limits.wall_s
    if limits.tokens is not None and spent.usage.total >= limits.tokens:
        return "tokens", limits.tokens
    if limits.cost_usd is not None and (spent.usage.cost_usd or 0.0) >= limits.cost_usd:
        return "cost_usd", limits.cost_usd
    return None


def _limit(state: State, name: str, value: float) -> tuple[State, Effect]:
    return _end(state, Done(Why.LIMIT, f"limit '{name}' reached ({value:g})", name))


def _end(state: State, done: Done) -> tuple[State, Effect]:
    close = tuple(id for id, _ in state.open_calls)
    return attrs.evolve(state, open_calls=(), done=True), attrs.evolve(done, close=close) if close else done
