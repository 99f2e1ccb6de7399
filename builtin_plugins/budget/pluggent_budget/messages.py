"""Messages for people and models: refusals, and warnings near a limit. Pure."""

from __future__ import annotations

from pathlib import Path

from pluggent_hookspecs import Deny, ReserveEvent

from pluggent_budget.accounts import Account, Shortage, Standing
from pluggent_budget.amounts import UNITS, WALL
from pluggent_budget.periods import Calendar
from pluggent_budget.settings import DIMENSIONS

SECTION = "[plugins.pluggent-budget]"
NOTE = "Note of the host, not of the person:"
"""How a warning to the model begins."""
BEHIND_S = 3600.0
"""From when on it is reported that a clock was put back."""
DAY_S = 86_400.0
SHOWN = 80
"""Characters of one value in a sentence."""
LONGEST_PATH = 4_096
"""Characters of a path: a cut one is of no use."""


def no_price(event: ReserveEvent, account: Account) -> Deny:
    """Return the refusal of a model with an unknown price."""
    return Deny(
        "This was not done: the budget is in money, and the price of this model is not known.",
        tell_user=(
            f"{plain(event.model)} has no price, and the limit {account.rule.about} is in dollars: put its price into"
            f' {SECTION} prices or price_file, or say what to do without one: unknown_price = "free" or a price'
        ),
    )


def no_catalog(why: object) -> Deny:
    """Return the refusal of a model while its price cannot be looked up."""
    return Deny(
        "This was not done: the budget is in money, and the price of this model cannot be looked up now.",
        tell_user=f"not done, because the budget is in dollars and the price of the model cannot be looked up: {why}",
    )


def no_ledger(why: object) -> Deny:
    """Return the refusal of anything while the ledger cannot be used."""
    return Deny(
        "This was not done: whether the budget allows it cannot be told now.",
        tell_user=f"not done, because whether the budget allows it cannot be told: {why}",
    )


def too_little(shortage: Shortage, calendar: Calendar) -> Deny:
    """Return the refusal of what does not fit into an account any more."""
    account, unit = shortage.account, UNITS[shortage.unit]
    figures = _figures(shortage)
    over = f"The limit of {unit.words} {account.rule.about}"
    return Deny(
        f"This was not done: {_lowered(over)} does not allow it: {figures}. {_resets(account, calendar)}"
        " Do not try it again; answer with what you have.",
        tell_user=f"{over}{_of_whom(account)} does not allow this: {figures}. {_resets(account, calendar)}",
    )


def warning(account: Account, unit: int, standing: Standing, calendar: Calendar) -> str:
    """Return the note for the model while a limit is near.

    >>> from pluggent_budget.accounts import Facts, rule_of
    >>> from pluggent_budget.amounts import Amount
    >>> from pluggent_budget.settings import BudgetSettings, Limit
    >>> rule = rule_of(Limit(per=("turn",), tokens=1000), BudgetSettings())
    >>> account = rule.account(Facts("t1", "s1"), Calendar("UTC"), 0.0)
    >>> warning(account, 0, Standing(Amount(820)), Calendar("UTC"))
    '820 of 1,000 tokens per turn are used up, 180 left. It ends with this turn.'
    """
    cap = dict(account.rule.caps)[unit]
    taken = standing.used[unit] + standing.held[unit]
    of, figure = UNITS[unit].shown(cap), UNITS[unit].figure
    return (
        f"{figure(taken)} of {of} {account.rule.about} are used up, {figure(max(0, cap - taken))} left."
        f" {_resets(account, calendar)}"
    )


def behind(seconds: float, path: Path) -> str:
    """Return what is said of a clock that is behind the latest moment in the ledger at *path*.

    >>> behind(7200, Path("l.db"))[:83]
    'the clock is 2 hours behind the latest moment that the ledger l.db knows: it counts'
    """
    count, unit = (seconds / DAY_S, "day") if seconds >= DAY_S else (seconds / 3600, "hour")
    ledger = plain(str(path), LONGEST_PATH)
    return (
        f"the clock is {count:,.0f} {unit}{'s' * (round(count) != 1)} behind the latest moment that the ledger"
        f" {ledger} knows: it counts in that moment's day and month until the clock has come to it."
        " If the clock was wrong before and is right now: pluggent budget --accept-clock"
    )


def _figures(shortage: Shortage) -> str:
    unit, standing = shortage.unit, shortage.standing
    cap = dict(shortage.account.rule.caps)[unit]
    of, figure = UNITS[unit].shown(cap), UNITS[unit].figure
    used, held = standing.used[unit], standing.held[unit]
    running = "taken by" if unit == WALL else "reserved for"
    needs = f"; this call may need {figure(shortage.wanted)}" if unit != WALL else ""
    return (
        f"of {of}, {figure(used)} used, {figure(held)} {running} calls that are running,"
        f" {figure(max(0, cap - used - held))} left{needs}"
    )


def _resets(account: Account, calendar: Calendar) -> str:
    if account.ends is not None:
        return f"It begins anew at {calendar.shown(account.ends)}."
    for name in ("turn", "session"):
        if name in account.rule.limit.per:
            return f"It ends with this {name}."
    return "It does not begin anew by itself."


def _of_whom(account: Account) -> str:
    """Return the dimensions of the account besides turn and session."""
    named = [name for name in DIMENSIONS if name in account.rule.limit.per and name not in ("turn", "session")]
    if not named:
        return ""
    values = account.key[-len(named) :]
    about = (f"{name} {plain(str(value))}" for name, value in zip(named, values, strict=True))
    return f" ({', '.join(about)})"


def plain(text: str, most: int = SHOWN) -> str:
    r"""Return *text*, which may come from anywhere, short and without control characters.

    >>> plain("ann\x1b[2J"), plain("")
    ('ann\\x1b[2J', '(none)')
    """
    cut = text if len(text) <= most else f"{text[:most]}…"
    escaped = (one if one.isprintable() else one.encode("unicode_escape").decode("ascii") for one in cut)
    return "".join(escaped) or "(none)"


def _lowered(sentence: str) -> str:
    return sentence[:1].lower() + sentence[1:]
