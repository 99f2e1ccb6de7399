"""What has to be known of a model before it can be asked: a small table of data, and the words for thinking.

The API itself says the rest (``GET /v1/models``), and says so where a request does not fit a
model. Settings put entries of their own before these.
"""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Any, Literal, TypeAlias

import attrs
from pluggent_provider_http.unsendable import UnsendableError

DEFAULT_MAX_TOKENS: int = 32_000


def _positive(_: object, attribute: attrs.Attribute[int], value: int) -> None:
    if not value > 0:
        raise ValueError(f"{attribute.name}: expected more than 0, got {value!r}")


@attrs.frozen(kw_only=True)
class Model:
    """One kind of models.

    ``max_tokens`` is sent if the request has no limit: the API wants a
    number. ``thinking``: ``adaptive`` models are told how hard to try and decide themselves,
    ``budget`` ones get a number of tokens, ``none`` cannot think. ``system_turns`` says that a
    system message may stand inside the conversation. ``binds_thinking`` says that the model
    refuses thinking that comes back after a changed history, unless it is allowed to drop it.
    """

    max_tokens: int = attrs.field(default=DEFAULT_MAX_TOKENS, validator=_positive)
    thinking: Literal["adaptive", "budget", "none"] = "adaptive"
    system_turns: bool = False
    binds_thinking: bool = False


# The first pattern that matches counts. From the vendor's overview of models, November 2026.
KNOWN: tuple[tuple[str, Model], ...] = (
    ("*-3-opus*", Model(max_tokens=4_096, thinking="none")),
    ("*-3-sonnet*", Model(max_tokens=4_096, thinking="none")),
    ("*-3-haiku*", Model(max_tokens=4_096, thinking="none")),
    ("*-3-5-*", Model(max_tokens=8_192, thinking="none")),
    ("*-3-7-*", Model(thinking="budget")),
    ("*opus-4-8*", Model(system_turns=True)),
    ("*opus-4-[67]*", Model()),
    ("*sonnet-4-6*", Model()),
    ("*opus-4*", Model(thinking="budget")),
    ("*sonnet-4*", Model(thinking="budget")),
    ("*haiku-4*", Model(thinking="budget")),
    ("*opus-5-5*", Model(system_turns=True, binds_thinking=True)),
    ("*sonnet-5-5*", Model(system_turns=True, binds_thinking=True)),
    ("*fable-5-1*", Model(system_turns=True, binds_thinking=True)),
    ("*sonnet-5*", Model()),
    ("*opus-5*", Model(system_turns=True)),
    ("*haiku-5*", Model(system_turns=True)),
    ("*fable-5*", Model(system_turns=True)),
    ("*mythos-5*", Model(system_turns=True)),
)


def model_of(name: str, own: Iterable[tuple[str, Model]] = ()) -> Model:
    """Return what is known of the model *name*; the defaults for an unlisted one.

    *own* entries come first. Patterns are those of file names.

    >>> model_of("opus-4-1").thinking, model_of("opus-5").thinking, model_of("qwen3").max_tokens
    ('budget', 'adaptive', 32000)
    """
    for pattern, model in (*own, *KNOWN):
        if fnmatchcase(name, pattern):
            return model
    return Model()


# ---- thinking ---------------------------------------------------------------------------


Object: TypeAlias = dict[str, Any]

BINDING_BETA = "thinking-binding-controls-2026-08-01"

_OFF = ("none", "off")
_EFFORTS = {"minimal": "low", "low": "low", "medium": "medium", "high": "high", "xhigh": "xhigh", "max": "max"}
# Tokens for models that are given a number; 1,024 is the least that the API takes.
_BUDGETS = {"minimal": 1_024, "low": 2_048, "medium": 8_192, "high": 16_384, "xhigh": 24_576, "max": 63_999}
_LEAST = 1_024


def thinking(effort: str | None, model: Model, max_tokens: int, *, display: str, replayed: bool) -> Object:
    """Return ``thinking`` and ``output_config.effort`` of a request, as far as it has them.

    *replayed* says that earlier thinking goes back which may no longer fit what stands before it.
    Raises UnsendableError for a word that no model knows, and for a model that cannot think.
    """
    out: Object = {}
    if effort is not None:
        out = _asked(effort.lower(), model, max_tokens)
    elif replayed:
        out["thinking"] = {"type": "adaptive"}
    how = out.get("thinking")
    if how is not None and how["type"] != "disabled":
        if display:
            how["display"] = display
        if replayed:
            how["block_binding"] = {"prefix_mismatch_behavior": "drop_block"}
    return out


def _asked(effort: str, model: Model, max_tokens: int) -> Object:
    if effort not in _EFFORTS and effort not in _OFF:
        known = ", ".join((_OFF[0], *_EFFORTS))
        raise UnsendableError(f"parameters.reasoning_effort: unknown '{effort}'; known are {known}")
    if model.thinking == "none":
        if effort in _OFF:
            return {}
        raise UnsendableError("parameters.reasoning_effort: this model cannot think; leave it out")
    if effort in _OFF:
        return {"thinking": {"type": "disabled"}}
    if model.thinking == "adaptive":
        return {"thinking": {"type": "adaptive"}, "effort": _EFFORTS[effort]}
    if max_tokens <= _LEAST:
        problem = f"parameters.max_output_tokens: {max_tokens} leaves no tokens to think; set more than {_LEAST}"
        raise UnsendableError(problem)
    return {"thinking": {"type": "enabled", "budget_tokens": min(_BUDGETS[effort], max_tokens - 1)}}
