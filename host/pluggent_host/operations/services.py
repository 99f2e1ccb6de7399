"""What a host lends to every operation and turn."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator

import attrs
from pluggent_hookspecs.events import Scope
from pluggent_hookspecs.memory import MemoryAccess
from pluggent_hookspecs.observations import Observation

from pluggent_host.common.threads import Threads
from pluggent_host.hooks.caller import Caller
from pluggent_host.hooks.chains import Chains
from pluggent_host.hooks.event_bus import EventStreams
from pluggent_host.operations.memory import Settle
from pluggent_host.operations.operation import Journal
from pluggent_host.operations.pipeline import Operations
from pluggent_host.plugins.lookup import Model
from pluggent_host.settings import HostSettings


@attrs.frozen(eq=False)
class Services:
    """What every turn of a host shares."""

    operations: Operations
    caller: Caller
    threads: Threads
    chains: Chains
    settings: HostSettings
    tell: Callable[[Observation], None]
    memory: Callable[[str, Journal, Scope, Iterator[int], Settle], MemoryAccess]
    watchers: EventStreams
    model: Callable[[str], Awaitable[Model]]
