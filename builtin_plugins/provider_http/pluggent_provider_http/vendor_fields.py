"""What goes into a request as the caller gave it: fields of the vendor's own, and any JSON. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, cast

from pluggent_hookspecs import Json, thaw

from pluggent_provider_http.unsendable import UnsendableError


def with_fields(vendor: str, block: dict[str, Any], more: object, own: frozenset[str], where: str) -> dict[str, Any]:
    """Return *block* with the fields *more* that the contract's ``extra`` has for *vendor*, but for *own* ones.

    Raises UnsendableError, which names *where* they stand.

    >>> with_fields("acme", {"name": "a"}, {"strict": True}, frozenset({"name"}), "extra of a tool")
    {'name': 'a', 'strict': True}
    """
    if more is None:
        return block
    if not isinstance(more, Mapping):
        raise UnsendableError(f"{where}: '{vendor}' is a table of fields")
    for name, value in cast("Mapping[str, Any]", more).items():
        if name in own:
            raise UnsendableError(f"{where}: '{name}' is already set by the provider; leave it out")
        block[name] = thaw(value)
    return block


def plain(value: Json, where: str) -> Any:
    """Return *value* as dicts and lists. Raises UnsendableError for a number that JSON cannot say."""
    if isinstance(value, float) and not math.isfinite(value):
        raise UnsendableError(f"{where} is {value}, which JSON cannot say")
    if isinstance(value, Mapping):
        return {name: plain(item, f"{where}.{name}") for name, item in value.items()}
    if isinstance(value, list | tuple):
        items = cast("Sequence[Json]", value)
        return [plain(item, f"{where}[{index}]") for index, item in enumerate(items)]
    return value
