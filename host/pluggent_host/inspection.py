"""What front ends (the command, the test kit) look at beyond the public names of the package.

Not for applications: no promise is given for these. Nothing is defined here.
"""

from pluggent_host.assembly import look_around
from pluggent_host.hooks.order import Chains, Impl, build
from pluggent_host.host import DEFAULT_MODEL, Models, NoModelList
from pluggent_host.operations.question import Form, form_of
from pluggent_host.sync import SyncMemory, SyncTurnStream
from pluggent_host.turns.nested import FILTERS

__all__ = [
    "DEFAULT_MODEL",
    "FILTERS",
    "Chains",
    "Form",
    "Impl",
    "Models",
    "NoModelList",
    "SyncMemory",
    "SyncTurnStream",
    "build",
    "form_of",
    "look_around",
]
