"""Confines the calling process by Landlock, and by namespaces of network and mounts where it may make them. Linux.

Landlock knows permissions only, and nothing inside a permitted folder can be taken out. So a folder with hidden
files below is never permitted as a whole: its other entries are, one by one, and it cannot be listed.
Standard library alone: ``launch`` calls it in the process that then becomes the program.
"""

from __future__ import annotations

import ctypes
import errno
import os
import socket
import stat
import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_VERSION = 1
_PATH_BENEATH = 1
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1, 2, 4, 8
_FS_BITS = {1: 13, 2: 14, 3: 15, 4: 15}
"""How many rights over files each ABI knows; later ones know 16."""
_FILE_RIGHTS = _EXECUTE | _WRITE_FILE | _READ_FILE | 1 << 14 | 1 << 15
_READ = _EXECUTE | _READ_FILE | _READ_DIR
_TCP = 3
_SCOPES = 3
TCP_ABI = 4
_SCOPED_ABI = 6
_NO_NEW_PRIVS, _CAPBSET_DROP = 38, 24
_KEPT_CAPABILITIES = {0, 1, 3}
"""CHOWN, DAC_OVERRIDE, FOWNER: what root needs for files of others; the kernel still asks Landlock."""
_NEW_NETWORK, _NEW_USER, _NEW_MOUNTS = 0x4000_0000, 0x1000_0000, 0x0002_0000
_PRIVATE, _BIND, _NO_PROGRAMS = 0x4_4000, 0x1000, 0xE
"""Flags of mount(2): MS_REC | MS_PRIVATE; MS_BIND; MS_NOSUID | MS_NODEV | MS_NOEXEC."""
_LINKS_IN_RUN = ("/run/current-system", "/run/opengl-driver", "/run/booted-system")
"""Where NixOS has its programs."""
_REMOUNT, _READ_ONLY, _SAME_FLAGS = 0x20, 0x1, 0xC0E
_RELATIVE_TIMES, _RELATIVE_TIMES_SHOWN = 0x20_0000, 0x1000
"""MS_REMOUNT, MS_RDONLY; MS_NOSUID to MS_NOEXEC, MS_NOATIME and MS_NODIRATIME; MS_RELATIME and ST_RELATIME."""
SOCKET_FOLDERS = ("/run", "/tmp/.X11-unix")  # noqa: S108 (covered)
_GET_FLAGS, _SET_FLAGS, _UP = 0x8913, 0x8914, 1
DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
"""All that is permitted of /dev. Not pts: the terminal of the person is there, to be written and read."""
_SHARED_MEMORY = "/dev/shm"  # noqa: S108 (without it no semaphores, and no pool of processes)
NOT_SHARED = ("/dev", "/tmp", "/var/tmp")  # noqa: S108 (their contents are refused)
"""Folders that are not permitted as a whole: devices, and files of other programs."""


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _call(number: int, *arguments: Any) -> int:
    result = int(_libc().syscall(ctypes.c_long(number), *arguments))
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


def _prctl(option: int, value: int) -> None:
    none = ctypes.c_ulong(0)
    if _libc().prctl(ctypes.c_int(option), ctypes.c_ulong(value), none, none, none):
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def abi() -> int:
    """Return the version of Landlock in this kernel, 0 if there is none."""
    try:
        return _call(_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(_VERSION))
    except OSError:
        return 0


def confine(wanted: Mapping[str, Any]) -> None:
    """Confine this process as *wanted*.

    That is ``writable``, ``readable`` and ``hidden``, lists of resolved paths that may be missing; ``network``;
    ``netns``, whether namespaces can be made; and ``mounts``, pairs of a path below a writable one and whether it
    is read-only, which needs namespaces. Raises OSError if any part of it fails.
    """
    if wanted["netns"]:
        leave([*wanted["writable"], *wanted["readable"]], network=not wanted["network"])
        for path, read_only in wanted["mounts"]:
            _mount_on_itself(path, read_only=read_only)
    if os.geteuid() == 0:
        _drop_capabilities()
    _prctl(_NO_NEW_PRIVS, 1)
    version = abi()
    rights = (1 << _FS_BITS.get(version, 16)) - 1
    # In a network namespace of its own there is only loopback, which tests of servers need.
    tcp = _TCP if version >= TCP_ABI and not wanted["network"] and not wanted["netns"] else 0
    scopes = _SCOPES if version >= _SCOPED_ABI else 0
    attributes = struct.pack("=QQQ", rights, tcp, scopes)
    ruleset = _call(_CREATE_RULESET, attributes, ctypes.c_size_t(len(attributes)), ctypes.c_uint32(0))
    try:
        for path in _without("/", [*wanted["hidden"], *NOT_SHARED]):
            _permit(ruleset, path, _READ & rights)
        for folder in wanted["readable"]:
            for path in _without(folder, wanted["hidden"]):
                _permit(ruleset, path, _READ & rights)
        for name in DEVICES:
            _permit(ruleset, f"/dev/{name}", rights)
        for folder in (_SHARED_MEMORY, *wanted["writable"]):
            for path in _without(folder, wanted["hidden"]):
                _permit(ruleset, path, rights)
        _call(_RESTRICT_SELF, ctypes.c_int(ruleset), ctypes.c_uint32(0))
    finally:
        os.close(ruleset)


