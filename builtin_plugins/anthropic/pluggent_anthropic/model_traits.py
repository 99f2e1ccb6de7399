"""What has to be known of a model before it can be asked. A table of data, small on purpose.

The API itself says the rest (``GET /v1/models``), and says so where a request does not fit a
model. Settings put entries of their own before these.
"""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Literal

import attrs

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
