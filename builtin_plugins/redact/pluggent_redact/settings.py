"""The settings under ``[plugins.pluggent-redact]``, checked when they are read."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import attrs
from pluggent_hookspecs.secrets import Secret

from pluggent_redact.patterns import pattern
from pluggent_redact.shapes import SHAPES

KINDS = tuple(dict.fromkeys(one.kind for one in SHAPES))
MOST_PATTERNS = 50
MOST_SECRETS = 100


def _several(value: Iterable[Any]) -> tuple[Any, ...]:
    if isinstance(value, str):
        raise TypeError(f"expected a list, got the text {value!r}; write [{value!r}]")
    return tuple(value)


def _kind(_: object, field: attrs.Attribute[Any], value: str) -> None:
    if not re.fullmatch(r"[a-z][a-z0-9-]{0,39}", value):
        raise ValueError(f"{field.name}: {value!r} is not a kind: up to 40 of a-z, 0-9 and -, a letter first")


def _most(most: int) -> Any:
    def check(_: object, field: attrs.Attribute[Any], value: tuple[object, ...]) -> None:
        if len(value) > most:
            raise ValueError(f"{field.name}: {len(value)} are too many; there may be {most}")

    return check


def _kinds(_: object, field: attrs.Attribute[Any], value: tuple[str, ...]) -> None:
    unknown = [kind for kind in value if kind not in KINDS]
    if unknown:
        raise ValueError(f"{field.name}: unknown {', '.join(map(repr, unknown))}; there are {', '.join(KINDS)}")


@attrs.frozen(kw_only=True)
class PatternSettings:
    """A pattern of your own: what matches ``match`` becomes ``[redacted:kind]``."""

    kind: str = attrs.field(validator=_kind)
    match: str
    ignore_case: bool = attrs.field(default=False, validator=attrs.validators.instance_of(bool))

    def __attrs_post_init__(self) -> None:
        try:
            pattern(self.kind, self.match, ignore_case=self.ignore_case)
        except ValueError as error:
            raise ValueError(f"match: {error}") from error


@attrs.frozen(kw_only=True)
class RedactSettings:
    """What counts as a secret; every field has a default.

    >>> RedactSettings(off=("url-password",)).off
    ('url-password',)
    """

    secrets: tuple[Secret, ...] = attrs.field(default=(), converter=_several, validator=_most(MOST_SECRETS))
    """Their values are hidden wherever they stand, in JSON, in URLs and in base64 too."""
    patterns: tuple[PatternSettings, ...] = attrs.field(default=(), converter=_several, validator=_most(MOST_PATTERNS))
    """Patterns of your own: { kind, match, ignore_case }."""
    off: tuple[str, ...] = attrs.field(default=(), converter=_several, validator=_kinds)
    """Kinds of secrets that are not looked for."""
    fingerprint: Secret | None = None
    """With this key the replacement ends in 16 hexadecimal digits, the same for the same secret."""
