"""Compares versions as PEP 440 says, as far as requirements on the contract and pins go.

Standard library only: `pluggent plugins` shows what does not fit, without importing a third-party package.
"""

# No __future__ import: with it NamedTuple would compile each annotation at every start.
from typing import NamedTuple


def version_fits(version: str, specifier: str) -> bool:
    """Say whether *version* satisfies *specifier*, by PEP 440; a pre-release counts as what it is.

    Releases and a, b and rc pre-releases are compared here; anything rarer by ``packaging``.
    Raises ValueError if one of them is not to be read.

    >>> version_fits("0.1.4", "==0.1.*"), version_fits("1.0", ">=1.1,<2")
    (True, False)
    """
    try:
        # A list, so that every clause is read, whatever the first one says.
        answers = [_satisfies(version, clause.strip()) for clause in specifier.split(",") if clause.strip()]
        return all(answers)
    except _BeyondUsError:
        from packaging.specifiers import SpecifierSet  # 20 ms, for a plugin with a rare requirement
        from packaging.version import Version  # the same

        return SpecifierSet(specifier).contains(Version(version), prereleases=True)


class _BeyondUsError(Exception):
    """A version or specifier outside the subset that is compared here."""


class _Version(NamedTuple):
    release: tuple[int, ...]
    pre: tuple[str, int]


_FINAL = ("~", 0)  # sorts behind "a", "b" and "rc"


def _parsed(text: str) -> _Version:
    """Read ``1.2.3`` or ``1.2rc1``; trailing zeros of a release carry no meaning."""
    end = next((at for at, letter in enumerate(text) if letter not in "0123456789."), len(text))
    digits, tail = text[:end].split("."), text[end:]
    letters = next((mark for mark in ("a", "b", "rc") if tail.startswith(mark)), "")
    number = tail[len(letters) :]
    if not all(part.isdecimal() for part in digits) or (
        tail and not (letters and number.isdecimal() and tail.isascii())
    ):
        raise _BeyondUsError(text)
    return _Version(tuple(map(int, digits)), (letters, int(number)) if tail else _FINAL)


def _key(version: _Version) -> tuple[tuple[int, ...], tuple[str, int]]:
    release = version.release
    while release and release[-1] == 0:
        release = release[:-1]
    return release, version.pre


def _satisfies(text: str, clause: str) -> bool:
    operator = clause[: len(clause) - len(clause.lstrip("=<>!~"))]
    wanted = clause[len(operator) :].strip()
    version = _parsed(text)
    if operator in ("==", "!=") and wanted.endswith(".*"):
        return _begins(version, _parsed(wanted[:-2])) == (operator == "==")
    other = _parsed(wanted)
    mine, theirs = _key(version), _key(other)
    match operator:
        case "==":
            return mine == theirs
        case "!=":
            return mine != theirs
        case ">=":
            return mine >= theirs
        case "<=":
            return mine <= theirs
        case ">":
            return mine > theirs
        case "<":
            # PEP 440: <1.0 leaves 1.0rc1 out, <1.0rc2 does not.
            return mine < theirs and (other.pre != _FINAL or version.pre == _FINAL or mine[0] != theirs[0])
        case "~=" if len(other.release) > 1:
            return mine >= theirs and _begins(version, _Version(other.release[:-1], _FINAL))
        case _:
            raise _BeyondUsError(clause)


def _begins(version: _Version, prefix: _Version) -> bool:
    if prefix.pre != _FINAL:
        raise _BeyondUsError
    length = len(prefix.release)
    return (version.release + (0,) * length)[:length] == prefix.release
