"""Finds secrets and replaces them: in a whole text, or in one that comes in pieces, with one and the same result. Pure.

``Engine.step`` is given what is there of a text. It settles what no further text can change,
says from where on it must see the text again, and whether it is inside a secret that is hidden
already. A whole text is one last step, so both ways agree by construction as long as every
``begins`` says yes often enough.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Mapping, Sequence
from heapq import heapify, heappop, heapreplace
from typing import Protocol

import attrs

from pluggent_redact.shapes import CONTEXT, MARK, MARKER, SHAPES, Shape

ENOUGH = 256
"""Characters of a secret after which its replacement is shown, whatever follows; they make its fingerprint."""
SLACK = 10
"""Characters at the end of an unfinished secret that may begin what closes it."""
END = 64
"""Characters that tell whether a secret is closed."""
_NUMBER = re.compile(r"[0-9.eE+-]+")
LONGEST_LITERAL = 1_000
LONGEST_MATCH = 1_000
WINDOW = 4_096
"""More characters than are ever held back: a head or match, a literal that may begin in it, and their contexts.

A stream that is looked into less often may hold back an eighth more, and stays below that too.
"""


class Match(Protocol):
    """What ``re`` and ``re2`` have in common."""

    def start(self, group: str | int = 0, /) -> int: ...
    def end(self, group: str | int = 0, /) -> int: ...


class Finder(Protocol):
    """Something that finds one kind of secret; a Shape is one."""

    @property
    def kind(self) -> str: ...
    @property
    def anchors(self) -> tuple[str, ...]: ...
    @property
    def group(self) -> str | int: ...
    def find(self, text: str, pos: int, end: int, /) -> Match | None: ...
    def begins(self, text: str, pos: int, end: int, /, *, fresh: bool) -> int | None: ...


@attrs.frozen
class Step:
    """What may be shown, from where on the text is to come again, and the finder that it is inside of, or -1.

    ``seen`` is how many characters from there on are settled, and come again as context only.
    """

    show: str
    start: int
    seen: int = 0
    inside: int = -1


@attrs.frozen(eq=False)
class Engine:
    """``literals`` are whole texts to hide, ``finders`` come after the shapes; ``key`` makes fingerprints."""

    literals: tuple[str, ...] = ()
    finders: tuple[Finder, ...] = SHAPES
    key: bytes | None = None
    _anchors: tuple[str, ...] | None = attrs.field(
        init=False, default=attrs.Factory(lambda self: _anchors_of(self.finders), takes_self=True)
    )
    """One of these is in whatever a finder finds; None if a finder has none."""
    _numeric: bool = attrs.field(
        init=False, default=attrs.Factory(lambda self: any(map(_NUMBER.fullmatch, self.literals)), takes_self=True)
    )
    _beginnings: _Beginnings = attrs.field(
        init=False, default=attrs.Factory(lambda self: _Beginnings.of(self.literals), takes_self=True)
    )

    @property
    def hides_numbers(self) -> bool:
        """Whether a number can be one of the literals."""
        return self._numeric

    def redact(self, text: str) -> str:
        """Return *text* without its secrets; the very same object if there are none."""
        if self._is_harmless(text):
            return text
        shown = self.step(text, final=True).show
        return text if shown == text else shown

    def _is_harmless(self, text: str) -> bool:
        """Whether nothing can be found in *text*, as in nearly all: looked at in no loop of ours."""
        if not text:
            return True
        # No map(): a long text is looked into beside the event loop, which goes on between two of them.
        if self._anchors is None or any(literal in text for literal in self.literals):
            return False
        lower = text.lower()
        return not any(anchor in lower for anchor in self._anchors)

    def step(self, text: str, seen: int = 0, inside: int = -1, *, final: bool = False) -> Step:
        """Settle what can be settled of *text*, of which *seen* characters are only context."""
        return _Run(self, text, final).step(seen, inside)

    def marked(self, kind: str, secret: str) -> str:
        """Return what stands in the place of *secret*."""
        if self.key is None:
            return f"{MARK}{kind}]"
        data = secret[:ENOUGH].encode(errors="backslashreplace")
        return f"{MARK}{kind}:{hmac.digest(self.key, data, 'sha256').hex()[:16]}]"

    def literal_begins(self, text: str, pos: int) -> int:
        """Return where a literal begins that is not all there; the length of *text* if nowhere."""
        size, known = len(text), self._beginnings
        first = max(pos, size - known.longest + 1)
        for at in range(first, size - SLACK + 1):
            several = known.long.get(text[at : at + SLACK])
            if several and any(len(one) > size - at and one.startswith(text[at:]) for one in several):
                return at
        return next((at for at in range(max(first, size - SLACK + 1), size) if text[at:] in known.short), size)


@attrs.frozen
class _Beginnings:
    """How literals begin: each part of them that is shorter than SLACK, and the longer ones by that much of them."""

    short: frozenset[str]
    long: Mapping[str, tuple[str, ...]]
    longest: int

    @classmethod
    def of(cls, literals: Sequence[str]) -> _Beginnings:
        short = {one[:length] for one in literals for length in range(1, min(SLACK, len(one)))}
        long: dict[str, list[str]] = {}
        for one in literals:
            if len(one) > SLACK:
                long.setdefault(one[:SLACK], []).append(one)
        return cls(
            frozenset(short), {name: tuple(ones) for name, ones in long.items()}, max(map(len, literals), default=0)
        )


class _Walls:
    """Literals and earlier replacements in a text, asked for from left to right: each is looked for once.

    A literal that was found stays known until it is passed: the text is scanned once for each, however
    many there are of the others.
    """

    def __init__(self, literals: Sequence[str], text: str) -> None:
        self._text = text
        self._literals = [(at, -len(one), one) for one in literals if (at := text.find(one)) >= 0]
        heapify(self._literals)
        self._mark: Match | None = None
        self._marked_from = -1

    def next(self, pos: int) -> tuple[int, int, bool]:
        """Return where the next wall from *pos* on begins and ends, and whether it is a literal, to be hidden.

        The longest of several literals that begin together; the end of the text if there is no wall.
        """
        size = len(self._text)
        mark = self._next_mark(pos)
        start, end = self._next_literal(pos)
        if mark is not None and not 0 <= start <= mark.start():
            return mark.start(), mark.end(), False
        return (start, end, True) if start >= 0 else (size, size, False)

    def _next_literal(self, pos: int) -> tuple[int, int]:
        waiting = self._literals
        while waiting and waiting[0][0] < pos:
            _, size, literal = waiting[0]
            at = self._text.find(literal, pos)
            if at < 0:
                heappop(waiting)
            else:
                heapreplace(waiting, (at, size, literal))
        return (waiting[0][0], waiting[0][0] - waiting[0][1]) if waiting else (-1, -1)

    def _next_mark(self, pos: int) -> Match | None:
        if self._marked_from < 0 or (self._mark is not None and self._mark.start() < pos):
            self._marked_from = pos
            self._mark = MARKER.find(self._text, pos, len(self._text))
        return self._mark


def _anchors_of(finders: Sequence[Finder]) -> tuple[str, ...] | None:
    if not all(finder.anchors for finder in finders):
        return None
    every = {anchor for finder in finders for anchor in finder.anchors}
    # Where "sk-ant-" is, "sk-" is too.
    return tuple(sorted(one for one in every if not any(other in one for other in every - {one})))


class _Run:
    """One step: the text, and what has been found in it.

    Literals and earlier replacements are walls: what is between two of them is looked at as if it
    were all there is. So is what follows a replacement, so that redacting twice finds nothing more.
    """

    def __init__(self, engine: Engine, text: str, final: bool) -> None:  # noqa: FBT001 (of one caller)
        self._engine = engine
        self._text = text
        self._final = final
        self._out: list[str] = []
        self._fresh = 0
        lower = text.lower()
        self._active = [
            (at, finder) for at, finder in enumerate(engine.finders)
            if not finder.anchors or any(map(lower.__contains__, finder.anchors))
        ]  # fmt: skip
        self._found: dict[int, Match | None] = {}
        self._walls = _Walls(engine.literals, text)
        self._wall: tuple[int, int, bool] | None = None
        self._begun: int | None = None
        self._names: dict[str, str] = {}

    def step(self, pos: int, inside: int) -> Step:
        if inside >= 0:
            pos, known = self._body(self._engine.finders[inside], pos)
            self._fresh = pos
            if not known:
                return self._held(pos, inside)
        while True:
            wall, wall_end, hidden = self._next_wall(pos)
            index, found = self._next(pos, wall)
            start = wall if found is None else found.start()
            hold = len(self._text) if self._final else self._begins(pos)
            if hold <= start:
                self._out.append(self._text[pos:hold])
                return self._held(hold)
            if found is None:
                shown = self._text[wall:wall_end]
                self._out += (self._text[pos:wall], self._engine.marked("secret", shown) if hidden else shown)
                pos = self._fresh = wall_end
                self._found.clear()
                continue
            held = self._take(pos, index, found)
            if isinstance(held, Step):
                return held
            pos = self._fresh = held

    def _take(self, pos: int, index: int, found: Match) -> int | Step:
        """Hide what was found; return where to continue, or what the step ends with."""
        finder = self._engine.finders[index]
        begin, end, known = found.start(finder.group), found.end(finder.group), True
        if isinstance(finder, Shape) and finder.body is not None:
            end, known = self._body(finder, end)
            if not known and end - begin < ENOUGH:
                self._out.append(self._text[pos : found.start()])
                return self._held(found.start())
        # The name of a password can be one, too.
        name = self._name(self._text[found.start() : begin])
        secret = self._engine.marked(finder.kind, self._text[begin:end])
        self._out += (self._text[pos : found.start()], name, secret)
        if not known:
            self._fresh = end
            return self._held(end, index)
        return end

    def _name(self, name: str) -> str:
        if name and name not in self._names:
            self._names[name] = self._engine.redact(name)
        return self._names[name] if name else ""

    def _body(self, finder: Finder, pos: int) -> tuple[int, bool]:
        """Return how far the body goes that is at *pos*, and whether that is sure."""
        assert isinstance(finder, Shape), "only shapes have a body"
        wall = self._next_wall(pos)[0]
        size = len(self._text)
        sure = size if self._final else self._uncertain(pos)
        stop = self._run_of(finder, pos, wall)
        if stop == wall and wall < size:
            return stop, True
        if not self._final and stop >= min(sure, size):
            return max(pos, min(sure, size - SLACK)), False
        if finder.end is None:
            return stop, True
        closed = finder.end.match(self._text, stop, wall)
        if closed is not None and (self._final or closed.end() <= sure):
            return closed.end(), True
        waits = not self._final and wall == size and size - stop < END and self._text.startswith("-", stop)
        return stop, not waits

    def _run_of(self, finder: Finder, pos: int, end: int) -> int:
        body = finder.body.match(self._text, pos, end) if isinstance(finder, Shape) and finder.body else None
        return pos if body is None else body.end()

    def _next_wall(self, pos: int) -> tuple[int, int, bool]:
        """Return where the next wall begins and ends, and whether it is to be hidden; the end of the text if none."""
        if self._wall is None or self._wall[0] < pos:
            self._wall = self._walls.next(pos)
        return self._wall

    def _uncertain(self, pos: int) -> int:
        """Return where there may be a wall, if more text comes."""
        size = len(self._text)
        mark = MARKER.begins(self._text, pos, size, fresh=False)
        return min(self._engine.literal_begins(self._text, pos), size if mark is None else mark)

    def _next(self, pos: int, wall: int) -> tuple[int, Match | None]:
        best: tuple[int, Match | None] = (-1, None)
        for index, finder in self._active:
            found = self._found.get(index)
            if index not in self._found or (found is not None and found.start() < pos):
                found = self._found[index] = finder.find(self._text, pos, wall)
            # What begins where a replacement ends may be found only now; what was found behind it stays found.
            if pos == self._fresh and isinstance(finder, Shape) and finder.border:
                found = finder.at(self._text, pos, wall) or found
            if found is not None and (best[1] is None or found.start() < best[1].start()):
                best = (index, found)
        return best

    def _begins(self, pos: int) -> int:
        """Return from where on more text could change what is found."""
        if pos > len(self._text) - WINDOW:
            return self._begun_from(pos)
        if self._begun is None:
            self._begun = self._begun_from(pos)  # the same for every place that is as far from the end
        return self._begun

    def _begun_from(self, pos: int) -> int:
        first = sure = self._uncertain(pos)
        for end in {sure, len(self._text)}:
            for finder in self._engine.finders:
                begun = finder.begins(self._text, pos, end, fresh=pos == self._fresh)
                first = first if begun is None else min(first, begun)
        return first

    def _held(self, hold: int, inside: int = -1) -> Step:
        if self._final:
            return Step("".join(self._out), len(self._text))
        start = max(self._fresh, hold - CONTEXT)
        return Step("".join(self._out), start, hold - start, inside)


def literals_of(secrets: Sequence[str]) -> tuple[str, ...]:
    """Return the pieces to look for; a longer secret is several, each hidden for itself."""
    pieces = {secret[at : at + LONGEST_LITERAL] for secret in secrets for at in range(0, len(secret), LONGEST_LITERAL)}
    return tuple(sorted(pieces, key=lambda piece: (-len(piece), piece)))
