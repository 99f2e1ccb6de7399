"""A file of models: how it is written, checked and searched.

It is packed by gzip, whose checksums tell a torn file: a member that says what the file is, then one for each
server with a line of JSON for each model. A search unpacks the member of its server and reads the one line.

Imported by plugins that only may want to look a model up: nothing is read before that.
"""

from __future__ import annotations

import json
import os
import re
import stat
import zlib
from collections.abc import Iterable, Iterator
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, cast

import attrs
from pluggent_hookspecs import ConfigError

from pluggent_models.model import Model, json_of, model_of

FORMAT = 1
NAME = "models.json.gz"
MAGIC = b"\x1f\x8b"
"""What every packed file begins with."""
MOST_PLAIN = 33_554_432
_GZIP = 31
"""zlib's number for gzip with its checksum."""
_SUFFIX = re.compile(r"[-@](latest|20\d\d-?[01]\d-?[0-3]\d)$")
"""What names one version of a model that has its price under its plain name."""


class CatalogError(ConfigError):
    """A file of models that cannot be used; ``path`` is the file, ``problems`` say what is wrong with it."""


@attrs.frozen(kw_only=True)
class About:
    """What a catalog is: the ``date`` and ``source`` of every model that has none of its own, and its licence."""

    date: str
    source: str
    licence: str = ""


class ModelCatalog:
    """The models of one file, searched by id. Made by ``shipped`` and ``read_catalog``.

    >>> shipped().find("openai/gpt-5-mini").context
    400000
    >>> shipped().find("openai/gpt-5-mini-2025-08-07").id
    'openai/gpt-5-mini'
    >>> shipped().find("acme/unheard-of") is None
    True
    """

    def __init__(self, content: bytes, place: str) -> None:
        """Check the file, and unpack what it says of itself. Raises CatalogError, naming *place*."""
        self.place = place
        head, rest = _unpacked(content, place)
        self.about, self._sizes = _head(head, place)
        self._parts = memoryview(content)[len(content) - len(rest) :]
        if sum(self._sizes.values()) != len(rest):
            raise CatalogError(place, [f"is damaged: it is cut, or something follows its end{_MEND}"])
        self._lines: dict[str, bytes] = {}
        self.find = lru_cache(maxsize=512)(self._find)

    @property
    def servers(self) -> tuple[str, ...]:
        """The servers whose models it has, in order."""
        return tuple(self._sizes)

    def _find(self, name: str) -> Model | None:
        """Return the model *name*, ``server/model``; one of a dated or latest version is that of its plain name.

        Raises CatalogError if the models of its server cannot be read.
        """
        line = self._line(name)
        if line is None and (plain := _SUFFIX.sub("", name)) != name:
            line = self._line(plain)
        return None if line is None else self._read(line)

    def models(self) -> Iterator[Model]:
        """Yield all models, by their ids. Raises CatalogError."""
        for server in self._sizes:
            for line in self._part(server).split(b"\n")[1:-1]:
                yield self._read(line)

    def _line(self, name: str) -> bytes | None:
        server = name.partition("/")[0]
        if server not in self._sizes:
            return None
        lines = self._part(server)
        start = lines.find(b'\n{"id":' + json.dumps(name).encode() + b",")
        return None if start < 0 else lines[start + 1 : lines.index(b"\n", start + 1)]

    def _part(self, server: str) -> bytes:
        """Return the lines of one server, each behind a line feed."""
        lines = self._lines.get(server)
        if lines is None:
            start = 0
            for before, size in self._sizes.items():
                if before == server:
                    break
                start += size
            lines, rest = _unpacked(self._parts[start : start + self._sizes[server]], self.place)
            if rest or not lines.startswith(b"\n") or not lines.endswith(b"\n"):
                raise CatalogError(self.place, [f"is damaged: the models of {server} are not whole{_MEND}"])
            self._lines[server] = lines
        return lines

    def _read(self, line: bytes) -> Model:
        try:
            model = model_of(json.loads(line))
        except (ValueError, RecursionError) as error:
            raise CatalogError(self.place, [f"holds a model that cannot be read: {error}{_MEND}"]) from error
        return model if model.date else attrs.evolve(model, date=self.about.date, source=self.about.source)


