"""The batches that were submitted here, a file each in the state folder: written before anything is sent.

Names are the keys that mark the batches at their vendors. Each file has a seal on its last line: approvals in one
that was changed, or copied from elsewhere, do not count, nor does the principal that it names.
"""

from __future__ import annotations

import fcntl
import logging
import os
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

import attrs
from pluggent_contract_values.as_json import from_json, to_json
from pluggent_hookspecs import Value
from pluggent_hookspecs.errors import ConfigError
from pluggent_hookspecs.folders import private_folder
from pluggent_host.operations.batch import Batch
from pluggent_state_files.seals import SealedRecords, is_sealed, seal_of

FOLDER = "batches"
_KEY_OF = "seals.json"

log = logging.getLogger("pluggent.batches")


@attrs.frozen(repr=False)
class Kept(Value):
    """A batch and where it is from: the path of its file, and the digest of all that was asked."""

    batch: Batch
    source: str
    digest: str


class KeptBatches:
    """The files below *state_dir*."""

    def __init__(self, state_dir: Path) -> None:
        self._folder = state_dir / FOLDER
        self._seals = SealedRecords(self._folder / _KEY_OF, state_dir)

    @contextmanager
    def alone(self) -> Generator[None]:
        """Keep other processes from submitting meanwhile. Raises ConfigError if one does so now."""
        private_folder(self._folder)
        descriptor = os.open(self._folder / "lock", os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                raise ConfigError("pluggent batch", ["another process submits a batch now; wait for it"]) from error
            yield
        finally:
            os.close(descriptor)

    def write(self, kept: Kept) -> None:
        """Make *kept* durable, in the place of what was there."""
        private_folder(self._folder)
        place = self._folder / f"{kept.batch.key}.json"
        temporary = place.with_suffix(f".{os.getpid()}")
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(temporary, flags, 0o600), "wb") as file:
            content = to_json(kept)
            seal = seal_of(self._seals.sealing_key(), kept.batch.key, content.decode())
            file.write(b"%b\n%b\n" % (content, seal.encode()))
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(place)

    def all(self) -> Sequence[Kept]:
        """Return every batch, the latest first. Raises ConfigError for a file that is damaged."""
        found = [self._read(path) for path in self._folder.glob("*.json")]
        return sorted(found, key=lambda kept: kept.batch.begun_s, reverse=True)

    def named(self, beginning: str) -> Kept:
        """Return the batch whose name begins so; the latest for an empty one. Raises ConfigError."""
        found = [kept for kept in self.all() if kept.batch.key.startswith(beginning)]
        if not found and not beginning:
            raise ConfigError("pluggent batch", ["there is no batch; to submit one: pluggent batch submit FILE"])
        if not found or (beginning and len(found) > 1):
            why = f"{len(found)} batches begin with {beginning!r}" if found else f"there is no batch {beginning!r}"
            raise ConfigError("pluggent batch", [f"{why}; to see them: pluggent batch list"])
        return found[0]

    def of(self, digest: str) -> Kept | None:
        """Return the latest batch of exactly the same requests, None if there is none."""
        return next((kept for kept in self.all() if kept.digest == digest), None)

    def _read(self, path: Path) -> Kept:
        try:
            content, _, seal = path.read_bytes().partition(b"\n")
            kept = from_json(content, Kept)
            if kept.batch.key != path.stem:  # else what is written about it would be written elsewhere
                raise ValueError("it names another batch")  # noqa: TRY301 (as what cannot be read)
        except (OSError, ValueError) as error:
            raise ConfigError(str(path), [f"is damaged: {error}; mend it, or move it away"]) from error
        if is_sealed(self._seals.key(), seal.strip().decode("utf-8", "replace"), path.stem, content.decode()):
            return kept
        log.warning("%s was changed, or copied from elsewhere: approvals and principal in it do not count", path)
        items = tuple(attrs.evolve(item, asks=(), approved_by="") for item in kept.batch.items)
        return attrs.evolve(kept, batch=attrs.evolve(kept.batch, items=items, principal=""))
