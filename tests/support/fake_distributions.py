"""Writes distributions as pip would leave them on disk: dist-info, entry points, RECORD, modules."""

import base64
import hashlib
import importlib
import json
import sys
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

NEEDS = ("pluggent-hookspecs>=0.1,<0.2",)


def policy(hook: str, answer: str = "None") -> str:
    """Return the source of a plugin whose one hook returns *answer*."""
    return f"""
from pluggent_hookspecs import Ask, Deny, hookimpl

class Plugin:
    @hookimpl
    def {hook}(self, event):
        return {answer}
"""


POLICY = policy("decide_input")


def install(
    folder: Path,
    name: str,
    entries: Mapping[str, str] | None = None,
    *,
    version: str = "1.0",
    modules: Mapping[str, str] | None = None,
    requires: Sequence[str] = NEEDS,
    summary: str = "",
    metadata: Literal["dist-info", "egg-info"] = "dist-info",
    editable: Path | None = None,
) -> Path:
    """Write distribution *name* into *folder* and return its metadata folder.

    *entries* maps ``group/entry`` to ``module:attribute``, with the group without its
    ``pluggent.``: ``{"hooks/guard": "acme.plugin:Guard"}``. *modules* maps module names to
    source. *editable* is the folder of sources that an editable installation points to.
    """
    underscored = name.replace("-", "_")
    stem = f"{underscored}-{version}" if metadata == "dist-info" else underscored
    info = folder / f"{stem}.{metadata}"
    written = [_write(folder / f"{module.replace('.', '/')}.py", source) for module, source in (modules or {}).items()]
    fields = [("Metadata-Version", "2.4"), ("Name", name), ("Version", version), ("Summary", summary)]
    fields += [("Requires-Dist", requirement) for requirement in requires]
    text = "".join(f"{field}: {value}\n" for field, value in fields if value) + "\nName: not a header\n"
    written.append(_write(info / ("METADATA" if metadata == "dist-info" else "PKG-INFO"), text))
    if entries:
        written.append(_write(info / "entry_points.txt", entry_points(entries)))
    if editable is not None:
        origin = {"url": editable.as_uri(), "dir_info": {"editable": True}}
        written.append(_write(info / "direct_url.json", json.dumps(origin)))
    if metadata == "dist-info":
        _write(info / "RECORD", "".join(_record(path, folder) for path in written))
    return info


def entry_points(entries: Mapping[str, str]) -> str:
    """Return the text of entry_points.txt for ``{"hooks/guard": "acme.plugin:Guard"}``."""
    lines = ["[console_scripts]", "acme = acme:main", ""]
    for key, value in entries.items():
        group, _, name = key.partition("/")
        lines += [f"[pluggent.{group}]", f"{name} = {value}", ""]
    return "\n".join(lines)


@contextmanager
def importable(*folders: Path) -> Generator[None]:
    """Put *folders* in front of sys.path; afterwards forget them and every module from them."""
    before = list(sys.path)
    sys.path[:0] = [str(folder) for folder in folders]
    importlib.invalidate_caches()
    try:
        yield
    finally:
        sys.path[:] = before
        for name, module in list(sys.modules.items()):
            if any(str(getattr(module, "__file__", None)).startswith(str(folder)) for folder in folders):
                del sys.modules[name]
        importlib.invalidate_caches()


def _write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def _record(path: Path, folder: Path) -> str:
    data = path.read_bytes()
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    return f"{path.relative_to(folder).as_posix()},sha256={digest},{len(data)}\n"
