"""Loss of power at every moment of a turn: what a disk may forget then is never what an effect depends on (22).

A disk keeps for sure what was synced: the bytes of a file since the last fsync of it, and the names in a folder since
the last fsync of the folder. Here that is what is left after a loss of power, at each call that changes or syncs.
"""

import os
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs
import pytest
from pluggent_hookspecs import Allow, Approval, Ask, hookimpl, tool
from pluggent_host import Host, HostSettings
from pluggent_state_files import session_log
from pluggent_state_files.store import FileStore
from pluggent_testing.fakes import ScriptedModel, call
from pluggent_transcript.codec import decode
from pluggent_transcript.entries import Dispatched, Entry
from pluggent_transcript.rebuild import Rebuilt, rebuild
from saved import answer_stored

CALLS = ("open", "write", "pwrite", "fsync", "fdatasync", "replace", "rename", "mkdir", "unlink", "ftruncate")


@attrs.define
class Disk:
    """What of the files below *root* would be there after a loss of power, now and at each moment before."""

    root: Path
    moments: list[tuple[dict[str, bytes | None], tuple[str, ...]]] = attrs.field(factory=list)
    happened: list[str] = attrs.field(factory=list)
    """What a person, or the world, has seen so far."""
    _contents: dict[int, bytes] = attrs.field(factory=dict)
    _names: dict[int, dict[str, int]] = attrs.field(factory=dict)
    _lock: Any = attrs.field(factory=threading.RLock)

    def synced(self, descriptor: int) -> None:
        """The file or folder is as it is now for ever."""
        status = os.fstat(descriptor)
        where = Path(f"/proc/self/fd/{descriptor}").resolve()
        if stat.S_ISDIR(status.st_mode):
            self._names[status.st_ino] = {each.name: each.lstat().st_ino for each in where.iterdir()}
        else:
            self._contents[status.st_ino] = where.read_bytes()

    def moment(self) -> None:
        """Power may be lost now."""
        with self._lock:
            self.moments.append((dict(self._left(self.root.stat().st_ino, "")), tuple(self.happened)))

    def _left(self, folder: int, above: str) -> Iterator[tuple[str, bytes | None]]:
        for name, inode in self._names.get(folder, {}).items():
            if inode in self._names or inode not in self._contents:
                yield f"{above}{name}", None if inode in self._names or self._was_folder(inode) else b""
                yield from self._left(inode, f"{above}{name}/")
            else:
                yield f"{above}{name}", self._contents[inode]

    def _was_folder(self, inode: int) -> bool:
        return any(each.is_dir() and each.lstat().st_ino == inode for each in self.root.rglob("*"))

    @contextmanager
    def watched(self, patch: pytest.MonkeyPatch) -> Iterator[None]:
        """Take note of every call that changes or syncs something."""
        root = os.open(self.root, os.O_RDONLY)
        self.synced(root)
        os.close(root)

        def noting(name: str, do: Callable[..., Any]) -> Callable[..., Any]:
            def noted(*given: Any, **named: Any) -> Any:
                with self._lock:
                    made = do(*given, **named)
                    if name in ("fsync", "fdatasync"):
                        self.synced(given[0])
                    self.moment()
                return made

            return noted

        with patch.context() as patched:
            for name in CALLS:
                patched.setattr(os, name, noting(name, getattr(os, name)))
            patched.setattr(session_log, "_to_disk", os.fdatasync)
            yield


@tool(effects=["messaging"])
async def send(to: str) -> str:
    """Send a letter."""
    DISKS[-1].happened.append(f"sent {to}")
    DISKS[-1].moment()
    return "sent"


DISKS: list[Disk] = []
"""The disk of the test that runs."""


class Careful:
    """Asks about letters to the boss, and allows all others."""

    @hookimpl
    def decide_tool_call(self, event: Any) -> Ask | Allow:
        return Ask("to the boss?") if event.arguments["to"] == "boss" else Allow("not to the boss")


def left(folder: Path, files: dict[str, bytes | None]) -> list[Entry]:
    """Write what is left of a disk, and return what the session says then."""
    for name, content in sorted(files.items()):
        if content is None:
            (folder / name).mkdir(mode=0o700)
        else:
            (folder / name).write_bytes(content)
            (folder / name).chmod(0o600)
    store = FileStore(folder / "state" / "sessions")
    if not (folder / "state" / "sessions" / "trip.jsonl").exists():
        return []
    return decode(store.read("trip"), "trip")


def dispatched(entries: list[Entry]) -> list[str]:
    return [id for entry in entries if isinstance(entry, Dispatched) for id, _, _ in entry.calls]


async def test_no_loss_of_power_forgets_an_effect_or_an_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "disk").mkdir()
    disk = Disk(tmp_path / "disk")
    DISKS.append(disk)
    state = disk.root / "state"

    with disk.watched(monkeypatch):
        replies = (call("send", "c1", to="ann"), call("send", "c2", to="boss"), "done")
        async with host(state, *replies) as opened, await opened.session("trip") as session:
            assert (await session.say("write to ann, then to the boss")).why == "paused"
            disk.happened.append("paused")
            disk.moment()
            [waiting] = session.pending
        answer_stored(state / "sessions", "trip", [waiting.digest], Approval(agreed=True), "terminal:ann")
        disk.happened.append("answered")
        disk.moment()
        async with host(state, "done") as opened, await opened.session("trip") as session:
            assert (await session.resume()).why == "completed"

    assert disk.happened == ["sent ann", "paused", "answered", "sent boss"]
    seen: dict[tuple[object, ...], Rebuilt | None] = {}
    for number, (files, happened) in enumerate(disk.moments):
        if (tuple(sorted(files.items(), key=str)), happened) in seen:
            continue
        folder = tmp_path / f"left-{number}"
        folder.mkdir()
        entries = left(folder, files)
        past = rebuild(entries)
        seen[tuple(sorted(files.items(), key=str)), happened] = past
        assert ("c1" in dispatched(entries)) >= ("sent ann" in happened), (number, happened)
        assert ("c2" in dispatched(entries)) >= ("sent boss" in happened), (number, happened)
        if "paused" in happened and "sent boss" not in happened:
            assert past.waiting is not None or "c2" in dispatched(entries), (number, happened)
        if "answered" in happened and "sent boss" not in happened and "c2" not in dispatched(entries):
            assert past.waiting is not None, (number, happened)
            assert [each.agreed for each in past.waiting.resolved.values()] == [True], (number, happened)
    assert len(seen) > 10


def host(state: Path, *replies: Any) -> Any:
    return Host.open(
        model="scripted/m", plugins=[ScriptedModel(*replies)], tools=[send], policies=[Careful()], installed=False,
        state_dir=state, config=HostSettings(on_ask="pause"),
    )  # fmt: skip
