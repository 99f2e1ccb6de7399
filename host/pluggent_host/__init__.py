"""The host of pluggent: finds plugins and runs agent turns with them, under their policies.

A name is imported when it is first used, so that importing this package costs next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from pluggent_host.version import VERSION as __version__  # noqa: N811 (the name that tools look for)

if TYPE_CHECKING:  # for type checkers; at run time __getattr__ below does it
    from pluggent_hookspecs.decisions import Approval as Approval

    from pluggent_host.attachments import audio as audio, file as file, image as image
    from pluggent_host.host import Host as Host
    from pluggent_host.limiting import LimitChanges as LimitChanges
    from pluggent_host.memories import Memory as Memory
    from pluggent_host.pausing import Pending as Pending
    from pluggent_host.saying import TurnOptions as TurnOptions
    from pluggent_host.session import OfferedTool as OfferedTool, Session as Session
    from pluggent_host.settings import (
        Grants as Grants,
        HostSettings as HostSettings,
        Limits as Limits,
        Selection as Selection,
        Timeouts as Timeouts,
        ToolLimits as ToolLimits,
    )
    from pluggent_host.step import Why as Why
    from pluggent_host.sync import SyncHost as SyncHost, SyncSession as SyncSession
    from pluggent_host.turn_result import TurnResult as TurnResult
    from pluggent_host.turn_stream import TurnStream as TurnStream
    from pluggent_host.undoing import Exchange as Exchange
    from pluggent_host.watchers import EventStream as EventStream

_WHERE = {
    "Approval": "pausing",
    "EventStream": "watchers",
    "Exchange": "undoing",
    "Grants": "settings",
    "Host": "host",
    "HostSettings": "settings",
    "LimitChanges": "limiting",
    "Limits": "settings",
    "Memory": "memories",
    "Pending": "pausing",
    "OfferedTool": "session",
    "Selection": "settings",
    "Session": "session",
    "Timeouts": "settings",
    "SyncHost": "sync",
    "SyncSession": "sync",
    "ToolLimits": "settings",
    "TurnOptions": "saying",
    "TurnResult": "turn_result",
    "TurnStream": "turn_stream",
    "Why": "step",
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
        room = _WHERE[name]
    except KeyError:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
    value = getattr(import_module(f"{__name__}.{room}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
