"""Plans a new content for one file, shows it, and writes exactly what was planned."""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from pluggent_hookspecs import CallPreview, Json, ToolContext, ToolError, ToolOutput, UndoCall
from pluggent_workspace_files import atomic
from pluggent_workspace_files.reach import (
    Place,
    Reach,
    check_regular,
    content,
    open_entry,
    open_folder,
    state_of,
    unreachable,
)

from pluggent_files.changes import diff
from pluggent_files.changes.diff import Diff
from pluggent_files.changes.edits import edited
from pluggent_files.edit_type import Edit
from pluggent_files.seen import Seen
from pluggent_files.settings import FilesSettings
from pluggent_files.text import Text, amount, binary_type, clean, decode, line_end, numbered

MOST_SHOWN = 190_000
"""Characters of a diff that a person is shown; a longer one is cut, with the digest of the whole."""
MOST_SHOWN_AFTERWARDS = 20_000
MOST_COMPARED = 100_000
"""Characters that are compared after a change: it is made by then, and nothing depends on it."""
MOST_SPANS = 10
SHOWN_LINES = 40
LINE = 300
CONTEXT_LINES = 2
NO_FILE = ""
"""The digest of a file that is not there."""


class Old(NamedTuple):
    """What is there before a change."""

    data: bytes
    digest: str
    status: os.stat_result


class Plan(NamedTuple):
    """A change of the content of one file, not made yet."""

    place: Place
    old: Old | None
    new: bytes
    digest: str
    before: str
    after: str
    spans: tuple[tuple[int, int], ...] = ()
    notes: tuple[str, ...] = ()
    mode: int | None = None
    is_plain: bool = False
    """Whether the old content is UTF-8 without a mark: ``before`` is all of it."""

    @property
    def state(self) -> str:
        """Names the place, what is there and what will be there."""
        return f"{self.place.key}-{state_of('content', self.old.digest if self.old else NO_FILE, self.digest)}"


def digest_of(data: bytes) -> str:
    """Return the SHA-256 of *data*, in hex."""
    return hashlib.sha256(data).hexdigest()