def _permit(ruleset: int, path: str, rights: int) -> None:
    """Permit *rights* on *path* and all below; what is not there, or is a link, is passed over."""
    try:
        descriptor = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    except (FileNotFoundError, PermissionError, NotADirectoryError):
        return
    try:
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISLNK(mode):
            return
        given = rights if stat.S_ISDIR(mode) else rights & _FILE_RIGHTS
        rule = struct.pack("=Qi", given, descriptor)
        _call(_ADD_RULE, ctypes.c_int(ruleset), ctypes.c_int(_PATH_BENEATH), rule, ctypes.c_uint32(0))
    except OSError as error:
        if error.errno != errno.EBADFD:  # a file of a kind that Landlock does not rule over, such as a pipe
            raise
    finally:
        os.close(descriptor)


def _without(folder: str, hidden: Sequence[str]) -> Iterator[str]:
    """Yield *folder* if nothing of *hidden* is in it, else its entries without these, and so on below.

    So nothing new can be made next to what is hidden.
    """
    inside = [path for path in hidden if path == folder or path.startswith(folder.rstrip("/") + "/")]
    if not inside:
        yield folder
    elif folder not in inside:
        with suppress(OSError):
            for entry in os.scandir(folder):
                # A link would permit what it leads to; that is permitted, or not, in its own place.
                if not entry.is_symlink():
                    yield from _without(entry.path, inside)


def _drop_capabilities() -> None:
    for capability in range(64):
        if capability not in _KEPT_CAPABILITIES:
            try:
                _prctl(_CAPBSET_DROP, capability)
            except OSError as error:
                if error.errno == errno.EINVAL:  # this kernel knows no more of them
                    return
                raise


def leave(used: Sequence[str], *, network: bool) -> None:
    """Move this process into namespaces of its own: mounts, and a *network* with loopback alone. Raises OSError.

    Landlock does not rule over connections to sockets in the file system, so the folders of services' sockets
    are covered, those with a folder of *used* in them excepted.
    """
    user, group = os.geteuid(), os.getegid()
    wanted = _NEW_MOUNTS | (_NEW_NETWORK if network else 0)
    try:
        _unshare(wanted)
    except OSError:
        _unshare(wanted | _NEW_USER)
        _write("/proc/self/setgroups", "deny")
        _write("/proc/self/uid_map", f"{user} {user} 1")
        _write("/proc/self/gid_map", f"{group} {group} 1")
    _cover_sockets(used)
    if network:
        _loopback_up()


def _cover_sockets(used: Sequence[str]) -> None:
    """Cover SOCKET_FOLDERS, but none with a folder of *used* in it; names of other computers stay known."""
    _mount(None, "/", None, _PRIVATE)
    links = {path: os.readlink(path) for path in _LINKS_IN_RUN if os.path.islink(path)}  # noqa: PTH114, PTH115 (pathlib costs 5 ms)
    names = os.path.realpath("/etc/resolv.conf")
    found = _contents(names) if names.startswith("/run/") else None
    for folder in SOCKET_FOLDERS:
        in_use = any(path == folder or path.startswith(f"{folder}/") for path in used)
        if not in_use and os.path.isdir(folder) and not os.path.islink(folder):  # noqa: PTH112, PTH114 (as above)
            _mount("tmpfs", folder, "tmpfs", _NO_PROGRAMS)
    with suppress(OSError):  # where /run is in use all of it is still there
        for path, target in links.items():
            os.symlink(target, path)  # noqa: PTH211 (as above)
    if found is not None and not os.path.exists(names):  # noqa: PTH110 (as above)
        os.makedirs(os.path.dirname(names))  # noqa: PTH103, PTH120 (as above)
        _write(names, found)


def _mount_on_itself(path: str, *, read_only: bool) -> None:
    """Make *path* a place of its own, which cannot be renamed, if it is there."""
    if not os.path.exists(path):  # noqa: PTH110 (as above)
        return
    _mount(path, path, None, _BIND)
    if read_only:
        # Those that are set already must stay, in a namespace of a user.
        flags = os.statvfs(path).f_flag
        kept = flags & _SAME_FLAGS | (_RELATIVE_TIMES if flags & _RELATIVE_TIMES_SHOWN else 0)
        _mount(None, path, None, _BIND | _REMOUNT | _READ_ONLY | kept)


def _contents(path: str) -> str | None:
    with suppress(OSError), open(path, encoding="utf-8", errors="replace") as file:  # noqa: PTH123 (as above)
        return file.read()
    return None


def _mount(source: str | None, target: str, kind: str | None, flags: int) -> None:
    texts = [None if text is None else os.fsencode(text) for text in (source, target, kind)]
    if _libc().mount(*texts, ctypes.c_ulong(flags), None):
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def _unshare(what: int) -> None:
    if _libc().unshare(ctypes.c_int(what)):
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="utf-8") as file:  # noqa: PTH123 (as above)
        file.write(text)


def _loopback_up() -> None:
    import fcntl  # it is not on Windows

    with suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        answer = fcntl.ioctl(any_socket, _GET_FLAGS, struct.pack("16sh14x", b"lo", 0))
        flags = struct.unpack("16sh14x", answer)[1]
        fcntl.ioctl(any_socket, _SET_FLAGS, struct.pack("16sh14x", b"lo", flags | _UP))
