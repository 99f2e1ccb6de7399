"""Secrets as references: read when they are used, shown by nothing."""

from __future__ import annotations

import os
from importlib import import_module
from pathlib import Path

from pluggent_hookspecs.errors import ConfigError

__all__ = ["Secret"]

_MAX_BYTES = 65_536


class Secret:
    """A reference to a secret: ``env:NAME``, ``file:PATH`` or ``keyring:SERVICE/USER``.

    Use it as the type of a setting. ``reveal()`` reads the secret each time (a rotated key
    is seen), repr and str show the reference only. In code, ``Secret.of(text)`` holds a text.

    >>> Secret("env:ACME_KEY")
    Secret('env:ACME_KEY')
    >>> Secret.of("s3cret")
    Secret('given in code')
    """

    __slots__ = ("_reference", "_value")

    _reference: str
    _value: str | None

    def __init__(self, reference: str) -> None:
        scheme, _, rest = reference.partition(":")
        if scheme not in ("env", "file", "keyring") or not rest:
            # The text may be the secret itself, so it is not repeated here.
            raise ValueError("a secret is given as env:NAME, file:PATH or keyring:SERVICE/USER, never as itself")
        self._reference = reference
        self._value = None

    @classmethod
    def of(cls, value: str) -> Secret:
        """Return a secret that holds *value*; for application code, not for files."""
        secret = cls.__new__(cls)
        secret._reference = "given in code"  # noqa: SLF001 (its own class)
        secret._value = value  # noqa: SLF001 (its own class)
        return secret

    def reveal(self) -> str:
        """Return the secret. Raises ConfigError, naming the reference, if it cannot be read."""
        if self._value is not None:
            return self._value
        scheme, _, rest = self._reference.partition(":")
        text = {"env": _from_environment, "file": _from_file, "keyring": _from_keyring}[scheme](rest)
        if not text:
            raise ConfigError(self._reference, ["the secret is empty"])
        return text

    def __repr__(self) -> str:
        return f"Secret({self._reference!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and (self._reference, self._value) == (other._reference, other._value)

    def __hash__(self) -> int:
        return hash(self._reference)

    def __reduce__(self) -> str | tuple[object, ...]:
        raise TypeError("a Secret is not pickled or copied to another process")


def _from_environment(name: str) -> str:
    try:
        return os.environ[name]
    except KeyError:
        raise ConfigError(f"env:{name}", [f"the environment variable {name} is not set"]) from None


def _from_file(name: str) -> str:
    try:
        with Path(name).expanduser().open("rb") as file:
            return file.read(_MAX_BYTES).decode().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"file:{name}", [f"cannot be read: {error.__class__.__name__}"]) from error


def _from_keyring(name: str) -> str:
    try:
        keyring = import_module("keyring")  # optional, and slow to import
    except ImportError:
        raise ConfigError(f"keyring:{name}", ["the package 'keyring' is not installed"]) from None
    service, _, user = name.partition("/")
    try:
        text: str | None = keyring.get_password(service, user)
    except Exception as error:  # each backend raises errors of its own: locked, refused, no keyring at all
        raise ConfigError(f"keyring:{name}", [f"the keyring cannot be read: {error.__class__.__name__}"]) from error
    if text is None:
        raise ConfigError(f"keyring:{name}", ["the keyring holds no such entry"])
    return text
