"""What exactly a call would run, where, and how confined; the same for the preview and the run."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import attrs
from pluggent_hookspecs import ToolContext, ToolError
from pluggent_process_engine.confinement import choose, home_secrets
from pluggent_process_engine.environment import INHERITED
from pluggent_process_engine.mechanisms import Mechanisms
from pluggent_process_engine.program import Confined, Confinement, ConfinementError, Limits, Program, check_variables

from pluggent_shell.repositories import repositories, settings_of
from pluggent_shell.settings import Confine, ShellSettings

QUIET = {
    "CI": "1", "GIT_PAGER": "cat", "GIT_TERMINAL_PROMPT": "0", "NO_COLOR": "1", "PAGER": "cat", "TERM": "dumb",
}  # fmt: skip
"""Environment of a program whose output is read later, and that no person answers."""
_DECIDING = ("pluggent.toml", ".mcp.json")
"""Files in a workspace that decide what runs later, outside of any confinement."""
_TMP = "/tmp"  # noqa: S108 (inside a confinement it is private)
_WAY_OUT_S = 4.0
"""What is left of the host's time limit for the end of a command and its result."""


@attrs.frozen(kw_only=True)
class Plan:
    """A command that could run now."""

    command: str | tuple[str, ...]
    program: Program
    confined: Confined
    workspace: Path
    repositories: tuple[Path, ...]
    """Those in the workspace, if it is confined."""
    added: Mapping[str, str]
    """The environment that the settings add."""
    limited_by_host: bool

    @property
    def state(self) -> str:
        """A digest of all that a person agrees to: a command approved as confined never runs otherwise."""
        confinement = self.program.confinement
        writable = [] if confinement is None else sorted(map(str, confinement.writable))
        facts = [self.command, self.program.argv, str(self.program.cwd), self.confined.how, self.confined.network,
                 writable, sorted(self.added.items())]  # fmt: skip
        return hashlib.sha256(json.dumps(facts).encode()).hexdigest()


def plan_of(
    settings: ShellSettings,
    found: Mechanisms,
    command: str | Sequence[str],
    context: ToolContext,
    private_tmp: Path,
    *,
    cwd: Path | None,
    timeout_s: float | None,
    network: bool,
) -> Plan:
    """Return what the call would run. Raises ToolError for what cannot run. Looks at folders: blocks shortly."""
    workspace = Path(os.path.realpath(context.workspace or Path.cwd()))
    folder = Path(os.path.realpath(workspace / (cwd or "")))
    if not folder.is_dir():
        raise ToolError(f"cwd {str(cwd or workspace)!r} is not a folder")
    argv = _argv(settings, command)
    wanted: Confinement | None = None
    inside: tuple[Path, ...] = ()
    if settings.confinement is not Confine.OFF:
        required = settings.confinement is Confine.REQUIRED
        inside = repositories(workspace)
        wanted = confinement_of(
            settings, workspace, private_tmp, network=network, required=required, private=context.private_folders,
            found=inside,
        )  # fmt: skip
    try:
        confined = choose(wanted, found)
    except ConfinementError as error:
        raise ToolError(
            f"{error}; the setting confinement = 'required' of pluggent-shell forbids to run it so"
        ) from error
    limit = min(timeout_s or settings.timeout_s, settings.max_timeout_s)
    left = max(1.0, context.remaining_s() - _WAY_OUT_S)
    program = Program(
        argv, cwd=folder, env=_environment(settings, confined, private_tmp), confinement=wanted,
        limits=Limits(wall_s=min(limit, left), output_bytes=settings.output_bytes, processes=settings.processes),
    )  # fmt: skip
    return Plan(
        command=command if isinstance(command, str) else tuple(command), program=program, confined=confined,
        workspace=workspace, repositories=inside if confined.how != "none" else (),
        added=dict(settings.env), limited_by_host=left < limit,
    )  # fmt: skip


def _argv(settings: ShellSettings, command: str | Sequence[str]) -> tuple[str, ...]:
    if not isinstance(command, str):
        if not command or not command[0]:
            raise ToolError("the command is empty; its first entry has to be a program")
        return tuple(command)
    if not command.strip():
        raise ToolError("the command is empty")
    # A line that begins with a dash would be read as an option.
    return (settings.shell, "-c", f" {command}" if command[0] in "-+" else command)


def _environment(settings: ShellSettings, confined: Confined, private_tmp: Path) -> dict[str, str]:
    env = dict(QUIET)
    if confined.how != "none":
        env["TMPDIR"] = _TMP if confined.how == "bubblewrap" else str(private_tmp)
    if not _reads_utf8(os.environ):
        env["LC_ALL"] = "C.UTF-8"
    asked = {name: os.environ[name] for name in settings.inherit if name in os.environ and name not in INHERITED}
    check_variables(asked)
    return {**env, **asked, **settings.env}


def _reads_utf8(environ: Mapping[str, str]) -> bool:
    """Return whether programs read UTF-8, or ASCII: in other encodings a quote may be half of a character."""
    locale = environ.get("LC_ALL") or environ.get("LC_CTYPE") or environ.get("LANG") or "C"
    return locale in ("C", "POSIX") or locale.lower().replace("-", "").partition(".")[2].startswith("utf8")


def confinement_of(
    settings: ShellSettings,
    workspace: Path,
    private_tmp: Path,
    *,
    network: bool,
    required: bool,
    private: Sequence[Path] = (),
    found: Sequence[Path] = (),
) -> Confinement:
    """Return what confined commands may reach in *workspace*.

    *private* are the folders of the host, *found* are the repositories in the workspace.
    """
    writable = [path for path in (workspace, *settings.writable) if path != Path("/")]
    return Confinement(
        # As a place of its own the folder of a repository cannot be renamed, and its settings with it.
        writable=(*writable, *(git for git in found if git.is_dir() and not git.is_symlink())),
        read_only=(*_deciding(workspace, writable), *settings_of(found)),
        hidden=(
            *home_secrets(Path.home()),
            *_private(os.environ),
            *private,
            *settings.hidden,
            private_tmp.parent.parent,
        ),
        private_tmp=private_tmp,
        network=network or settings.network,
        required=required,
    )


def _deciding(workspace: Path, writable: Sequence[Path]) -> Iterator[Path]:
    for name in _DECIDING:
        if (path := workspace / name).exists() and not path.is_symlink():
            yield path
    # The code of this very process: what is written there runs unconfined with the next start.
    prefix = Path(os.path.realpath(sys.prefix))
    if any(prefix.is_relative_to(path) and prefix != path for path in writable):
        yield prefix


def _private(environ: Mapping[str, str]) -> Iterator[Path]:
    """Yield the folders of the host's state, settings and data where they are not in the usual place."""
    for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"):
        if (given := environ.get(name, "")).startswith("/"):
            yield Path(given) / "pluggent"
