"""The host of pluggent: finds plugins and runs agent turns with them, under their policies.

A name is imported when it is first used, so that importing this package costs next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # for type checkers; at run time __getattr__ below does it
    from pluggent_contract_values.question_fields import Field as Field, FieldKind as FieldKind, Option as Option
    from pluggent_hookspecs.attachments import audio as audio, file as file, image as image
    from pluggent_hookspecs.decisions import Approval as Approval
    from pluggent_plugin_loader.settings import Selection as Selection
    from pluggent_transcript.limits import LimitChanges as LimitChanges, Limits as Limits, ToolLimits as ToolLimits
    from pluggent_transcript.pending import Pending as Pending
    from pluggent_transcript.rebuild import Exchange as Exchange
    from pluggent_transcript.stored import StoredSession as StoredSession, StoredSessions as StoredSessions

    from pluggent_host.batches import HostBatches as HostBatches
    from pluggent_host.hooks.event_bus import EventStream as EventStream
    from pluggent_host.host import Host as Host
    from pluggent_host.operations.batch import Batch as Batch, NoBatches as NoBatches
    from pluggent_host.operations.memory import Memory as Memory
    from pluggent_host.operations.token_count import NoTokenCount as NoTokenCount
    from pluggent_host.session import OfferedTool as OfferedTool, Session as Session
    from pluggent_host.settings import (
        Grants as Grants,
        HostSettings as HostSettings,
        Timeouts as Timeouts,
    )
    from pluggent_host.sync import SyncBatches as SyncBatches, SyncHost as SyncHost, SyncSession as SyncSession
    from pluggent_host.turns.next_step import Why as Why
    from pluggent_host.turns.options import TurnOptions as TurnOptions
    from pluggent_host.turns.result import TurnResult as TurnResult, TurnStream as TurnStream

__version__ = "0.1.0"

_MODULES = {
    "batches": "HostBatches",
    "hooks.event_bus": "EventStream",
    "host": "Host",
    "operations.batch": "Batch NoBatches",
    "operations.memory": "Memory",
    "operations.token_count": "NoTokenCount",
    "session": "OfferedTool Session",
    "settings": "Grants HostSettings Timeouts",
    "sync": "SyncBatches SyncHost SyncSession",
    "turns.options": "TurnOptions",
    "turns.result": "TurnResult TurnStream",
    "turns.next_step": "Why",
}
_ELSEWHERE = {
    "pluggent_contract_values.question_fields": "Field FieldKind Option",
    "pluggent_hookspecs.attachments": "audio file image",
    "pluggent_hookspecs.decisions": "Approval",
    "pluggent_plugin_loader.settings": "Selection",
    "pluggent_transcript.limits": "LimitChanges Limits ToolLimits",
    "pluggent_transcript.pending": "Pending",
    "pluggent_transcript.rebuild": "Exchange",
    "pluggent_transcript.stored": "StoredSession StoredSessions",
}
_WHERE = {name: f"{__name__}.{module}" for module, names in _MODULES.items() for name in names.split()} | {
    name: module for module, names in _ELSEWHERE.items() for name in names.split()
}

__all__ = ["__version__", *_WHERE]  # noqa: PLE0604 (strings)  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    try:
        module = _WHERE[name]
    except KeyError:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
    value = getattr(import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
