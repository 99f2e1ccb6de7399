"""The process that made a reservation, and whether it is still alive."""

from __future__ import annotations

import os
import secrets
import sys
from pathlib import Path

import attrs

_STARTED = 22
"""Which field of /proc/PID/stat says when the process began (proc(5)), from 1."""


@attrs.frozen
class Owner:
    """One opened ledger in one process.

    ``started`` tells processes apart that had the same ``pid`` one after the other; ``place``
    those of other machines, containers and boots, of which nothing can be said from here. Both
    are empty where the system does not tell.
    """

    id: str
    pid: int
    started: str
    place: str

    @classmethod
    def here(cls) -> Owner:
        """Return this process as the owner of a ledger that is being opened."""
        pid = os.getpid()
        return cls(secrets.token_hex(8), pid, _state(pid)[1], _place())

    def is_dead(self, other: Owner) -> bool:
        """Whether the process of *other* has ended; False if that cannot be told from here."""
        if other.place != self.place:
            return False
        if self.started:
            state, started = _state(other.pid)
            return state in ("", "Z", "X") or started != other.started
        if sys.platform == "win32":
            return False  # os.kill would end it there
        try:
            os.kill(other.pid, 0)
        except ProcessLookupError:
            return True
        except OSError:
            pass  # it exists, and belongs to another user
        return False


def _state(pid: int) -> tuple[str, str]:
    """Return the state of a process and when it began; empty texts if it has ended or the system does not tell."""
    try:
        # The name of the program, in brackets, may hold anything, brackets and spaces too.
        fields = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()
        return fields[0], fields[_STARTED - 3]
    except (OSError, IndexError):
        return "", ""


def _place() -> str:
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
        return f"{boot} {Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return ""
