"""Opens a host and a session as ``run`` does, asks no model and keeps nothing: what that refuses, a run refuses."""

from __future__ import annotations

from pluggent_hookspecs.errors import PluggentError

from pluggent_cli import process
from pluggent_cli.host_access import Setup, check_missing, open_host
from pluggent_cli.process import collected_log


def refusal(setup: Setup) -> tuple[PluggentError | None, tuple[str, ...]]:
    """Return the error with which a run would end before it begins, if it would, and what it would warn of."""
    with collected_log() as log:
        try:
            check_missing(setup)
            setup.model_named(setup.settings.model)
            process.run(_opened(setup))
        except PluggentError as error:
            return error, tuple(log.lines)
    return None, tuple(log.lines)


async def _opened(setup: Setup) -> None:
    if setup.settings.sessions:
        async with open_host(setup, remembering=False):
            pass  # the store is there
    unsaved = setup._replace(settings=setup.settings._replace(sessions=""))
    async with open_host(unsaved, remembering=False, tools=("*",)) as host, await host.session(origin="cli"):
        pass
