"""Writes distributions as pip would leave them on disk, and sites that hold them: dist-info, entry points, modules."""

import asyncio
import base64
import hashlib
import importlib
import json
import sys
import textwrap
from collections.abc import AsyncGenerator, Callable, Generator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, Literal

import pluggy
import pytest
from pluggent_hookspecs import HOOKS, PluginContext, PluginLoadError, hookimpl
from pluggent_plugin_loader.catalog import PluginRecord, catalog
from pluggent_plugin_loader.discovery import Discovery, discover
from pluggent_plugin_loader.settings import Selection

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


class Living:
    """A plugin with a lifetime that writes down when it was opened and left."""

    def __init__(self, name: str, diary: list[str]) -> None:
        self.name = name
        self.diary = diary

    @asynccontextmanager
    async def open(self, context: PluginContext) -> AsyncGenerator[None, None]:
        await asyncio.sleep(0)
        self.diary.append(f"open {self.name}")
        try:
            yield
        finally:
            await asyncio.sleep(0)
            self.diary.append(f"leave {self.name}")

    @hookimpl
    def decide_input(self, event: Any) -> None:
        return None


SITE_HEADER = """
import asyncio
from contextlib import asynccontextmanager
from pluggent_hookspecs import Deny, hookimpl, tool
"""
SITE_POLICY = (
    SITE_HEADER
    + """
class Plugin:
    @hookimpl
    def decide_tool_call(self, event):
        return Deny('no')
"""
)
POLICY_THAT_FAILS_TO_OPEN = (
    SITE_POLICY
    + """
    @asynccontextmanager
    async def open(self, context):
        raise ValueError("no connection")
        yield
"""
)
TOOLS = (
    SITE_HEADER
    + """
@tool(effects=())
async def ping() -> str:
    "Answer."
    return "pong"

class Plugin:
    @hookimpl
    def provide_tools(self, event):
        return [ping]
"""
)


class Site:
    """A folder of installed distributions."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def add(self, name: str, entry: str, source: str, **more: Any) -> None:
        module = name.replace("-", "_")
        install(self.folder, name, {entry: f"{module}:Plugin"}, modules={module: textwrap.dedent(source)}, **more)

    def found(self) -> Discovery:
        return discover([str(self.folder)])


def states(on: Any) -> Mapping[str, str]:
    return {record.id: state for record, state, _ in on.host.plugins}


CASE_HEADER = "import attrs\nfrom pluggent_hookspecs import hookimpl, Secret\n"


def record_of(
    site: Path, source: str, *, entry: str = "hooks/guard", value: str = "acme_guard:Plugin",
    requires: Sequence[str] = NEEDS,
) -> PluginRecord:  # fmt: skip
    """Install a distribution ``acme-guard`` with one module and return its record."""
    install(site, "acme-guard", {entry: value}, version="1.2", modules={"acme_guard": source}, requires=requires)
    (record,) = catalog(discover([str(site)]), Selection(), "0.1.0").records
    return record


def contents(manager: pluggy.PluginManager) -> object:
    """Return all that a manager holds, for comparison."""
    impls = {name: [impl.plugin_name for impl in getattr(manager.hook, name).get_hookimpls()] for name in HOOKS}
    return [name for name, _ in manager.list_name_plugin()], impls, sorted(vars(manager.hook))


def refusal(manager: pluggy.PluginManager, action: Callable[[], object]) -> str:
    """Return what the error says; the manager must be as it was."""
    before = contents(manager)
    with pytest.raises(PluginLoadError) as caught:
        action()
    assert contents(manager) == before
    assert caught.value.__cause__ is not None
    return str(caught.value)
