"""The answers of policies, and their meaning in each decide hook.

Decisions rank deny > ask > respond > allow > none; the order of plugins never matters.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Literal, TypeAlias, cast

import attrs

from pluggent_hookspecs._frozen import EMPTY, Json, freeze, freeze_object
from pluggent_hookspecs._value import Value

__all__ = ["ANSWERS", "Allow", "Answers", "Approval", "Ask", "Decision", "Deny", "Reach", "Respond", "Window"]

REACHES = ("once", "session", "always")


def _names(given: Iterable[str]) -> tuple[str, ...]:
    if isinstance(given, str):
        raise TypeError(f"approvers takes several names: approvers=({given!r},)")
    return tuple(given)


_MOST_STARS = 2
"""More would take long to compare with a long text."""


def _patterns(given: Mapping[str, str]) -> Mapping[str, str]:
    for name, pattern in given.items():
        if len(re.findall(r"\*+", pattern)) > _MOST_STARS:
            raise ValueError(f"where: the pattern of {name!r} has more than {_MOST_STARS} stars")
    return cast("Mapping[str, str]", freeze_object(given))


@attrs.frozen(repr=False)
class Allow(Value):
    """No objection. It lifts nothing unless the operator lists the plugin under ``may_allow``."""

    note: str = ""


@attrs.frozen(repr=False)
class Deny(Value):
    """No. The model reads ``tell_model``, the person ``tell_user``.

    With ``ends_turn`` the turn ends after this batch of calls.

    >>> Deny("not on Sundays").tell_user
    'not on Sundays'
    """

    tell_model: str
    tell_user: str = attrs.field(default=attrs.Factory(lambda self: self.tell_model, takes_self=True), kw_only=True)
    ends_turn: bool = attrs.field(default=False, kw_only=True)


Reach: TypeAlias = Literal["once", "session", "always"]
"""The reach of an approval: this request alone, or the same asks about the same tool, in this session or in any."""


@attrs.frozen(repr=False)
class Ask(Value):
    """Only if a person agrees to exactly this request; ``tell_user`` is the question.

    Only ``approvers`` may agree: names with ``*``, ids of approving plugins or names in the record, such as
    ``terminal:alice`` and ``key:*``; empty: everyone whom the operator lists. ``reach`` is the widest reach of
    an approval. Several asks about one request all have to be satisfied, and the narrowest reach counts.

    >>> Ask("pay 900 EUR?", approvers=("key:finance",), reach="once").reach
    'once'
    """

    tell_user: str
    tell_model: str = attrs.field(default="a person has to approve this first", kw_only=True)
    approvers: tuple[str, ...] = attrs.field(default=(), kw_only=True, converter=_names)
    reach: Reach = attrs.field(default="always", kw_only=True, validator=attrs.validators.in_(REACHES))


@attrs.frozen(repr=False)
class Approval(Value):
    """An answer to an ask: agreed or not, its reach, and a reason.

    The model reads the reason of a refusal, as far as the policies on input let it pass.
    With ``where`` an approval beyond this request covers only calls with arguments that fit: {name:
    pattern}. In a pattern ``*`` matches anything but ``/``, ``**`` anything, two of them at most. Stars match
    text alone, of 4,096 characters at most, without ``..`` between slashes; the text has to match as it
    is, decoded, and in Unicode's NFKC. ``by`` is the person's name for the record, from the application's
    own approver alone.
    """

    agreed: bool = attrs.field(validator=attrs.validators.instance_of(bool))
    reach: Reach = attrs.field(default="once", validator=attrs.validators.in_(REACHES))
    reason: str = attrs.field(default="", validator=attrs.validators.instance_of(str))
    where: Mapping[str, str] = attrs.field(default=cast("Mapping[str, str]", EMPTY), converter=_patterns, kw_only=True)
    by: str = attrs.field(default="", validator=attrs.validators.instance_of(str), kw_only=True)


@attrs.frozen(repr=False)
class Respond(Value):
    """Answer with a value that already exists instead of executing: a cache, a stub.

    ``value`` replaces the result of the operation: ToolOutput or str for a tool call,
    ModelResponse or str for a model request, Message or str for an input. It passes the
    result hooks, needs a grant of the operator (``may_respond``) unless the tool is the
    plugin's own, and never answers a request that another policy denied or asked about.
    """

    value: object
    note: str = attrs.field(default="", kw_only=True)


@attrs.frozen(repr=False)
class Window(Value):
    """The answer of ``transform_delta``: ``show`` is shown now.

    The last ``keep`` characters of ``event.text`` come again with the next text. ``state`` comes back as
    ``event.state``.
    """

    show: str
    keep: int = attrs.field(default=0, kw_only=True)
    state: Json = attrs.field(default=None, kw_only=True, converter=freeze)


Decision: TypeAlias = Allow | Deny | Ask | Respond


@attrs.frozen(repr=False)
class Answers(Value):
    """The answers that a decide hook may give, and what they do."""

    may: frozenset[type]
    on_deny: str
    on_respond: str = "not possible here: counts as a deny"
    default: str = "allow"


_REQUEST = frozenset({Allow, Deny, Ask, Respond})
_RESULT = frozenset({Allow, Deny, Ask})

ANSWERS: Mapping[str, Answers] = MappingProxyType(
    {
        "decide_input": Answers(
            _REQUEST,
            "the model is not asked; the turn ends `denied`, the user reads tell_user",
            "the turn ends with that text; the model is not asked",
        ),
        "decide_model_request": Answers(
            _REQUEST,
            "nothing is sent; the turn ends `denied`, the user reads tell_user",
            "that reply is used; nothing is sent",
        ),
        "decide_model_response": Answers(
            _RESULT, "the reply is dropped unseen, none of its calls runs; the turn ends `denied`"
        ),
        "decide_tool_call": Answers(
            _REQUEST,
            "the call is not run; the model reads tell_model as its result",
            "that value is the result; the tool is not run",
            default="by effect: reading and declared-pure tools allow, everything else asks",
        ),
        "decide_tool_result": Answers(
            _RESULT, "the result is withheld; the model reads tell_model (the effect has happened)"
        ),
        "decide_output": Answers(_RESULT, "nothing of it is shown; the user reads tell_user"),
        "decide_embedding_request": Answers(
            _REQUEST,
            "nothing is sent; the caller gets Denied",
            "that EmbeddingResponse is used; nothing is sent",
        ),
        "decide_embedding_response": Answers(_RESULT, "the vectors are dropped; the caller gets Denied"),
        "decide_memory_write": Answers(_RESULT, "nothing is written; the caller gets Denied"),
        "decide_memory_read": Answers(_RESULT, "nothing is read; the caller gets Denied"),
        "decide_question": Answers(frozenset({Allow, Deny}), "the person is not asked; the tool gets Denied"),
    }
)
"""For each decide hook: the answers it may give and what they do. Any other answer is a deny."""
