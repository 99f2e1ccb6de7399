"""What a settings class, an attrs class or a dataclass, says of its fields.

Their texts are those that stand below each field in the source; where there is no source, there are none.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import textwrap
import typing
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any, NamedTuple

import attrs
from pluggent_hookspecs.secrets import Secret


class Field(NamedTuple):
    """One field of a settings class. ``default`` is None where ``required``, or where that is the default."""

    name: str
    type: Any
    required: bool
    default: Any
    about: str
    metadata: Mapping[str, Any]

    @property
    def is_secret(self) -> bool:
        """Whether it holds a secret, or may."""
        return self.type is Secret or Secret in typing.get_args(self.type)


def fields_of(settings: type) -> Iterator[Field]:
    """Yield the fields of *settings*, an attrs class or a dataclass, in their order."""
    docs = field_docs(settings)
    try:
        types = typing.get_type_hints(settings)
    except (NameError, TypeError):
        types = {}  # types of the author's own that stand nowhere at run time
    for one in attrs.fields(settings) if attrs.has(settings) else dataclasses.fields(settings):
        if one.init:
            required, default = _default(one)
            wanted = types.get(one.name, one.type)
            yield Field(one.name, wanted, required, default, docs.get(one.name, ""), one.metadata)


def _default(one: Any) -> tuple[bool, Any]:
    """Return whether the field *one* is required, and its default."""
    factory: Any = getattr(one, "default_factory", dataclasses.MISSING)  # a dataclass's
    if isinstance(one.default, attrs.Factory):  # type: ignore[arg-type]
        factory = None if one.default.takes_self else one.default.factory
    elif not _is_nothing(one.default):
        return False, one.default
    if _is_nothing(factory):
        return True, None
    return False, None if factory is None else factory()


def _is_nothing(default: object) -> bool:
    return default is attrs.NOTHING or default is dataclasses.MISSING


def field_docs(settings: type) -> Mapping[str, str]:
    """Return {field: its text on one line} of *settings* and the classes it inherits from.

    >>> from pluggent_host.settings import Limits
    >>> field_docs(Limits)["model_calls"]
    'Calls of the model in one turn.'
    """
    found: dict[str, str] = {}
    for one in reversed(settings.__mro__[:-1]):
        found |= dict(_texts(one))
    return found


def _texts(one: type) -> Iterator[tuple[str, str]]:
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(one)))
    except (OSError, TypeError, SyntaxError):
        return
    body = tree.body[0].body if tree.body and isinstance(tree.body[0], ast.ClassDef) else []
    for field, text in pairwise(body):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(text, ast.Expr):
            value = text.value
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                yield field.target.id, " ".join(value.value.split())
