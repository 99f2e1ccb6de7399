"""What a policy may answer, and what each decide hook makes of it.

Decisions rank deny > ask > respond > allow > none; the order of plugins never matters.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Literal, TypeAlias, cast

import attrs

from pluggent_hookspecs._frozen import EMPTY, Json, freeze, freeze_object

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


@attrs.frozen
class Allow:
    """No objection. It lifts nothing unless the operator lists the plugin under ``may_allow``."""

    note: str = ""


@attrs.frozen
class Deny:
    """No. ``tell_model`` goes into the conversation, ``tell_user`` to the person.

    With ``ends_turn`` the turn ends after this batch of calls instead of going on.

    >>> Deny("not on Sundays").tell_user
    'not on Sundays'
    """

    tell_model: str
    tell_user: str = attrs.field(default=attrs.Factory(lambda self: self.tell_model, takes_self=True), kw_only=True)
    ends_turn: bool = attrs.field(default=False, kw_only=True)


Reach: TypeAlias = Literal["once", "session", "always"]
"""What an approval is good for: this very request, or the same asks about the same tool, in this session or any."""


@attrs.frozen
class Ask:
    """Only if a person agrees to exactly this request; ``tell_user`` is the question.

    ``approvers`` are who alone may agree, as names with ``*``: ids of plugins that approve, or whom
    the record names, such as ``terminal:alice`` and ``key:*``; none: everybody whom the operator
    lists. ``reach`` is the most that an approval may be good for. Of several asks about one
    request all have to be satisfied, and the narrowest reach counts.

    >>> Ask("pay 900 EUR?", approvers=("key:finance",), reach="once").reach
    'once'
    """

    tell_user: str
    tell_model: str = attrs.field(default="a person has to approve this first", kw_only=True)
    approvers: tuple[str, ...] = attrs.field(default=(), kw_only=True, converter=_names)
    reach: Reach = attrs.field(default="always", kw_only=True, validator=attrs.validators.in_(REACHES))


@attrs.frozen
class Approval:
    """An answer to an ask: whether it is agreed to, for what that is good, and why.

    With ``where`` an approval beyond this request covers only calls whose arguments fit: a
    pattern for each name. In a pattern ``*`` stands for anything but ``/``, ``**`` for anything, two
    of them at most. Stars fit texts alone, of 4,096 characters at most, without ``..`` between
    slashes; a text has to fit as it is, decoded, and in Unicode's NFKC. ``by`` is the person's name
    for the record; it counts from the application's own approver alone.
    """

    agreed: bool = attrs.field(validator=attrs.validators.instance_of(bool))
    reach: Reach = attrs.field(default="once", validator=attrs.validators.in_(REACHES))
    reason: str = attrs.field(default="", validator=attrs.validators.instance_of(str))
    where: Mapping[str, str] = attrs.field(default=cast("Mapping[str, str]", EMPTY), converter=_patterns, kw_only=True)
    by: str = attrs.field(default="", validator=attrs.validators.instance_of(str), kw_only=True)


@attrs.frozen
class Respond:
    """Answer with a value that already exists instead of executing: a cache, a stub.

    ``value`` is what the operation would have returned: ToolOutput or str for a tool call,
    ModelResponse or str for a model request, Message or str for an input. It passes the
    result hooks, needs a grant of the operator (``may_respond``) unless the tool is the
    plugin's own, and never answers what another policy denied or asked about.
    """

    value: object
    note: str = attrs.field(default="", kw_only=True)


@attrs.frozen
class Window:
    """What ``transform_delta`` lets be shown: ``show``, and later more.

    ``keep`` is how many characters at the end of ``event.text`` the plugin wants to see again
    with what comes next. ``state`` comes back as ``event.state``.
    """

    show: str
    keep: int = attrs.field(default=0, kw_only=True)
    state: Json = attrs.field(default=None, kw_only=True, converter=freeze)


Decision: TypeAlias = Allow | Deny | Ask | Respond


@attrs.frozen
class Answers:
    """One row of the table of what a decide hook may answer and what then happens."""

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
        "decide_memory_write": Answers(_RESULT, "nothing is written; the caller gets Denied"),
        "decide_memory_read": Answers(_RESULT, "nothing is read; the caller gets Denied"),
        "decide_question": Answers(frozenset({Allow, Deny}), "nobody is asked; the tool gets Denied"),
    }
)
"""For each decide hook: the answers it may give and what they do. Any other answer is a deny."""
