"""The host of pluggent: finds plugins and runs agent turns with them, under their policies.

A name is imported when it is first used, so that importing this package costs next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # for type checkers; at run time __getattr__ below does it
    from pluggent_hookspecs.decisions import Approval as Approval

    from pluggent_host.approvals.pending import Pending as Pending
    from pluggent_host.attachments import audio as audio, file as file, image as image
    from pluggent_host.hooks.event_bus import EventStream as EventStream
    from pluggent_host.host import Host as Host
    from pluggent_host.operations.memory import Memory as Memory
    from pluggent_host.session import OfferedTool as OfferedTool, Session as Session
    from pluggent_host.settings import (
        Grants as Grants,
        HostSettings as HostSettings,
        LimitChanges as LimitChanges,
        Limits as Limits,
        Selection as Selection,
        Timeouts as Timeouts,
        ToolLimits as ToolLimits,
    )
    from pluggent_host.sync import SyncHost as SyncHost, SyncSession as SyncSession
    from pluggent_host.transcript.undo import Exchange as Exchange
    from pluggent_host.turns.options import TurnOptions as TurnOptions
    from pluggent_host.turns.result import TurnResult as TurnResult, TurnStream as TurnStream
    from pluggent_host.turns.step import Why as Why

__version__ = "0.1.0"

_WHERE = {
    "Approval": "approvals.pending",
    "EventStream": "hooks.event_bus",
    "Exchange": "transcript.undo",
    "Grants": "settings",
    "Host": "host",
    "HostSettings": "settings",
    "LimitChanges": "settings",
    "Limits": "settings",
    "Memory": "operations.memory",
    "Pending": "approvals.pending",
    "OfferedTool": "session",
    "Selection": "settings",
    "Session": "session",
    "Timeouts": "settings",
    "SyncHost": "sync",
    "SyncSession": "sync",
    "ToolLimits": "settings",
    "TurnOptions": "turns.options",
    "TurnResult": "turns.result",
    "TurnStream": "turns.result",
    "Why": "turns.step",
    "audio": "attachments",
    "file": "attachments",
    "image": "attachments",
}

__all__ = [  # noqa: PLE0604 (strings, from the table above)
    "__version__",
    *_WHERE,
]  # pyright: ignore[reportUnsupportedDunderAll] (a test compares it with the typed names above)


def __getattr__(name: str) -> Any:
    try:
        module = _WHERE[name]
    except KeyError:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
    value = getattr(import_module(f"{__name__}.{module}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