class Files:
    """The files that one call changes, for one session. A preview looks at what the call may not reach yet."""

    def __init__(self, context: ToolContext, settings: FilesSettings, seen: Seen, *, is_preview: bool = False) -> None:
        self.reach = Reach(context, settings.folders)
        self._is_preview = is_preview
        self._session = context.session_id
        self._settings = settings
        self._seen = seen

    # ---- plans -------------------------------------------------------------------------

    def edit(self, path: str | os.PathLike[str], edits: Sequence[Edit]) -> Plan:
        """Plan exact replacements. Raises ToolError if they cannot be made."""
        place = self.reach.place(path)
        old = self._old(place)
        if old is None:
            raise ToolError(f"{place.shown} does not exist; write_file makes a new file")
        self._check_seen(place, old)
        found = self._text(place, old)
        done = edited(found.text, edits, place.shown)
        return self._plan(place, old, found, done.text, done.spans)

    def write(self, path: str | os.PathLike[str], text: str) -> Plan:
        """Plan a new file, or a new content for one that the session has read."""
        place = self.reach.place(path)
        old = self._old(place)
        if old is None:
            return self._plan(place, None, Text("", "utf-8", b""), text)
        if not self._seen.digest(self._session, place.real):
            raise ToolError(
                f"{place.shown} exists ({len(old.data):,} bytes) and was not read in this session, so it was not"
                " overwritten. Read it with read_file first, or change a part of it with edit_file"
            )
        self._check_seen(place, old)
        found = decode(old.data, self._settings.fallback_encoding) or Text("", "utf-8", b"")
        if found.text and line_end(found.text) == "\r\n" and "\r\n" not in text:
            text = text.replace("\n", "\r\n")
        return self._plan(place, old, found, text)

    def restore(self, path: str | os.PathLike[str], new: bytes, digest: str, mode: int | None) -> Plan:
        """Plan to put *new* back if the content there still has *digest* (empty: if there is no file)."""
        place = self.reach.place(path)
        old = self._old(place)
        if (old.digest if old else NO_FILE) != digest:
            now = "was changed" if old else "is gone"
            raise ToolError(f"{place.shown} {now} since, so it was not put back: that would lose the later change")
        fallback = self._settings.fallback_encoding
        before = decode(old.data, fallback) if old else Text("", "utf-8", b"")
        after = decode(new, fallback)
        if before is None or after is None:
            return Plan(place, old, new, digest_of(new), "", "", notes=(f"{len(new):,} bytes",), mode=mode)
        return Plan(place, old, new, digest_of(new), before.text, after.text, mode=mode)

    def _old(self, place: Place) -> Old | None:
        """Return what is at *place*, None if there is nothing."""
        if self._is_preview:
            self.reach.check_private(place)
        else:
            self.reach.check_read(place, "write_folders")  # what is wrong with an edit says what is in the file
        try:
            at = open_folder(place.folder)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise unreachable(place, error) from error
        try:
            if not _exists(at, place.name):
                return None
            opened = open_entry(at, place)
        finally:
            os.close(at)
        try:
            status = os.fstat(opened)
            check_regular(status, place)
            data = content(opened, self._settings.edit_bytes, place)
        finally:
            os.close(opened)
        return Old(data, digest_of(data), status)

    def _check_seen(self, place: Place, old: Old) -> None:
        seen = self._seen.digest(self._session, place.real)
        if seen and seen != old.digest:
            raise ToolError(
                f"{place.shown} has changed since it was read in this session, so nothing was done. Read it again with"
                " read_file and make the change anew"
            )

    def _text(self, place: Place, old: Old) -> Text:
        found = decode(old.data, self._settings.fallback_encoding)
        if found is None:
            raise ToolError(f"{place.shown} is {binary_type(old.data)}, no text; edit_file edits text alone")
        return found

    def _plan(
        self, place: Place, old: Old | None, found: Text, text: str, spans: tuple[tuple[int, int], ...] = ()
    ) -> Plan:
        notes = (f"encoding kept: {found.described}",) if found.described else ()
        try:
            new = found.encode(text)
        except UnicodeEncodeError as error:
            odd = text[error.start]
            if clean(odd) != odd:
                raise ToolError("the new text has half of a surrogate pair in it, which no file can hold") from error
            raise ToolError(
                f"{place.shown} is {found.encoding}, which has no {odd!r}. Write it without, or tell the person that"
                " the file has to be converted to UTF-8 first"
            ) from error
        return Plan(place, old, new, digest_of(new), found.text, text, spans, notes, is_plain=not notes)

    # ---- making them ---------------------------------------------------------------------

    def preview(self, plan: Plan) -> CallPreview:
        """Return what *plan* will write, for a person: a unified diff."""
        return CallPreview(_shown(plan, diff.difference(plan.before, plan.after), MOST_SHOWN), plan.state, "once")

    def make(self, plan: Plan) -> ToolOutput:
        """Make *plan*. Raises ToolError, with nothing changed, if that is not allowed or not possible."""
        place, old = plan.place, plan.old
        self.reach.check_write(place, plan.state if self.reach.approved else "")
        if old is not None and old.data == plan.new:
            return ToolOutput(f"{place.shown} is already so; nothing was written")
        with atomic.folder_of(place, self.reach) as (folder, made):
            atomic.replace(folder, place, plan.new, None if old is None else old.status, plan.mode)
        self._seen.note(self._session, place.real, plan.digest)
        within = diff.changed(plan.before, plan.after)
        found = diff.difference(plan.before, plan.after, within) if within.size <= MOST_COMPARED else None
        said = self._said(plan, made, found)
        shown = said if found is None else _shown(plan, found, MOST_SHOWN_AFTERWARDS)
        return ToolOutput(said, for_user=shown, undo=self._undo(plan))

    def _said(self, plan: Plan, made: list[str], found: Diff | None) -> str:
        place, old = plan.place, plan.old
        notes = [*plan.notes, *_links(plan)]
        if made:
            notes.append(f"made {amount(len(made), 'folder')}")
        more = f" [{'; '.join(notes)}]" if notes else ""
        if old is None:
            return f"made {place.shown}: {amount(lines_in(plan.after), 'line')}, {len(plan.new):,} bytes{more}"
        if found is None:
            return f"changed {place.shown}: {amount(lines_in(plan.after), 'line')}, {len(plan.new):,} bytes now{more}"
        said = f"changed {place.shown}: +{found.added:,} -{found.removed:,} lines{more}"
        return f"{said}\n{_around(plan)}" if plan.spans else said

    def _undo(self, plan: Plan) -> tuple[UndoCall, ...]:
        if plan.old is None:
            return (UndoCall("delete_file", {"path": plan.place.shown, "sha256": plan.digest}),)
        text = plan.before if plan.is_plain else ""
        return undo_content(plan.place, plan.old.data, plan.digest, self._settings, text=text)


