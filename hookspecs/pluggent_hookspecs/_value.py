"""The base of all values: frozen classes with one repr."""

from __future__ import annotations

from typing import cast

import attrs

__all__ = ["Value"]


class Value:
    """Base of frozen attrs classes with ``repr=False``: one repr for all of them.

    attrs compiles a repr for every class, which is a quarter of what a class costs at import.

    >>> @attrs.frozen(repr=False)
    ... class Point(Value):
    ...     x: int
    ...     hidden: int = attrs.field(default=0, repr=False)
    >>> Point(1)
    Point(x=1)
    """

    __slots__ = ()

    def __repr__(self) -> str:
        shown = [
            f"{field.name}={(repr if field.repr is True else field.repr)(getattr(self, field.name))}"
            for field in attrs.fields(cast("type[attrs.AttrsInstance]", type(self)))
            if field.repr
        ]
        return f"{type(self).__name__}({', '.join(shown)})"
