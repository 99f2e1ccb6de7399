"""The tools that change files: edit_file, write_file, move_file, delete_file, and restore_file, which undoes."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from pluggent_hookspecs import CallPreview, Param, ToolContext, ToolError, ToolOutput, tool

from pluggent_files.edit_type import Edit
from pluggent_files.seen import Seen
from pluggent_files.settings import FilesSettings

if TYPE_CHECKING:  # what changes files takes 10 ms to import, and every start would pay for it
    from pluggent_files.changes.content import Files
    from pluggent_files.changes.moves import Mover

Where: TypeAlias = Annotated[Path, Param("A path in the workspace, such as src/main.py")]
Edits: TypeAlias = Annotated[list[Edit], Param("The replacements, in order", min_length=1, format="text")]
Content: TypeAlias = Annotated[str, Param("All of the text", format="text")]
Stored: TypeAlias = Annotated[str, Param("The content", format="text")]
Encoding: TypeAlias = Literal["utf-8", "base64"]
Digest: TypeAlias = Annotated[
    str, Param("SHA-256 of the content that is there; empty: no file", pattern="^([0-9a-f]{64})?$")
]
OnlyIf: TypeAlias = Annotated[str, Param("Only if the content has this SHA-256", pattern="^([0-9a-f]{64})?$")]
Mode: TypeAlias = Annotated[int | None, Param("Of a file that is not there", ge=0, le=0o7777)]
WRITES = ("filesystem_write",)
DELETES = ("filesystem_write", "destructive")


def change_tools(settings: FilesSettings, seen: Seen) -> list[Callable[..., Any]]:
    """Return the tools that change files, with these *settings*."""
    return [make(settings, seen) for make in (_edit_file, _write_file, _move_file, _delete_file, _restore_file)]


def _files(context: ToolContext, settings: FilesSettings, seen: Seen, *, is_preview: bool = False) -> Files:
    # When a call needs it, as above.
    from pluggent_files.changes.content import Files

    return Files(context, settings, seen, is_preview=is_preview)


def _mover(context: ToolContext, settings: FilesSettings, seen: Seen) -> Mover:
    # When a call needs it, as above.
    from pluggent_files.changes.moves import Mover

    return Mover(context, settings, seen)


def _edit_file(settings: FilesSettings, seen: Seen) -> Callable[..., Any]:
    def preview(path: Path, edits: list[Edit], context: ToolContext) -> CallPreview:
        files = _files(context, settings, seen, is_preview=True)
        return files.preview(files.edit(path, edits))

    @tool(effects=WRITES, preview=preview)
    def edit_file(path: Where, edits: Edits, context: ToolContext) -> ToolOutput:
        """Replace exact texts in a file, all or none; each must be there just once, or set replace_all."""
        files = _files(context, settings, seen)
        return files.make(files.edit(path, edits))

    return edit_file


def _write_file(settings: FilesSettings, seen: Seen) -> Callable[..., Any]:
    def preview(path: Path, content: str, context: ToolContext) -> CallPreview:
        files = _files(context, settings, seen, is_preview=True)
        return files.preview(files.write(path, content))

    @tool(effects=WRITES, preview=preview)
    def write_file(path: Where, content: Content, context: ToolContext) -> ToolOutput:
        """Write a whole file and the folders above it. For changes use edit_file; read what exists before."""
        files = _files(context, settings, seen)
        return files.make(files.write(path, content))

    return write_file


def _move_file(settings: FilesSettings, seen: Seen) -> Callable[..., Any]:
    def preview(path: Path, to: Path, context: ToolContext) -> CallPreview:
        return _mover(context, settings, seen).preview_move(path, to)

    @tool(effects=WRITES, preview=preview)
    def move_file(
        path: Where, to: Annotated[Path, Param("The whole new path, which is free")], context: ToolContext
    ) -> ToolOutput:
        """Move or rename a file or a folder; it never overwrites. A link is moved itself."""
        return _mover(context, settings, seen).move(path, to)

    return move_file


def _delete_file(settings: FilesSettings, seen: Seen) -> Callable[..., Any]:
    def preview(path: Path, recursive: bool, sha256: str, context: ToolContext) -> CallPreview:  # noqa: FBT001 (the tool's own)
        return _mover(context, settings, seen).preview_delete(path, recursive=recursive, sha256=sha256)

    @tool(effects=DELETES, preview=preview)
    def delete_file(
        path: Where,
        context: ToolContext,
        recursive: Annotated[bool, "A folder with all that is in it"] = False,  # noqa: FBT002 (a model names it)
        sha256: OnlyIf = "",
    ) -> ToolOutput:
        """Delete a file or an empty folder, to the system's trash where there is one. A link is deleted itself."""
        return _mover(context, settings, seen).delete(path, recursive=recursive, sha256=sha256)

    return delete_file


def _restore_file(settings: FilesSettings, seen: Seen) -> Callable[..., Any]:
    def preview(
        path: Path, content: str, sha256: str, encoding: Encoding, mode: int | None, context: ToolContext
    ) -> CallPreview:
        files = _files(context, settings, seen, is_preview=True)
        return files.preview(files.restore(path, _bytes(content, encoding), sha256, mode))

    @tool(effects=WRITES, tags=("undo",), preview=preview)
    def restore_file(
        path: Where,
        content: Stored,
        sha256: Digest,
        context: ToolContext,
        encoding: Encoding = "utf-8",
        mode: Mode = None,
    ) -> ToolOutput:
        """Put an earlier content back; for undo. To change files use edit_file and write_file."""
        files = _files(context, settings, seen)
        return files.make(files.restore(path, _bytes(content, encoding), sha256, mode))

    return restore_file


def _bytes(content: str, encoding: Encoding) -> bytes:
    try:
        return content.encode() if encoding == "utf-8" else base64.b64decode(content, validate=True)
    except (UnicodeEncodeError, binascii.Error) as error:
        raise ToolError(f"content is not {encoding}: {error}") from error