def _exists(folder: int, name: str) -> bool:
    try:
        os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    except OSError:  # what it is is said when it is opened
        return True
    return True


def undo_content(
    place: Place, data: bytes, digest: str, settings: FilesSettings, *, text: str = "", mode: int | None = None
) -> tuple[UndoCall, ...]:
    """Return the call that puts *data* back where the content has *digest* now; none if it is too large to keep.

    *text* is what it decodes to as UTF-8, where that is known.
    """
    if len(data) > settings.undo_bytes:
        return ()
    arguments: dict[str, Json] = {"path": place.shown, "sha256": digest}
    try:
        arguments |= {"content": text or data.decode("utf-8"), "encoding": "utf-8"}
    except UnicodeDecodeError:
        arguments |= {"content": base64.b64encode(data).decode("ascii"), "encoding": "base64"}
    if mode is not None:
        arguments["mode"] = mode
    return (UndoCall("restore_file", arguments),)


def _shown(plan: Plan, found: Diff, most: int) -> str:
    """Return the unified diff of *plan*, with what is said of it; cut where it is longer than *most* characters."""
    name = plan.place.shown
    if found.hunks:
        text = f"--- {name if plan.old else '(new file)'}\n+++ {name}\n{found.hunks}"
    else:
        size = len(plan.old.data) if plan.old else 0
        text = f"{name}: {size:,} bytes become {len(plan.new):,} bytes, sha256 {plan.digest}"
    notes = [*plan.notes, *_links(plan)]
    if len(text) > most:
        cut = text[:most].rpartition("\n")[0]
        notes.append(f"{len(text) - len(cut):,} more characters; the whole new content has sha256 {plan.digest}")
        text = cut
    return "\n".join((clean(text), *(f"({note})" for note in notes)))


def _links(plan: Plan) -> Iterator[str]:
    if plan.old is not None and (others := plan.old.status.st_nlink - 1) > 0:
        yield f"{amount(others, 'hard link')} elsewhere {'keeps' if others == 1 else 'keep'} the old content"


def lines_in(text: str) -> int:
    r"""Return how many lines *text* has.

    >>> lines_in("a\nb"), lines_in("a\n"), lines_in("")
    (2, 1, 0)
    """
    return text.count("\n") + (bool(text) and not text.endswith("\n"))


def _around(plan: Plan) -> str:
    """Return the lines that are new now, with some around them."""
    text = plan.after
    shown: list[str] = []
    at = 0
    for start, end in plan.spans[:MOST_SPANS]:
        first, last = start, end
        for _ in range(CONTEXT_LINES + 1):
            first = text.rfind("\n", 0, max(first, 0))
        for _ in range(CONTEXT_LINES + 1):
            last = text.find("\n", last) + 1 or len(text)
        first = max(first + 1, at)
        if last <= first:
            continue
        if shown and first > at:
            shown.append("…")
        lines = diff.lines_of(text[first:last])
        number = text.count("\n", 0, first) + 1
        shown.append(numbered([line.removesuffix("\n") for line in lines[:SHOWN_LINES]], number, LINE))
        at = last
    return clean("\n".join((*shown, "…") if len(plan.spans) > MOST_SPANS else shown))
