"""What has to be known of a model before it can be asked: a small table of data, and the words for thinking.

The API itself says the rest (``GET /models``), and says so where a request does not fit a model. Settings put
entries of their own before these.
"""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Any, Literal, TypeAlias

import attrs
from pluggent_provider_http.unsendable import UnsendableError

Object: TypeAlias = dict[str, Any]
Level: TypeAlias = Literal["MINIMAL", "LOW", "MEDIUM", "HIGH"]

_LEVELS: tuple[Level, ...] = ("MINIMAL", "LOW", "MEDIUM", "HIGH")
_OFF = ("none", "off")
# The level, and the tokens for models that are given a number.
_EFFORTS: dict[str, tuple[Level, int]] = {
    "minimal": ("MINIMAL", 512),
    "low": ("LOW", 2_048),
    "medium": ("MEDIUM", 8_192),
    "high": ("HIGH", 16_384),
    "xhigh": ("HIGH", 24_576),
    "max": ("HIGH", 32_768),
}


def _budget(value: Iterable[int]) -> tuple[int, int]:
    least, most = value
    return least, most


def _check_budget(_: object, attribute: attrs.Attribute[Any], value: tuple[int, int]) -> None:
    if not 0 <= value[0] <= value[1]:
        raise ValueError(f"{attribute.name}: expected the least and the most tokens, such as [128, 32768], got {value}")


def _levels(value: Iterable[Level]) -> tuple[Level, ...]:
    return tuple(value)


@attrs.frozen(kw_only=True)
class Model:
    """One kind of models.

    ``thinking``: ``level`` models are told how hard to try, by one of ``levels``; ``budget`` ones get a number of
    tokens, least and most in ``budget``; ``none`` cannot think. ``can_stop``: thinking can be switched off.
    ``summarizes`` says that the model is known to send summaries of its thinking. ``signs`` says that the model
    refuses calls of its own without a signature. ``media_results``: results of tools may hold images.
    ``caches``: the vendor keeps explicit caches for it.
    """

    thinking: Literal["level", "budget", "none"] = "level"
    levels: tuple[Level, ...] = attrs.field(default=_LEVELS, converter=_levels)
    budget: tuple[int, int] = attrs.field(default=(1, 24_576), converter=_budget, validator=_check_budget)
    can_stop: bool = False
    summarizes: bool = False
    signs: bool = True
    media_results: bool = True
    caches: bool = True


_NO_THINKING = Model(thinking="none", signs=False, media_results=False)
_FLASH_2 = Model(thinking="budget", can_stop=True, summarizes=True, signs=False, media_results=False)

# The first pattern that matches counts. From the vendor's pages on thinking, November 2026.
KNOWN: tuple[tuple[str, Model], ...] = (
    ("gemini-1*", _NO_THINKING),
    ("gemini-2.0*", _NO_THINKING),
    ("gemma-*", _NO_THINKING),
    ("*-tts*", _NO_THINKING),
    ("gemini-2.5*-image*", _NO_THINKING),
    ("gemini-2.5-pro*", attrs.evolve(_FLASH_2, budget=(128, 32_768), can_stop=False)),
    ("gemini-2.5-flash-lite*", attrs.evolve(_FLASH_2, budget=(512, 24_576))),
    ("gemini-2*", _FLASH_2),
    ("gemini-3-pro*", Model(levels=("LOW", "HIGH"), summarizes=True)),
    ("gemini-3*-pro*", Model(levels=("LOW", "MEDIUM", "HIGH"), summarizes=True)),
    ("gemini-3*", Model(summarizes=True)),
    ("gemini-[4-9]*", Model(levels=("LOW", "MEDIUM", "HIGH"), summarizes=True, caches=False)),
)


def model_of(name: str, own: Iterable[tuple[str, Model]] = ()) -> Model:
    """Return what is known of the model *name*; the defaults for an unlisted one.

    *own* entries come first. Patterns are those of file names.

    >>> model_of("gemini-2.5-pro").thinking, model_of("gemini-3-flash").thinking, model_of("gemini-2.0-flash").thinking
    ('budget', 'level', 'none')
    """
    for pattern, model in (*own, *KNOWN):
        if fnmatchcase(name, pattern):
            return model
    return Model()


def thinking(effort: str | None, model: Model, *, show: bool) -> Object:
    """Return the ``thinkingConfig`` of a request, empty if there is nothing to say.

    Raises UnsendableError for a word that no model knows, and for what the model cannot do.

    >>> thinking("low", model_of("gemini-3-flash"), show=True)
    {'thinkingLevel': 'LOW', 'includeThoughts': True}
    """
    asked = {} if effort is None else _asked(effort.lower(), model)
    shows = show and model.thinking != "none" and (model.summarizes or bool(asked))
    if shows and asked.get("thinkingBudget") != 0:
        asked["includeThoughts"] = True
    return asked


def thinking_level(effort: str | None, model: Model) -> str | None:
    """Return the ``thinking_level`` of an interaction, None if there is nothing to say. Raises as ``thinking``.

    The Interactions API has no number of tokens, so models that are given one elsewhere get a level, too.

    >>> thinking_level("max", model_of("gemini-3-flash")), thinking_level("low", model_of("gemini-2.5-pro"))
    ('high', 'low')
    """
    if effort is None:
        return None
    asked = _asked(effort.lower(), attrs.evolve(model, can_stop=False) if model.can_stop else model)
    if not asked:
        return None
    return str(asked.get("thinkingLevel") or _EFFORTS[effort.lower()][0]).lower()


def _asked(effort: str, model: Model) -> Object:
    where = "parameters.reasoning_effort"
    if effort not in _EFFORTS and effort not in _OFF:
        raise UnsendableError(f"{where}: unknown '{effort}'; known are {', '.join((_OFF[0], *_EFFORTS))}")
    if model.thinking == "none":
        if effort in _OFF:
            return {}
        raise UnsendableError(f"{where}: this model cannot think; leave it out")
    if effort in _OFF:
        if model.can_stop:
            return {"thinkingBudget": 0}
        raise UnsendableError(f"{where}: this model always thinks; the least is 'minimal'")
    level, tokens = _EFFORTS[effort]
    if model.thinking == "budget":
        least, most = model.budget
        return {"thinkingBudget": min(max(tokens, least), most)}
    return {"thinkingLevel": _nearest(level, model.levels)}


def _nearest(level: Level, levels: tuple[Level, ...]) -> Level:
    """Return the level of *levels* that is *level*, else the next higher one, else the highest."""
    wanted = _LEVELS.index(level)
    higher: list[Level] = [known for known in levels if _LEVELS.index(known) >= wanted]
    return higher[0] if higher else levels[-1]
