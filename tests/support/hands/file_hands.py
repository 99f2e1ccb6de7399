"""The tools of the plugin files without a host: called as it calls them, in a workspace of the test."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from pluggent_files.plugin import Files
from pluggent_files.settings import FilesSettings
from pluggent_hookspecs import TOOL_MARK, CallPreview, ProvideEvent, ToolOutput


class Context:
    """What a tool is lent: a workspace, and what a person agreed to."""

    turn_id = call_id = idempotency_key = channel = chat_id = ""

    def __init__(self, workspace: Path | None, session_id: str = "s1") -> None:
        self.workspace = workspace
        self.session_id = session_id
        self.approved_state = ""
        self.private_folders: tuple[Path, ...] = ()
        self.cancelled = False

    def remaining_s(self) -> float:
        return 60.0


class Hands:
    """The tools of one plugin, in the folder *workspace*."""

    def __init__(self, workspace: Path, **settings: Any) -> None:
        self.workspace = workspace
        self.context = Context(workspace)
        settings.setdefault("trash", "never")
        plugin = Files(FilesSettings(**settings))
        self.tools: dict[str, Callable[..., Any]] = {
            tool.__name__: tool for tool in plugin.provide_tools(ProvideEvent())
        }

    def call(self, name: str, **arguments: Any) -> ToolOutput:
        """Call a tool; what it refuses is a ToolError."""
        output: ToolOutput = self.tools[name](context=self.context, **_paths(arguments))
        return output

    def __call__(self, name: str, **arguments: Any) -> str:
        """Call a tool and return what the model reads."""
        output = self.call(name, **arguments)
        assert isinstance(output.for_model, str)
        return output.for_model

    def edit(self, path: str, old: str, new: str, **more: Any) -> str:
        """Make one replacement."""
        return self("edit_file", path=path, edits=[{"old_text": old, "new_text": new, **more}])

    def preview(self, name: str, **arguments: Any) -> CallPreview:
        """Return what a person would be shown before a call."""
        mark: Any = getattr(self.tools[name], TOOL_MARK)
        made: CallPreview = mark.preview(context=self.context, **_paths({**DEFAULTS.get(name, {}), **arguments}))
        return made

    def approved(self, name: str, **arguments: Any) -> ToolOutput:
        """Call a tool as if a person had agreed to what its preview shows now."""
        self.context.approved_state = self.preview(name, **arguments).state
        try:
            return self.call(name, **arguments)
        finally:
            self.context.approved_state = ""

    def undo(self, output: ToolOutput) -> None:
        """Make the calls that undo *output*."""
        for each in output.undo:
            self.call(each.tool, **dict(each.arguments))


DEFAULTS: dict[str, dict[str, Any]] = {
    "read_file": {"start_line": 1, "end_line": None},
    "list_files": {"path": ".", "depth": 1, "include_ignored": False, "skip": 0},
    "delete_file": {"recursive": False, "sha256": ""},
    "restore_file": {"encoding": "utf-8", "mode": None},
}


def _paths(arguments: dict[str, Any]) -> dict[str, Any]:
    return {name: Path(value) if name in ("path", "to") else value for name, value in arguments.items()}


def tree(folder: Path) -> dict[str, bytes | None]:
    """Return every file below *folder* with its content, and every folder."""
    return {
        str(path.relative_to(folder)): None if path.is_dir() else path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if not path.is_symlink()
    }