def _head(line: bytes, place: str) -> tuple[About, dict[str, int]]:
    """Return what a file says of itself, and the bytes that the models of each server take."""
    try:
        said: object = json.loads(line)
    except (ValueError, RecursionError):
        said = None
    fields = cast("dict[str, Any]", said) if isinstance(said, dict) else {}
    if fields.get("pluggent_models") != FORMAT:
        newer = f" of format {FORMAT}: another version has written it" if "pluggent_models" in fields else ""
        raise CatalogError(place, [f"is not a model catalog{newer}{_MEND}"])
    sizes = fields.get("bytes")
    counted = cast("dict[str, object]", sizes) if isinstance(sizes, dict) else {}
    if not counted or not all(type(size) is int and size > 0 for size in counted.values()):
        raise CatalogError(place, [f"is damaged: it does not say what it has{_MEND}"])
    about = About(**{name: str(fields.get(name, "")) for name in ("date", "source", "licence")})
    return about, cast("dict[str, int]", counted)


_MEND = ". Get it anew: pluggent models refresh; the one of the package: install pluggent-models again"


@cache
def shipped() -> ModelCatalog:
    """Return the catalog of this package, read when it is first asked for. Raises CatalogError."""
    try:
        # importlib.resources takes longer than all the rest of the first search.
        loader: Any = __spec__.loader
        content = loader.get_data(str(Path(__file__).with_name(NAME)))
    except OSError as error:
        raise CatalogError(NAME, [f"cannot be read: {error.strerror or error}{_MEND}"]) from error
    return ModelCatalog(content, NAME)


def read_catalog(path: Path) -> ModelCatalog:
    """Return the catalog in the file at *path*. Raises CatalogError."""
    return ModelCatalog(read_bytes(path), str(path))


def read_bytes(path: Path) -> bytes:
    """Return what the regular file at *path* holds, without waiting for a pipe. Raises CatalogError."""
    try:
        with open(path, "rb", opener=_without_waiting) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise CatalogError(str(path), ["is not a regular file"])
            content = file.read(MOST_PLAIN + 1)
    except OSError as error:
        raise CatalogError(str(path), [f"cannot be read: {error.strerror or error}"]) from error
    if len(content) > MOST_PLAIN:
        raise CatalogError(str(path), [f"is larger than {MOST_PLAIN:,} bytes"])
    return content


def packed(models: Iterable[Model], about: About) -> bytes:
    """Return the file that holds *models*; the same ones make the same bytes."""
    lines: dict[str, list[str]] = {}
    for model in sorted(models, key=lambda one: one.id):
        usual = (model.date, model.source) == (about.date, about.source)
        own = attrs.evolve(model, date="", source="") if usual else model
        lines.setdefault(model.server, []).append(json.dumps(json_of(own), separators=_TIGHT))
    parts = {server: _packed("\n".join(("", *found, ""))) for server, found in lines.items()}
    sizes = {server: len(part) for server, part in parts.items()}
    head = {"pluggent_models": FORMAT, **attrs.asdict(about), "bytes": sizes}
    return b"".join((_packed(json.dumps(head, separators=_TIGHT)), *parts.values()))


_TIGHT = (",", ":")


def _packed(text: str) -> bytes:
    packer = zlib.compressobj(9, zlib.DEFLATED, _GZIP)
    return packer.compress(text.encode()) + packer.flush()


def _unpacked(content: bytes | memoryview, place: str) -> tuple[bytes, bytes]:
    """Return what the first member of *content* holds, and what follows it. Raises CatalogError."""
    if content[:2] != MAGIC:
        raise CatalogError(place, [f"is not a model catalog: it is not packed by gzip{_MEND}"])
    reader = zlib.decompressobj(_GZIP)
    try:
        plain = reader.decompress(content, MOST_PLAIN)
    except zlib.error as error:
        raise CatalogError(place, [f"is damaged ({error}){_MEND}"]) from error
    if reader.unconsumed_tail:
        raise CatalogError(place, [f"is larger than {MOST_PLAIN:,} bytes"])
    if not reader.eof:
        raise CatalogError(place, [f"is damaged: it is cut{_MEND}"])
    return plain, reader.unused_data


def _without_waiting(path: str, flags: int) -> int:
    """Open *path* as open() does; a pipe without waiting for its writer."""
    return os.open(path, flags | os.O_NONBLOCK)
