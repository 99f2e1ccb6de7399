"""What a settings class says of its fields: the text that stands below each field in the source.

The classes themselves know nothing of it. Where there is no source, there are no texts.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator, Mapping
from itertools import pairwise


def field_docs(settings: type) -> Mapping[str, str]:
    """Return {field: its text on one line} of *settings* and the classes it inherits from.

    >>> from pluggent_host.settings import Limits
    >>> field_docs(Limits)["repeats"][:21]
    'Identical calls after'
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
