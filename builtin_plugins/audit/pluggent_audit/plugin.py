"""The plugin: a sink of records."""

from __future__ import annotations

import os
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

from pluggent_hookspecs import DecisionMade, Observation, PluginContext, PluginStateChanged, hookimpl

from pluggent_audit.chain import Head
from pluggent_audit.event_json import Converter
from pluggent_audit.file_access import folder_of
from pluggent_audit.log import Log
from pluggent_audit.settings import AuditSettings


class Audit:
    """The plugin behind the entry point ``audit``: it writes a line for each record.

    The log is open from the first record, or the start of the host, to the end of the host.
    """

    Settings = AuditSettings

    def __init__(
        self,
        settings: AuditSettings = AuditSettings(),  # noqa: B008 (frozen)
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._log: Log | None = None
        self._converter: Converter | None = None
        self._head = Head()
        self._closed = False

    @property
    def head(self) -> Head:
        """Number and hash of the last line: keep it elsewhere, and give it to ``pluggent audit verify --head``."""
        return self._head if self._log is None else self._log.head

    @asynccontextmanager
    async def open(self, context: PluginContext) -> AsyncGenerator[None, None]:
        """Open the log. Raises ConfigError if it cannot be kept, or a secret cannot be read."""
        self._closed = False
        self._opened()
        try:
            yield
        finally:
            self.close()
            self._closed = True

    @hookimpl
    def write_record(self, event: Observation) -> None:
        """Write a line. Raises OSError if it could not be written."""
        if self._closed and isinstance(event, PluginStateChanged):
            return  # the host tells that this plugin is closed, and those before it: LogClosed says so already
        log, converter = self._opened()
        log.append(type(event).__name__, converter.convert(event), decision=type(event) is DecisionMade)

    def close(self) -> None:
        """Write that the log is closed, and let others write it."""
        if self._log is not None:
            log, self._log = self._log, None
            log.close()
            self._head = log.head

    def _opened(self) -> tuple[Log, Converter]:
        if self._log is None or self._converter is None:
            settings = self._settings
            self._converter = Converter(settings, tuple(secret.reveal() for secret in settings.secrets))
            key = None if settings.key is None else settings.key.reveal().encode()
            self._log = Log(folder_of(settings, os.environ), settings, key, self._clock)
        return self._log, self._converter
