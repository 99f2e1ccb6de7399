"""The tools that read: list_files, read_file, find_files, search_files.

What they do is imported when they are called: it takes 10 ms, and every start would pay for it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, TypeAlias

from pluggent_hookspecs import CallPreview, Param, ToolContext, ToolOutput, tool

from pluggent_files.seen import Seen
from pluggent_files.settings import FilesSettings

Where: TypeAlias = Annotated[Path, Param("A path in the workspace, such as src/main.py")]
Folder: TypeAlias = Annotated[Path, Param("The folder; the workspace without it")]
Skip: TypeAlias = Annotated[int, Param("How many to leave out, to get the next page", ge=0)]
Ignored: TypeAlias = Annotated[bool, "Also what .gitignore leaves out"]
Glob: TypeAlias = Annotated[str, Param("Such as *.py, src/**/*.{js,ts}", format="glob")]
READS = ("filesystem_read",)
SEARCH_S = 120.0


def read_tools(settings: FilesSettings, seen: Seen) -> list[Callable[..., Any]]:
    """Return the tools that read, with these *settings*."""
    return [_list_files(settings), _read_file(settings, seen), _find_files(settings), _search_files(settings)]


def _preview(what: str, settings: FilesSettings) -> Callable[..., CallPreview]:
    """Return what says to a person which place is read: a tool that reads is asked about outside the workspace."""

    def preview(path: Path, context: ToolContext, **_: Any) -> CallPreview:
        from pluggent_files import reads  # when it is called

        return reads.preview(what, path, context, settings)

    return preview


def _list_files(settings: FilesSettings) -> Callable[..., Any]:
    @tool(effects=READS, timeout_s=SEARCH_S, preview=_preview("list", settings))
    def list_files(
        context: ToolContext,
        path: Folder = Path(),
        depth: Annotated[int, Param("How many levels of folders", ge=1, le=20)] = 1,
        include_ignored: Ignored = False,  # noqa: FBT002 (a model names it)
        skip: Skip = 0,
    ) -> ToolOutput:
        """List what is in a folder, with sizes in bytes; folders end with /, links say where they lead."""
        from pluggent_files import reads  # when it is called

        return reads.listed(path, depth, skip, context, settings, ignored=include_ignored)

    return list_files


def _read_file(settings: FilesSettings, seen: Seen) -> Callable[..., Any]:
    @tool(effects=READS, preview=_preview("read", settings))
    def read_file(
        path: Where,
        context: ToolContext,
        start_line: Annotated[int, Param("The first line, from 1; -50 is the 50th from the end")] = 1,
        end_line: Annotated[int | None, Param("The last line; as many as fit without it")] = None,
    ) -> ToolOutput:
        """Read a text file with line numbers, or an image; a long file comes in parts that say how to go on."""
        from pluggent_files import reads  # when it is called

        return reads.lines(path, start_line or 1, end_line or None, context, settings, seen)

    return read_file


def _find_files(settings: FilesSettings) -> Callable[..., Any]:
    @tool(effects=READS, timeout_s=SEARCH_S, preview=_preview("find files in", settings))
    def find_files(
        glob: Glob,
        context: ToolContext,
        path: Folder = Path(),
        include_ignored: Ignored = False,  # noqa: FBT002 (a model names it)
        skip: Skip = 0,
    ) -> ToolOutput:
        """Find files by name: a pattern without / fits names in any folder, ** fits across folders."""
        from pluggent_files import reads  # when it is called

        return reads.found(path, glob, skip, context, settings, ignored=include_ignored)

    return find_files


def _search_files(settings: FilesSettings) -> Callable[..., Any]:
    @tool(effects=READS, timeout_s=SEARCH_S, preview=_preview("search in", settings))
    def search_files(
        pattern: Annotated[str, Param("A regular expression (RE2), for one line", format="regex")],
        context: ToolContext,
        path: Annotated[Path, Param("A folder or a file; the workspace without it")] = Path(),
        glob: Annotated[str, Param("Only files with such names: *.py, src/**/*.ts", format="glob")] = "",
        ignore_case: bool = False,  # noqa: FBT001, FBT002 (a model names it)
        literal: Annotated[bool, "The pattern is plain text"] = False,  # noqa: FBT002 (the same)
        context_lines: Annotated[int, Param("Lines around each match", ge=0, le=20)] = 0,
        files_only: Annotated[bool, "Only the names of the files with a match"] = False,  # noqa: FBT002 (the same)
        include_ignored: Ignored = False,  # noqa: FBT002 (the same)
        skip: Skip = 0,
    ) -> ToolOutput:
        """Search the contents of files and show the lines that match, with their numbers, grouped by file."""
        from pluggent_files import reads  # when it is called

        query = reads.Query(
            pattern, glob, ignore_case, literal, context_lines, files_only, include_ignored, skip
        )  # fmt: skip
        return reads.matching(path, query, context, settings)

    return search_files
