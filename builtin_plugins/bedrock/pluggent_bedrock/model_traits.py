"""What has to be known of a model before it can be asked: a small table of data, and the words for thinking.

Converse is one API for the models of many vendors, who differ in what they take. Settings put
entries of their own before these.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Any, Literal, TypeAlias

import attrs
from pluggent_provider_http.unsendable import UnsendableError

Thinking: TypeAlias = Literal["effort", "adaptive", "budget", "reasoning_effort", "reasoning_config", "nova", "none"]


@attrs.frozen(kw_only=True)
class Model:
    """One kind of models.

    ``thinking`` is how a model is asked to think: ``effort`` in Converse's own ``outputConfig``,
    ``adaptive`` and ``budget`` as Anthropic's models, ``reasoning_effort``, ``reasoning_config`` and ``nova``
    as fields of the vendor's own; ``none`` cannot think. ``cache`` says where it takes cache points: in
    ``messages`` and the system message, or in ``all`` places, behind tools too, and for an hour.
    ``top_k`` says where the field stands, empty for a model that has none. ``system_turns`` says that
    a system message may stand inside the conversation. ``results_alone`` says what may not follow results
    in their turn: ``documents``, or ``all``; an empty reply stands between.
    """

    thinking: Thinking = "effort"
    cache: Literal["none", "messages", "all"] = "none"
    top_k: Literal["top_k", "nova", ""] = ""
    system_turns: bool = False
    results_alone: Literal["none", "documents", "all"] = "none"


_ANTHROPIC = Model(thinking="adaptive", cache="all", top_k="top_k", results_alone="documents")
_ANTHROPIC_BUDGET = attrs.evolve(_ANTHROPIC, thinking="budget")
_ANTHROPIC_PLAIN = attrs.evolve(_ANTHROPIC, thinking="none")

# The first pattern that matches counts. From the vendor's overview of models, November 2026.
KNOWN: tuple[tuple[str, Model], ...] = (
    ("*anthropic.*e-v2*", attrs.evolve(_ANTHROPIC_PLAIN, cache="none")),
    ("*anthropic.*-instant*", attrs.evolve(_ANTHROPIC_PLAIN, cache="none")),
    ("*anthropic.*-3-7-*", _ANTHROPIC_BUDGET),
    ("*anthropic.*-3-5-*", _ANTHROPIC_PLAIN),
    ("*anthropic.*-3-*", attrs.evolve(_ANTHROPIC_PLAIN, cache="none")),
    ("*anthropic.*opus-4-[678]*", _ANTHROPIC),
    ("*anthropic.*sonnet-4-6*", _ANTHROPIC),
    ("*anthropic.*opus-4*", _ANTHROPIC_BUDGET),
    ("*anthropic.*sonnet-4*", _ANTHROPIC_BUDGET),
    ("*anthropic.*haiku-4*", _ANTHROPIC_BUDGET),
    ("*anthropic.*", _ANTHROPIC),
    ("*amazon.nova-2-*", Model(thinking="nova", cache="messages", top_k="nova")),
    ("*amazon.nova-premier*", Model(thinking="none", cache="messages", top_k="nova")),
    ("*amazon.nova*", Model(thinking="none", cache="messages", top_k="nova")),
    ("*openai.gpt-oss*", Model(thinking="reasoning_effort")),
    ("*qwen.qwen3*", Model(thinking="reasoning_config")),
    ("*meta.llama*", Model(results_alone="all")),
    ("*mistral.*", Model(results_alone="all")),
    ("*writer.*", Model(results_alone="all")),
)


def model_of(name: str, own: Iterable[tuple[str, Model]] = ()) -> Model:
    """Return what is known of the model *name*, also behind a region's prefix; the defaults for an unlisted one.

    *own* entries come first. Patterns are those of file names.

    >>> model_of("us.amazon.nova-2-lite-v1:0").thinking, model_of("us.amazon.nova-micro-v1:0").cache
    ('nova', 'messages')
    """
    for pattern, model in (*own, *KNOWN):
        if fnmatchcase(name, pattern):
            return model
    return Model()


# ---- thinking ---------------------------------------------------------------------------


Object: TypeAlias = dict[str, Any]

_OFF = ("none", "off")
_EFFORTS = ("minimal", "low", "medium", "high", "xhigh", "max")
# Tokens for models that are given a number; 1,024 is the least that Anthropic's models take.
_BUDGETS = {"minimal": 1_024, "low": 2_048, "medium": 8_192, "high": 16_384, "xhigh": 24_576, "max": 63_999}
_LEAST = 1_024
_THREE = {"minimal": "low", "xhigh": "high", "max": "high"}
"""For models that know low, medium and high alone."""


def thinking(effort: str, model: Model, max_tokens: int | None) -> Mapping[str, Object]:
    """Return what says *effort* to *model*: fields of ``outputConfig`` and ``additionalModelRequestFields``.

    Raises UnsendableError for a word that no model knows, and for a model that cannot think.

    >>> thinking("high", Model(thinking="reasoning_effort"), None)
    {'additionalModelRequestFields': {'reasoning_effort': 'high'}}
    """
    effort = effort.lower()
    if effort not in (*_EFFORTS, *_OFF):
        known = ", ".join((_OFF[0], *_EFFORTS))
        raise UnsendableError(f"parameters.reasoning_effort: unknown '{effort}'; known are {known}")
    if effort in _OFF:
        return _switched_off(model)
    if model.thinking == "none":
        raise UnsendableError("parameters.reasoning_effort: this model cannot think; leave it out")
    if model.thinking == "effort":
        return {"outputConfig": {"effort": effort}}
    return {"additionalModelRequestFields": _asked(effort, model, max_tokens)}


def _switched_off(model: Model) -> Mapping[str, Object]:
    match model.thinking:
        case "adaptive" | "budget":
            return {"additionalModelRequestFields": {"thinking": {"type": "disabled"}}}
        case "nova":
            return {"additionalModelRequestFields": {"reasoningConfig": {"type": "disabled"}}}
        case "none":
            return {}
        case _:
            raise UnsendableError(
                "parameters.reasoning_effort: thinking cannot be switched off for this model; leave it out"
            )


def _asked(effort: str, model: Model, max_tokens: int | None) -> Object:
    match model.thinking:
        case "adaptive":
            return {
                "thinking": {"type": "adaptive"},
                "output_config": {"effort": _THREE["minimal"] if effort == "minimal" else effort},
            }
        case "budget":
            return {"thinking": {"type": "enabled", "budget_tokens": _budget(effort, max_tokens)}}
        case "nova":
            level = _THREE.get(effort, effort)
            return {"reasoningConfig": {"type": "enabled", "maxReasoningEffort": level}}
        case "reasoning_config":
            return {"reasoning_config": _THREE.get(effort, effort)}
        case _:
            return {"reasoning_effort": _THREE.get(effort, effort)}


def _budget(effort: str, max_tokens: int | None) -> int:
    if max_tokens is None:
        return _BUDGETS[effort]
    if max_tokens <= _LEAST:
        problem = f"parameters.max_output_tokens: {max_tokens} leaves no tokens to think; set more than {_LEAST}"
        raise UnsendableError(problem)
    return min(_BUDGETS[effort], max_tokens - 1)
