"""What secrets look like: one Shape for each kind that can be told by its form. A table, and what it needs.

A shape begins at one place and is known after ``width`` characters: ``head`` is what makes it
sure, ``body`` what then belongs to it however long it is, ``end`` what closes it. ``alive`` says
of the end of a text that is still coming whether a head may begin there; it may say yes too often.
``bare`` and ``bare_alive`` are both without a look at what stands before.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from functools import cached_property
from typing import NamedTuple

import attrs

MARK = "[redacted:"
"""How every replacement begins; nothing that begins so is looked into again."""
PIECE = 1 << 14
"""Characters that are looked through at once."""
CONTEXT = 2
"""Characters before a place that decide whether something begins there."""

# Not behind a letter or digit; a letter of \n in a text of JSON is none.
_BORDER = r"(?:(?<![A-Za-z0-9])|(?<=\\[nrtbf]))"
_WORD = r"[A-Za-z0-9_-]"
_VALUE = r"[^\s\"'`\\,;<>]"
_NAMES = (
    "password", "passwd", "passphrase", "pwd", "secret", "token", "credential",
    *(f"{first}{dash}key" for first in ("api", "access", "private", "auth", "signing", "encryption")
      for dash in ("", "_", "-")),
)  # fmt: skip
_CODE = re.compile(r"[A-Za-z_]\w*[.(]")
_PLACEHOLDER = re.compile(r"[$%{<*(]|(?i:x{3,}|your|example|changeme|placeholder|dummy|none\b|null\b)")
_LETTER = re.compile(r"[^\W\d_]")
_DIGIT = re.compile(r"\d")
_DIGIT_OR_SIGN = re.compile(r"\d|[^\w./:-]")
LEAST = 8
MOST_DENSE = 256
"""Characters of a value that are looked at; no head of a shape has more."""
_TIMES_LOG = (0.0, *(size * math.log2(size) for size in range(1, MOST_DENSE + 1)))
LEAST_BITS = 2.75
"""Entropy a character (Shannon, 1948) of what may be a password."""


class Written(NamedTuple):
    """The patterns of a shape as they are written: ``head`` behind ``before``, which may have ``begun``."""

    before: str
    head: str
    begun: str
    body: str
    end: str
    flags: re.RegexFlag


@attrs.frozen(eq=False)
class Shape:
    """One kind of secret; see above. ``group`` is the one of ``head`` that is hidden, 0 for all of it."""

    kind: str
    anchors: tuple[str, ...]
    written: Written
    width: int
    group: str | int = 0
    check: Callable[[re.Match[str]], bool] | None = None
    border: bool = False

    # Made when the first anchor is met: all of them at once are most of what loading this plugin costs.

    @cached_property
    def head(self) -> re.Pattern[str]:
        return re.compile(self.written.before + self.written.head, self.written.flags)

    @cached_property
    def bare(self) -> re.Pattern[str]:
        return re.compile(self.written.head, self.written.flags)

    @cached_property
    def alive(self) -> re.Pattern[str]:
        return re.compile(self.written.before + self.written.begun, self.written.flags)

    @cached_property
    def bare_alive(self) -> re.Pattern[str]:
        return re.compile(self.written.begun, self.written.flags)

    @cached_property
    def body(self) -> re.Pattern[str] | None:
        return re.compile(self.written.body, self.written.flags) if self.written.body else None

    @cached_property
    def end(self) -> re.Pattern[str] | None:
        return re.compile(self.written.end, self.written.flags) if self.written.end else None

    def find(self, text: str, pos: int, end: int) -> re.Match[str] | None:
        """Return the first secret of this shape from *pos* on, before *end*."""
        while pos < end:
            # In pieces: while ``re`` looks, no other thread goes on.
            stop = min(end, pos + PIECE)
            found = self.head.search(text, pos, min(end, stop + self.width))
            if found is None or found.start() >= stop:
                pos = stop
            elif self.check is None or self.check(found):
                return found
            else:
                pos = found.start() + 1
        return None

    def at(self, text: str, pos: int, end: int) -> re.Match[str] | None:
        """Return the secret of this shape that begins at *pos*, whatever stands before it."""
        found = self.bare.match(text, pos, end)
        return found if found and (self.check is None or self.check(found)) else None

    def begins(self, text: str, pos: int, end: int, *, fresh: bool) -> int | None:
        """Return where one may begin whose head is not there yet at *end*; None if nowhere from *pos* on."""
        first = max(pos, end - self.width)
        found = self.bare_alive.match(text, pos, end) if fresh and first == pos else None
        found = found or self.alive.search(text, first, end)
        return None if found is None else found.start()


def shape(
    kind: str,
    starts: Iterable[str],
    rest: str,
    *,
    going_on: str,
    width: int,
    body: str = "",
    end: str = "",
    border: bool = False,
    group: str | int = 0,
    check: Callable[[re.Match[str]], bool] | None = None,
    folded: bool = False,
) -> Shape:
    """Make a shape that begins with one of *starts*, continues with *rest*, and may be cut within *going_on*."""
    flags = re.ASCII | re.IGNORECASE if folded else re.ASCII
    words = sorted(starts, key=len, reverse=True)
    first = "|".join(map(re.escape, words))
    cuts = sorted({word[:length] for word in words for length in range(1, len(word))})
    before = _BORDER if border else ""
    begun = rf"(?:(?:{first})(?:{going_on})\Z|(?:{'|'.join(map(re.escape, cuts))})\Z)"
    written = Written(before, f"(?:{first}){rest}", begun, body, end, flags)
    return Shape(kind, tuple(word.lower() for word in words), written, width, group, check, border)


def _key(kind: str, starts: Iterable[str], letters: str, least: int, *, border: bool = False,
         check: Callable[[re.Match[str]], bool] | None = None) -> Shape:  # fmt: skip
    """Return the shape of a key of some length: a beginning, and letters as long as there are any."""
    most = least + 40
    return shape(kind, starts, f"{letters}{{{least},{most}}}", going_on=f"{letters}*", width=most + 40,
                 body=f"{letters}*", border=border, check=check)  # fmt: skip


def _mixed(found: re.Match[str]) -> bool:
    """Words with dashes between them are not a key: a key has digits, or capitals among small letters."""
    text = found["token"] if "token" in found.re.groupindex else found[0]
    return any(map(str.isdigit, text)) or (any(map(str.isupper, text)) and any(map(str.islower, text)))


def _is_password(found: re.Match[str]) -> bool:
    value, quoted = found["value"], bool(found["quote"])
    if _PLACEHOLDER.match(value) or (not quoted and _CODE.match(value)):
        return False
    return is_dense(value, signs_count=quoted)


def _is_url_password(found: re.Match[str]) -> bool:
    return not _PLACEHOLDER.match(found["value"])


def is_dense(value: str, *, signs_count: bool) -> bool:
    """Tell whether some beginning of *value*, of 8 characters or more, looks made by a machine.

    It has a letter, a digit (or a sign), and LEAST_BITS of entropy a character. Because a beginning
    is enough, what follows a value never makes it look harmless.

    >>> is_dense("hunter2XyZ", signs_count=False), is_dense("aaaaaaaaa1", signs_count=False)
    (True, False)
    """
    letter, other = _LETTER.search(value), (_DIGIT_OR_SIGN if signs_count else _DIGIT).search(value)
    if letter is None or other is None:
        return False
    first = max(letter.start(), other.start())
    counts: dict[str, int] = {}
    total = 0.0
    for size, one in enumerate(value[:MOST_DENSE], 1):
        count = counts.get(one, 0)
        counts[one] = count + 1
        total += _TIMES_LOG[count + 1] - _TIMES_LOG[count]
        if size >= LEAST and size > first and (_TIMES_LOG[size] - total) >= LEAST_BITS * size:
            return True
    return False


_B64 = r"[A-Za-z0-9._~+/=-]"

MARKER = shape("", (MARK,), r"[a-z0-9-]{1,40}(?::[0-9a-f]{16})?\]", going_on=r"[a-z0-9:-]*", width=80)
"""What was redacted before: no secret goes across it."""

SHAPES: tuple[Shape, ...] = (
    shape("private-key", ("-----BEGIN ",), r"[A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----", going_on=r"[A-Z0-9 -]*",
          width=90, body=r"(?:(?!-----END )[A-Za-z0-9+/=\s:,.\\()-])*", end=r"-----END [A-Z0-9 ]{0,48}-----"),
    _key("anthropic-key", ("sk-ant-",), _WORD, 16),
    _key("stripe-key", ("sk_live_", "sk_test_", "rk_live_", "rk_test_", "whsec_"), "[A-Za-z0-9+/=]", 16),
    _key("openai-key", ("sk-",), _WORD, 20, border=True, check=_mixed),
    shape("aws-key", ("AKIA", "ASIA", "ABIA", "ACCA"), r"[A-Z0-9]{16}", going_on="[A-Z0-9]*", width=40,
          border=True),
    _key("github-token", ("ghp_", "gho_", "ghu_", "ghs_", "ghr_"), "[A-Za-z0-9]", 36),
    _key("github-token", ("github_pat_",), "[A-Za-z0-9_]", 22),
    shape("google-key", ("AIza",), r"[A-Za-z0-9_-]{35}", going_on=f"{_WORD}*", width=60),
    _key("google-token", ("ya29.", "GOCSPX-"), _WORD, 20),
    _key("slack-token", ("xoxa-", "xoxb-", "xoxe-", "xoxe.", "xoxo-", "xoxp-", "xoxr-", "xoxs-", "xapp-"),
         "[A-Za-z0-9.-]", 10),
    _key("slack-webhook", ("hooks.slack.com/services/",), "[A-Za-z0-9/]", 20),
    shape("jwt", ("eyJ",), rf"(?:{_WORD}{{8,1000}}\.eyJ{_WORD}{{4}}|{_WORD}{{1001}})", going_on=r"[A-Za-z0-9_.-]*",
          width=1_050, body=r"[A-Za-z0-9_.-]*"),
    shape("bearer-token", ("authorization",), rf"\\?[\"']?\s{{0,4}}[:=]\s{{0,4}}\\?[\"']?(?:bearer|basic|token|apikey)"
          rf"\s{{1,4}}(?P<token>{_B64}{{8,64}})", going_on=rf"[\\\"':=\sA-Za-z]*{_B64}*", width=130, body=f"{_B64}*",
          group="token", folded=True),
    shape("bearer-token", ("bearer",), rf"\s{{1,4}}(?P<token>{_B64}{{20,64}})", going_on=rf"\s*{_B64}*", width=110,
          body=f"{_B64}*", group="token", border=True, check=_mixed, folded=True),
    shape("url-password", ("://",), r"[^\s/:@?#\"'<>\[]{0,64}:(?P<value>[^\s/@\"'<>]{1,200})@",
          going_on=r"[^\s/@\"'<>]*", width=300, group="value", check=_is_url_password),
    shape("password", _NAMES, rf"[A-Za-z0-9_-]{{0,24}}\\?[\"']?\s{{0,4}}(?:=>|:=|[:=])\s{{0,4}}\\?(?P<quote>[\"']?)"
          rf"(?P<value>{_VALUE}{{8,128}})",
          going_on=r"[A-Za-z0-9_-]{0,24}\\?(?:[\"']\\?)?\s*[:=]?[=>]?\s*\\?[\"']?[^\s\"'`\\,;<>]*", width=220,
          body=f"{_VALUE}*", group="value", check=_is_password, folded=True),
)  # fmt: skip
"""In the order in which they count where two begin at one place."""
