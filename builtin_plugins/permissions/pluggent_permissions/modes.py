"""Three ready tables of defaults, from the most careful to the least. Data.

Mode by effect, as in systems that sort tools into categories: an observer looks and remembers,
an assistant asks before what cannot be undone, something autonomous is asked nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from pluggent_hookspecs import Effect

PURE = "pure"
UNDECLARED = "undeclared"
OTHER = "other"
OPERATIONS = ("model_request", "memory_read", "memory_write")
"""What besides tool calls is decided about; each can have a default."""

_LOOKS = (Effect.FILESYSTEM_READ, Effect.NETWORK_READ, Effect.MEMORY, PURE)
_CHANGES = (Effect.FILESYSTEM_WRITE, Effect.NETWORK_WRITE, Effect.MESSAGING)
_CANNOT_BE_UNDONE = (Effect.SHELL, Effect.HARDWARE, Effect.DESTRUCTIVE, Effect.SPEND, UNDECLARED, OTHER)


def _table(looks: str, changes: str, cannot_be_undone: str) -> Mapping[str, str]:
    groups = ((_LOOKS, looks), (_CHANGES, changes), (_CANNOT_BE_UNDONE, cannot_be_undone))
    return MappingProxyType({str(effect): decision for effects, decision in groups for effect in effects})


MODES: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "observer": _table("allow", "deny", "deny"),
        "assistant": _table("allow", "allow", "ask"),
        "autonomous": _table("allow", "allow", "allow"),
    }
)
"""Defaults by mode; names are read without regard to case, and an unknown one is an error."""
