"""A server's command line for a person to read: without what may be a secret. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

HIDDEN = "…"

_SECRET_NAME = re.compile(
    r"pass(?:word|wd|phrase)?$|pwd|secret|token|credential|cookie|bearer|auth|passw"
    r"|(?:api|access|private|signing|encryption|service|account|master)[_-]?key|^key$|^pat$|dsn",
    re.IGNORECASE,
)
_REFERENCE = re.compile(r"\$\{[A-Za-z_][A-Za-z0-9_]*\}")
_NAMED = re.compile(r"(?P<dashes>-{0,2})(?P<name>[A-Za-z][A-Za-z0-9_.-]*)(?P<sign>=|:\s*)(?P<value>.*)", re.DOTALL)
_OPTION = re.compile(r"--?(?P<name>[A-Za-z][A-Za-z0-9_.-]*)")
_URL = re.compile(
    r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*://)(?P<who>[^/?#\s]*@)?(?P<where>[^?#\s]*)(?P<rest>[?#].*)?", re.DOTALL
)
_KEY = re.compile(r"(?:sk|pk|rk|gh[a-z]|github_pat|glpat|xox[a-z]|xapp|AKIA|ASIA|AIza|eyJ|ya29)[A-Za-z0-9_.-]{8,}")
_SIGNS = re.compile(r"[\s=&:]+")
_LONG = re.compile(r"(?=[^0-9]*[0-9])(?=[^A-Za-z]*[A-Za-z])[A-Za-z0-9_+=-]{24,}")


def shown(command: str, args: Iterable[str]) -> str:
    """Return the command line; of what may be a secret, only that it is there.

    >>> shown("run", ["--token=s3cret", "--api-key", "s3cret", "-e", "DB_PASSWORD=s3cret", "--root", "/srv"])
    'run --token=… --api-key … -e DB_PASSWORD=… --root /srv'
    >>> shown("run", ["postgres://ann:s3cret@db/x?key=s3cret", "--token=${TOKEN}", "-H", "Authorization: Bearer x"])
    'run postgres://…@db/x?… --token=${TOKEN} -H Authorization: …'
    """
    return " ".join((command, *_shown(args)))


def path_shown(path: str) -> str:
    """Return the path of a URL; of a part that may be a secret, only that it is there.

    >>> path_shown("/api/mcp/s/Zm9vYmFyYmF6cXV4MTIzNDU2/mcp")
    '/api/mcp/s/…/mcp'
    """
    return "/".join(HIDDEN if _is_key(part) else part for part in path.split("/"))


def secrets(args: Iterable[str], url: str = "") -> Iterator[str]:
    """Yield what may be a secret in *args*, and in *url*: what ``shown`` does not show, whole and in parts.

    >>> sorted(secrets(["--token=s3cret", "-p", "8080"], "https://ann:pw@mcp.example.com/mcp?key=abc"))
    ['abc', 'ann:pw', 'key=abc', 'pw', 's3cret']
    """
    given = (*args, url)
    for arg, seen in zip(given, _shown(given), strict=True):
        found = re.fullmatch("(.*)".join(map(re.escape, seen.split(HIDDEN))), arg, re.DOTALL)
        for hidden in found.groups() if found is not None and seen != arg else ():
            yield from dict.fromkeys((hidden, *(part for part in _SIGNS.split(hidden)[1:] if part)))


def _is_key(text: str) -> bool:
    return _KEY.search(text) is not None or _LONG.fullmatch(text) is not None


def _shown(args: Iterable[str]) -> Iterator[str]:
    follows = False
    for arg in args:
        option = _OPTION.fullmatch(arg)
        if follows and option is None:
            yield _hidden(arg)
        else:
            yield _without_secret(arg)
        follows = option is not None and _SECRET_NAME.search(option["name"]) is not None


def _hidden(value: str) -> str:
    return value if not value or _REFERENCE.fullmatch(value) else HIDDEN


def _without_secret(arg: str) -> str:
    if url := _URL.fullmatch(arg):
        who = f"{HIDDEN}@" if url["who"] else ""
        return f"{url['scheme']}{who}{path_shown(url['where'])}{url['rest'][0] + HIDDEN if url['rest'] else ''}"
    if named := _NAMED.fullmatch(arg):
        begin = arg[: named.start("value")]
        if _SECRET_NAME.search(named["name"]):
            return begin + _hidden(named["value"])
        return begin + _without_secret(named["value"])
    return HIDDEN if _is_key(arg) else arg
