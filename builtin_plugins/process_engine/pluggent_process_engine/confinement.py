"""Chooses how a program is confined, and says it to the mechanism. Reads links and looks whether paths exist."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias

import attrs

from pluggent_process_engine.landlock import TCP_ABI
from pluggent_process_engine.mechanisms import Mechanisms
from pluggent_process_engine.program import Confined, Confinement, ConfinementError

HOME_SECRETS = (
    ".ssh", ".aws", ".gnupg", ".azure", ".kube", ".docker", ".config/gh", ".config/hub", ".config/gcloud", ".config/op",
    ".config/rclone", ".config/containers/auth.json", ".config/git/credentials", ".git-credentials", ".netrc", ".npmrc",
    ".yarnrc.yml", ".pypirc", ".config/pypoetry/auth.toml", ".cargo/credentials", ".cargo/credentials.toml",
    ".gem/credentials", ".m2/settings.xml", ".gradle/gradle.properties", ".terraform.d", ".terraformrc", ".vault-token",
    ".pgpass", ".my.cnf", ".s3cfg", ".password-store", ".local/share/keyrings", ".mozilla", ".config/google-chrome",
    ".config/chromium", ".config/BraveSoftware", ".thunderbird", ".bash_history", ".zsh_history", ".python_history",
    ".1password", ".boto", ".colima", ".codex", ".config/aichat", ".config/doctl", ".config/github-copilot",
    ".config/io.datasette.llm", ".config/sops", ".databrickscfg", ".cache/huggingface/token", ".fly", ".gemini",
    ".ICEauthority", ".kaggle", ".lima", ".oci", ".orbstack", ".rd", ".snowflake", ".Xauthority",
    ".config/pluggent", ".local/state/pluggent", ".local/share/pluggent",
)  # fmt: skip
"""What below the home folder usually holds keys, tokens, passwords and what a person typed."""

_SHOWN_OF_RUN = ("/run/current-system", "/run/opengl-driver")
"""What NixOS needs of /run; the rest of it is sockets of services that run without confinement."""
_KEPT_BY_ROOT = ("CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER")
_SETTINGS_IN_PROC = ("sys", "sysrq-trigger", "fs", "acpi", "scsi", "mtrr", "driver", "dynamic_debug")
_HIDDEN_SYSTEM = ("/run", "/var/tmp")  # noqa: S108 (their contents are replaced)

Action: TypeAlias = Literal["write", "read", "hide"]


def home_secrets(home: Path) -> tuple[Path, ...]:
    """Return the places of HOME_SECRETS below *home*."""
    return tuple(home / name for name in HOME_SECRETS)


def choose(wanted: Confinement | None, found: Mechanisms) -> Confined:
    """Return how a program with the confinement *wanted* is confined here.

    Raises ConfinementError if it is required and there is no mechanism, or none that keeps it from the network.
    """
    if wanted is None:
        return Confined("none", "host", "")
    if found.bubblewrap:
        return Confined("bubblewrap", "host" if wanted.network else "none")
    if not found.landlock:
        if wanted.required:
            raise ConfinementError(f"it cannot be confined: {found.why_not}, and this kernel has no Landlock")
        return Confined("none", "host", f"{found.why_not}, and this kernel has no Landlock")
    if wanted.network:
        return Confined("landlock", "host", found.why_not)
    if found.netns:
        return Confined("landlock", "none", found.why_not)
    why = f"{found.why_not}, and namespaces are not permitted"
    if wanted.required:
        raise ConfinementError(f"it cannot be kept from the network: {why}")
    return Confined("landlock", "no tcp" if found.landlock >= TCP_ABI else "host", why)


@attrs.frozen
class _Place:
    path: str
    action: Action


def landlock_rules(wanted: Confinement, found: Mechanisms, cwd: Path) -> dict[str, Any]:
    """Return what ``landlock.confine`` is given."""
    writable = [*wanted.writable, *([wanted.private_tmp] if wanted.private_tmp is not None else [])]
    mounts = [place for place in _in_order(wanted, cwd) if place.action != "hide" and _is_below(place, wanted.writable)]
    return {
        "writable": [os.path.realpath(path) for path in writable],
        "readable": [os.path.realpath(path) for path in (*wanted.read_only, cwd)],
        "hidden": [os.path.realpath(path) for path in wanted.hidden],
        "mounts": [(place.path, place.action == "read") for place in mounts],
        "network": wanted.network,
        "netns": found.netns,
    }


def bubblewrap_arguments(wanted: Confinement, cwd: Path, *, root: bool) -> Iterator[str]:
    """Yield the arguments of bubblewrap, up to the program; the word ``{status}`` is its --json-status-fd."""
    yield from ("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc")
    yield from ("--die-with-parent", "--unshare-pid", "--unshare-ipc", "--json-status-fd", "{status}")
    if not wanted.network:
        yield "--unshare-net"
    if root:
        # Root keeps all capabilities otherwise, and could mount what it likes.
        yield from ("--cap-drop", "ALL")
        for capability in _KEPT_BY_ROOT:
            yield from ("--cap-add", capability)
        # Files of /proc that root writes without any capability; bubblewrap 0.8 leaves /proc/sys open to it.
        for name in _SETTINGS_IN_PROC:
            yield from ("--ro-bind-try", f"/proc/{name}", f"/proc/{name}")
    closed: list[str] = []
    for path in _HIDDEN_SYSTEM:
        if os.path.isdir(path) and not os.path.islink(path):  # noqa: PTH112, PTH114 (constants)
            yield from ("--tmpfs", path)
    yield from _shown_of_run()
    if wanted.private_tmp is None:
        yield from ("--tmpfs", "/tmp")  # noqa: S108 (inside it is private)
    else:
        yield from ("--bind", str(wanted.private_tmp), "/tmp")  # noqa: S108 (as above)
    for place in _in_order(wanted, cwd):
        yield from _mounted(place, closed)
    for path in closed:
        yield from ("--remount-ro", path)
    yield from ("--chdir", str(cwd), "--")


def _shown_of_run() -> Iterator[str]:
    for path in _SHOWN_OF_RUN:
        yield from ("--ro-bind-try", path, path)
    names = os.path.realpath("/etc/resolv.conf")
    if names.startswith("/run/"):
        yield from ("--ro-bind-try", names, names)


def _mounted(place: _Place, closed: list[str]) -> Iterator[str]:
    try:
        is_folder = stat.S_ISDIR(os.stat(place.path).st_mode)  # noqa: PTH116 (resolved already)
    except OSError:
        return
    if place.action == "write":
        yield from ("--bind", place.path, place.path)
    elif place.action == "read":
        yield from ("--ro-bind", place.path, place.path)
    elif is_folder:
        closed.append(place.path)
        yield from ("--tmpfs", place.path)
    else:
        yield from ("--ro-bind", os.devnull, place.path)


def _in_order(wanted: Confinement, cwd: Path) -> list[_Place]:
    """Return the places of *wanted*, outer ones first, so that the deepest wins; and *cwd*, which may be in /tmp."""
    rank = {"write": 0, "read": 1, "hide": 2}
    places = {
        *_places(wanted.writable, "write"),
        *_places(wanted.read_only, "read"),
        *_places(wanted.hidden, "hide"),
    }
    here = Path(os.path.realpath(cwd))
    if not any(here.is_relative_to(place.path) for place in places):
        places.add(_Place(str(here), "read"))
    return sorted(places, key=lambda place: (place.path.rstrip("/").count("/"), rank[place.action], place.path))


def _is_below(place: _Place, folders: Iterable[Path]) -> bool:
    return any(
        Path(place.path).is_relative_to(real) for path in folders if place.path != (real := os.path.realpath(path))
    )


def _places(paths: Iterable[Path] | Sequence[Path], action: Action) -> Iterator[_Place]:
    return (_Place(os.path.realpath(path), action) for path in paths)
