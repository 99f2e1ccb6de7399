"""What a policy may answer, and what each decide hook makes of it.

Decisions rank deny > ask > respond > allow > none; the order of plugins never matters.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TypeAlias

import attrs

from pluggent_hookspecs._frozen import Json, freeze


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


@attrs.frozen
class Ask:
    """Only if a person agrees to exactly this request; ``tell_user`` is the question."""

    tell_user: str
    tell_model: str = attrs.field(default="a person has to approve this first", kw_only=True)


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
        "decide_plan": Answers(_RESULT, "the plan is not run; the user reads tell_user"),
        "decide_memory_write": Answers(_RESULT, "nothing is written; the caller gets Denied"),
        "decide_memory_read": Answers(_RESULT, "nothing is read; the caller gets Denied"),
        "decide_resource": Answers(_RESULT, "nothing is read; the caller gets Denied"),
    }
)
"""For each decide hook: the answers it may give and what they do. Any other answer is a deny."""
