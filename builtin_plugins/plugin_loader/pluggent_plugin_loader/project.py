"""Says which paths lie in the project: the working directory and below, without the interpreter's own folders.

A cloned repository is not a source of plugins, so discovery and loading both ask here. Imports only
modules that Python has imported at its start.
"""

# As discovery.py: every start pays for this file, and pathlib costs 4 ms to import:
# ruff: noqa: PTH120, PTH123

import os
import site
import sys
from collections.abc import Sequence


def roots(project: str | None = None) -> tuple[str, ...]:
    """Return the working directory and *project* as real paths, without ``/``."""
    places = dict.fromkeys((real(""), real(project) if project else ""))
    return tuple(place for place in places if place and place != os.path.dirname(place))


def real(path: str) -> str:
    """Return *path* without links, the working directory for ``""``, and ``""`` for an invalid path."""
    try:
        return os.path.realpath(path)
    except (OSError, ValueError):  # the working directory was deleted; a null character
        return ""


def below(path: str, folder: str) -> bool:
    """Say whether *path* is *folder* or lies below it."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def in_project(place: str, roots: Sequence[str]) -> bool:
    """Say whether *place*, a real path, lies below one of *roots* and does not belong to the interpreter."""
    return any(below(place, root) for root in roots) and not is_own(place, roots)


def is_own(place: str, roots: Sequence[str]) -> bool:
    """Say whether *place* belongs to the running interpreter, which may be ./.venv, or to the folder of the host.

    Code planted in the host's folder (``pip install --target ./lib``) could be planted into the host.
    A project below a prefix such as /usr or /opt/conda is not the interpreter's. sysconfig's purelib and
    platlib are among these places; importing it costs 1.5 ms.
    """
    host = os.path.dirname(os.path.dirname(__file__))
    for own in map(os.path.realpath, (*site.getsitepackages(), site.getusersitepackages(), host)):
        if place == own or (below(place, own) and not any(below(root, own) for root in roots)):
            return True
    prefixes = {os.path.realpath(prefix) for prefix in (sys.prefix, sys.exec_prefix)}
    return any(below(place, prefix) and not any(below(root, prefix) for root in roots) for prefix in prefixes)


def python_path() -> tuple[str, ...]:
    """Return the elements of ``PYTHONPATH``; none if Python ignores it."""
    given = os.environ.get("PYTHONPATH", "")
    return tuple(given.split(os.pathsep)) if given and not sys.flags.ignore_environment else ()


def is_editable(location: str, place: str) -> bool:
    """Say whether the dist-info folder *location* is an editable installation of a folder around *place*."""
    try:
        with open(f"{location}/direct_url.json", "rb") as file:
            data = file.read()
    except OSError:
        return False
    import json  # 1.5 ms, and only for what is found twice or in the project
    from urllib.parse import unquote  # the same

    try:
        origin = json.loads(data)
        folder = unquote(str(origin["url"]).removeprefix("file://"))
        return bool(origin["dir_info"]["editable"]) and below(place, os.path.realpath(folder))
    except (ValueError, KeyError, TypeError):
        return False


def is_foreign(origin: str, module: str, location: str, roots: Sequence[str]) -> bool:
    """Say whether *origin*, in the project, shadows *module* of a distribution installed elsewhere, in *location*."""
    place = real(origin)
    if not in_project(place, roots):
        return False
    top, base = module.partition(".")[0], os.path.dirname(location)
    return not (_holds(base, top, origin) or _holds(real(base), top, place) or is_editable(location, place))


def _holds(base: str, top: str, file: str) -> bool:
    """Say whether *file* is, or belongs to, the module *top* in the folder *base*."""
    first = file.removeprefix(f"{base.rstrip('/')}/").partition("/")[0]
    return below(file, base) and first.partition(".")[0] == top
