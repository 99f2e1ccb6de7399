"""Which public methods lead into operations, and which do not and why: the registry that paths are held against."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping

from pluggent_hookspecs.commands import HostOperations
from pluggent_hookspecs.hooks import HOOKS
from pluggent_hookspecs.memory import MemoryAccess
from pluggent_hookspecs.tools import ToolContext
from pluggent_host.batches import HostBatches
from pluggent_host.host import Host
from pluggent_host.inspection import SyncMemory
from pluggent_host.session import Session
from pluggent_host.sync import SyncBatches, SyncHost, SyncSession

from pluggent_testing.paths.operations import NO_OPERATION as HOOKS_WITHOUT, EntryPath

PUBLIC: tuple[type, ...] = (
    Host, Session, SyncHost, SyncSession, SyncMemory, ToolContext, MemoryAccess, HostOperations,
    HostBatches, SyncBatches,
)  # fmt: skip
"""What applications, tools and commands hold in their hands."""

NO_OPERATION: Mapping[str, str] = {
    "Host.aclose": "it ends things",
    "Host.events": "it follows what has passed the hooks",
    "Host.load_all": "it loads plugins, and asks nothing of them",
    "Host.models": "a list of names, which no hook is about",
    "Host.parse_plan": "a plan is read, not run",
    "Host.tools": "it lists what would be offered",
    "Host.tools_changed": "it compares lists",
    **dict.fromkeys(
        (f"{batches}.{name}" for batches in ("HostBatches", "SyncBatches") for name in ("find", "state")),
        "it says what the vendor has of what was sent",
    ),
    **dict.fromkeys(("HostBatches.cancel", "SyncBatches.cancel"), "it ends things"),
    "HostOperations.changed": "it waits until lists differ",
    "Session.aclose": "it ends things",
    "Session.events": "it follows what has passed the hooks",
    "Session.listening": "it follows what has passed the hooks",
    "Session.records": "it reads what was recorded",
    "SyncHost.close": "it ends things",
    "SyncHost.models": "as Host.models",
    "SyncHost.parse_plan": "as Host.parse_plan",
    "SyncHost.tools": "as Host.tools",
    "SyncHost.tools_changed": "as Host.tools_changed",
    "SyncSession.close": "it ends things",
    "SyncSession.records": "it reads what was recorded",
    "SyncSession.put_back": "as Session.put_back, which is on a path; it calls that and nothing else",
    "SyncSession.undo": "as Session.undo, which is on a path; it calls that and nothing else",
    "SyncSession.use": "as Session.use, which is on a path; it calls that and nothing else",
    "ToolContext.log": "it tells observers the tool's own words, and nothing while hooks filter such words",
    "ToolContext.progress": "it tells observers a number and the tool's own words",
    "ToolContext.remaining_s": "it reads a clock",
}
"""Public methods through which nothing is asked, run, read or written, each with the reason."""


def methods(classes: Iterable[type] = PUBLIC) -> frozenset[str]:
    """Return the public methods of *classes*, as ``Class.method``. A property only reads, so it is none.

    >>> "Session.say" in methods(), "Session.history" in methods()
    (True, False)
    """
    return frozenset(
        f"{each.__name__}.{name}"
        for each in classes
        for name, value in inspect.getmembers_static(each)
        if not name.startswith("_") and not isinstance(value, property) and callable(getattr(each, name))
    )


def missing_entries(paths: Iterable[EntryPath], classes: Iterable[type] = PUBLIC) -> list[str]:
    """Return what is wrong with the registry: methods that it does not know, and names that are no methods."""
    known, entered = methods(classes), {name for path in paths for name in path.enters}
    wrong = [
        f"{name}: no path goes through it, and no reason says why not" for name in known - entered - {*NO_OPERATION}
    ]
    wrong += [f"{name}: it is on a path, and said to be no operation" for name in entered & {*NO_OPERATION}]
    wrong += [f"{name}: there is no such public method" for name in (entered | {*NO_OPERATION}) - known]
    return sorted(wrong)


def missing_hooks(paths: Iterable[EntryPath]) -> list[str]:
    """Return the hooks of the contract that no path knows, and the names that are not hooks (any more)."""
    known = {hook for path in paths for hook in path.hooks()} | {*HOOKS_WITHOUT}
    wrong = [f"{name}: no operation in paths/operations.py has it" for name in set(HOOKS) - known]
    wrong += [f"{name}: it is not a hook" for name in known - set(HOOKS)]
    return sorted(wrong)
