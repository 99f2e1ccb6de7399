"""A person's answer to a question of a tool. Never an approval of anything."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias, cast

import attrs

from pluggent_hookspecs._frozen import EMPTY, Json, freeze_object
from pluggent_hookspecs._value import Value

__all__ = ["Accepted", "Cancelled", "Declined", "Elicited"]


def _names(content: object) -> str:
    # A person's input stays out of logs and tracebacks.
    names = map(str, cast("Mapping[str, Json]", content)) if isinstance(content, Mapping) else (type(content).__name__,)
    return f"<{', '.join(names) or 'nothing'}>"


@attrs.frozen(repr=False)
class Accepted(Value):
    """The person answered. ``content`` fits the schema, with its defaults filled in.

    >>> Accepted({"city": "Oslo"}).content["city"]
    'Oslo'
    >>> Accepted({"city": "Oslo"})
    Accepted(content=<city>)
    """

    content: Mapping[str, Json] = attrs.field(default=EMPTY, converter=freeze_object, repr=_names)


@attrs.frozen(repr=False)
class Declined(Value):
    """The person said no; do not ask again. ``reason`` is in their words, if there is one."""

    reason: str = ""


@attrs.frozen(repr=False)
class Cancelled(Value):
    """No answer: no person was there, or the person left the question open. ``reason`` says which."""

    reason: str = ""


Elicited: TypeAlias = Accepted | Declined | Cancelled
"""The answer to a question."""
