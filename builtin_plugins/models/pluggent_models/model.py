"""One model as a catalog knows it, and its JSON. Values only: nothing is opened or read here."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal, TypeAlias, cast

import attrs
from pluggent_hookspecs import Value

Wire: TypeAlias = Literal["chat", "responses"]
WIRES: tuple[Wire, ...] = ("chat", "responses")
MODALITIES = ("text", "image", "pdf", "audio", "video")
RATES = ("input", "output", "cached", "cache_write", "reasoning", "input_audio", "output_audio")
_MOST_USD = 1e6
"""Dollars for a million tokens; more is a mistake."""
_MOST_TOKENS = 2**53
_MOST_CHARS = 300


@attrs.frozen(kw_only=True, repr=False)
class Cost(Value):
    """US dollars for a million tokens.

    ``cached`` and ``cache_write`` are of the input, ``reasoning`` of the output; None costs what the whole of its
    side does. ``above`` has further costs by a number of input tokens, in rising order: a request with more of
    them costs that for everything.

    >>> Cost(input=5.0, output=30.0, above=((272_000, Cost(input=10.0, output=45.0)),)).at(300_000).output
    45.0
    """

    input: float
    output: float
    cached: float | None = None
    cache_write: float | None = None
    reasoning: float | None = None
    input_audio: float | None = None
    output_audio: float | None = None
    above: tuple[tuple[int, Cost], ...] = ()

    def at(self, input_tokens: int) -> Cost:
        """Return the cost that counts for a request with so many tokens of input."""
        return next((cost for over, cost in reversed(self.above) if input_tokens > over), self)


@attrs.frozen(kw_only=True, repr=False)
class Model(Value):
    """What is known of one model; None and empty mean unknown.

    ``id`` is ``server/name``, as ``--model`` takes it. Windows are tokens: ``context`` of input and output together,
    ``max_input`` and ``max_output`` of each. ``takes`` and ``gives`` are modalities. ``efforts`` are the levels of
    ``reasoning_effort``, ``thinking_budget`` the least and the most tokens of thinking that can be asked for.
    ``wire`` is the API of OpenAI's that the server wants for it. ``cost`` was read on ``date`` at ``source``.

    >>> Model(id="openai/gpt-5", context=400_000).server
    'openai'
    """

    id: str
    name: str = ""
    context: int | None = None
    max_input: int | None = None
    max_output: int | None = None
    takes: tuple[str, ...] = ()
    gives: tuple[str, ...] = ()
    thinks: bool | None = None
    efforts: tuple[str, ...] = ()
    thinking_budget: tuple[int | None, int | None] | None = None
    tools: bool | None = None
    schema: bool | None = None
    temperature: bool | None = None
    wire: Wire | None = None
    cost: Cost | None = None
    status: str = ""
    released: str = ""
    date: str = ""
    source: str = ""

    @property
    def server(self) -> str:
        """The part of the id before the first slash."""
        return self.id.partition("/")[0]


def cost_of(value: object) -> Cost:
    """Return the cost in JSON. Raises ValueError naming every problem."""
    fields = _object(value, "cost")
    problems = [f"cost: unknown key {name!r}" for name in fields if name not in (*RATES, "above")]
    problems += [f"cost.{name} is missing" for name in ("input", "output") if name not in fields]
    rates: dict[str, Any] = {name: fields[name] for name in RATES if name in fields}
    problems += [
        f"cost.{name}: expected dollars for a million tokens, got {_shown(rate)}"
        for name, rate in rates.items()
        if not _is_number(rate, _MOST_USD)
    ]
    above: list[tuple[int, Cost]] = []
    try:
        above = list(_above(fields.get("above", [])))
    except ValueError as error:
        problems.append(str(error))
    if problems:
        raise ValueError("; ".join(problems))
    return Cost(**{name: float(rate) for name, rate in rates.items()}, above=tuple(above))


def _above(value: object) -> Iterator[tuple[int, Cost]]:
    if not isinstance(value, list | tuple):
        raise ValueError("cost.above: expected a list of [tokens, cost]")
    before = -1
    for entry in cast("list[object]", value):
        if not isinstance(entry, list | tuple) or len(cast("list[object]", entry)) != 2:  # noqa: PLR2004 (a pair)
            raise ValueError("cost.above: expected a list of [tokens, cost]")
        over, cost = cast("list[object]", entry)
        if not _is_count(over) or cast("int", over) <= before:
            raise ValueError(f"cost.above: expected rising numbers of tokens, got {_shown(over)}")
        before = cast("int", over)
        yield before, cost_of(cost)


def model_of(value: object) -> Model:
    """Return the model in JSON. Raises ValueError naming every problem.

    >>> model_of({"id": "acme/one", "context": 8192, "takes": ["text"]}).context
    8192
    """
    fields = _object(value, "a model")
    given: dict[str, Any] = {}
    problems: list[str] = []
    for name, field in fields.items():
        check = _FIELDS.get(name)
        if check is None:
            problems.append(f"unknown key {name!r}")
            continue
        try:
            given[name] = check(name, field)
        except ValueError as error:
            problems.append(str(error))
    if "id" not in fields:
        problems.append("id is missing")
    if problems:
        raise ValueError(f"{_shown(fields.get('id', 'a model'))}: {'; '.join(problems)}")
    return Model(**given)


def json_of(model: Model) -> dict[str, Any]:
    """Return the JSON of *model*, without what is unknown; ``model_of`` reads it.

    >>> json_of(Model(id="acme/one", cost=Cost(input=1.0, output=2.5)))
    {'id': 'acme/one', 'cost': {'input': 1, 'output': 2.5}}
    """
    found = {name: value for name in _FIELDS if (value := getattr(model, name)) not in (None, "", ())}
    if model.cost is not None:
        found["cost"] = _cost_json(model.cost)
    return found


def _cost_json(cost: Cost) -> dict[str, Any]:
    rates = {name: _short(rate) for name in RATES if (rate := getattr(cost, name)) is not None}
    return rates | ({"above": [[over, _cost_json(one)] for over, one in cost.above]} if cost.above else {})


def _short(rate: float) -> float | int:
    return int(rate) if rate == int(rate) else rate


# ---- the kinds of fields ----------------------------------------------------------------


def _id(name: str, value: object) -> str:
    text = _text(name, value)
    server, _, model = text.partition("/")
    if not server or not model:
        raise ValueError(f"{name}: expected SERVER/MODEL, got {_shown(value)}")
    return text


def _text(name: str, value: object) -> str:
    if not isinstance(value, str) or len(value) > _MOST_CHARS or not value.isprintable():
        raise ValueError(f"{name}: expected a short text, got {_shown(value)}")
    return value


def _tokens(name: str, value: object) -> int:
    if not _is_count(value):
        raise ValueError(f"{name}: expected a number of tokens, got {_shown(value)}")
    return cast("int", value)


def _flag(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"{name}: expected true or false, got {_shown(value)}")
    return value


def _words(name: str, value: object) -> tuple[str, ...]:
    words = cast("list[object]", value) if isinstance(value, list | tuple) else [None]
    if not all(isinstance(one, str) for one in words):
        raise ValueError(f"{name}: expected a list of words, got {_shown(words)}")
    return tuple(_text(name, one) for one in words)


def _budget(name: str, value: object) -> tuple[int | None, int | None]:
    pair = cast("list[object]", value) if isinstance(value, list | tuple) else []
    if len(pair) != 2 or not all(one is None or _is_count(one) for one in pair):  # noqa: PLR2004 (a pair)
        raise ValueError(f"{name}: expected [least, most] tokens, got {_shown(pair)}")
    return cast("tuple[int | None, int | None]", tuple(pair))


def _wire(name: str, value: object) -> Wire:
    for wire in WIRES:
        if value == wire:
            return wire
    raise ValueError(f"{name}: expected {' or '.join(WIRES)}, got {_shown(value)}")


def _cost(_: str, value: object) -> Cost:
    return cost_of(value)


_FIELDS: Mapping[str, Callable[[str, object], object]] = {
    "id": _id, "name": _text, "context": _tokens, "max_input": _tokens, "max_output": _tokens, "takes": _words,
    "gives": _words, "thinks": _flag, "efforts": _words, "thinking_budget": _budget, "tools": _flag, "schema": _flag,
    "temperature": _flag, "wire": _wire, "cost": _cost, "status": _text, "released": _text, "date": _text,
    "source": _text,
}  # fmt: skip


def _object(value: object, what: str) -> Mapping[str, object]:
    if not isinstance(value, Mapping):
        raise ValueError(f"{what}: expected an object, got {_shown(value)}")
    return cast("Mapping[str, object]", value)


def _is_number(value: object, most: float) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return 0 <= value <= most and math.isfinite(value)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MOST_TOKENS


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."  # noqa: PLR2004 (characters)
