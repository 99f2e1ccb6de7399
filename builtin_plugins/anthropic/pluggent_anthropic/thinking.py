"""How hard a model is to think, in the words of each kind of models."""

from __future__ import annotations

from typing import Any, TypeAlias

from pluggent_anthropic.media import UnsendableError
from pluggent_anthropic.model_traits import Model

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
        problem = f"parameters.max_output_tokens: {max_tokens} leaves no room to think; {_LEAST} and more do"
        raise UnsendableError(problem)
    return {"thinking": {"type": "enabled", "budget_tokens": min(_BUDGETS[effort], max_tokens - 1)}}
