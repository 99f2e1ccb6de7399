"""The store of sessions that the settings name, as the commands ask it: every call returns when it is answered.

Where the settings name none, sessions are files in the state folder and no plugin is loaded. Listing
and searching those import the standard library alone.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, Awaitable, Callable, Coroutine, Generator, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from pluggent_hookspecs.errors import ConfigError
from pluggent_hookspecs.sessions import Line, ListedSession, SessionPage, SessionQuery, SessionStore
from pluggent_plugin_loader.suggestions import did_you_mean
from pluggent_state_files.listing import FOLDER, SUFFIX
from pluggent_state_files.store import FileStore

from pluggent_cli.host_access import Setup

if TYPE_CHECKING:  # a store of files answers at once, and listing them does without
    import asyncio

    from pluggent_hookspecs.markers import MaybeAsync  # the same

T = TypeVar("T")

_PAGE = 1_000
_NAMED = 5


class Sessions:
    """One store. A store that answers later is asked and waited for in *loop*.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as state:
    ...     sessions = Sessions.in_files(Path(state, "sessions"))
    ...     list(sessions.all())
    []
    """

    def __init__(self, store: SessionStore, loop: asyncio.Runner | None = None) -> None:
        self.store = store
        self._loop = loop

    @classmethod
    def in_files(cls, folder: Path) -> Sessions:
        """Return those in *folder*."""
        return cls(FileStore(folder))

    def ask(self, question: Callable[[], MaybeAsync[T]]) -> T:
        """Return what the store answers to *question*, which is put inside of the loop, if there is one."""
        return self.finish(_answer(question))

    def finish(self, work: Coroutine[Any, Any, T]) -> T:
        """Return the outcome of *work*, which asks the store and waits for nothing else."""
        if self._loop is not None:
            return self._loop.run(work)
        try:
            work.send(None)
        except StopIteration as done:
            return cast("T", done.value)
        raise RuntimeError(f"the store '{self.store.name}' answers later and needs a loop")

    @property
    def folder(self) -> str:
        """Where sessions in files are; empty for another store."""
        return str(self.store.folder) if isinstance(self.store, FileStore) else ""

    @property
    def where(self) -> str:
        """The place of all sessions, for messages."""
        return self.folder or f"the store '{self.store.name}'"

    def place(self, id: str) -> str:
        """Return the place of one session, for messages."""
        return f"{Path(self.folder, id)}{SUFFIX}" if self.folder else f"{self.store.name}:{id}"

    # ---- which there are -----------------------------------------------------------------

    def first(self, most: int) -> SessionPage:
        """Return in one page, and in brief, the *most* sessions that were last written to; all of them for 0."""
        query = SessionQuery(limit=most or _PAGE, brief=True)
        page = self._page(query)
        while page.cursor is not None and (not most or len(page.sessions) < most):
            left = most - len(page.sessions) if most else _PAGE
            more = self._page(query._replace(cursor=page.cursor, limit=left))
            page = more._replace(sessions=(*page.sessions, *more.sessions))
        return page

    def all(self, prefix: str = "", *, brief: bool = False) -> Iterator[ListedSession]:
        """Yield every session whose id begins with *prefix*, the one last written to first."""
        query = SessionQuery(prefix, _PAGE, brief=brief)
        while True:
            page = self._page(query)
            yield from page.sessions
            if page.cursor is None:
                return
            query = query._replace(cursor=page.cursor)

    def _page(self, query: SessionQuery) -> SessionPage:
        return self.ask(lambda: self.store.list(query))

    def matching(self, beginning: str) -> tuple[str, ...]:
        """Return the ids that *beginning* may mean: the session of that name, else all that begin so."""
        ids = [one.id for one in self.all(beginning, brief=True)] if beginning else []
        return (beginning,) if beginning in ids else tuple(sorted(ids))

    def named(self, command: str, beginning: str) -> str:
        """Return the id of the session that *beginning*, typed for *command*, means. Raises ConfigError."""
        ids = self.matching(beginning)
        if len(ids) == 1:
            return ids[0]
        if not ids:
            meant = did_you_mean(beginning, (one.id for one in self.all(brief=True))) or f" in {self.where}"
            raise ConfigError(f"pluggent {command}", [f"there is no session {beginning!r}{meant}"])
        more = f" and {len(ids) - _NAMED} more" if len(ids) > _NAMED else ""
        problem = f"{beginning!r} may be {', '.join(ids[:_NAMED])}{more}; write more of it"
        raise ConfigError(f"pluggent {command}", [problem])

    # ---- one of them ---------------------------------------------------------------------

    def lines(self, id: str) -> Iterable[Line]:
        """Return the lines of a session, without its lease. Raises SessionError if there is none."""
        return self.finish(_read(self.store, id))

    def check(self, id: str) -> None:
        """Raise SessionError if there is no session *id*: opening one to write would make it."""
        for _ in self.lines(id):
            return

    def delete(self, id: str) -> None:
        """Remove a session under its lease."""
        self.ask(lambda: self.store.delete(id))


async def _answer(question: Callable[[], MaybeAsync[T]]) -> T:
    answer = question()
    return await cast("Awaitable[T]", answer) if isinstance(answer, Awaitable) else answer


async def _read(store: SessionStore, id: str) -> Iterable[Line]:
    answer = store.read(id)
    found = await answer if isinstance(answer, Awaitable) else answer
    return [line async for line in found] if isinstance(found, AsyncIterable) else found


@contextmanager
def open_sessions(setup: Setup) -> Generator[Sessions]:
    """Open the store that *setup* names. Raises ConfigError and PluginError if it cannot be used."""
    name = setup.settings.sessions
    if not name:
        yield Sessions.in_files(setup.state_dir / FOLDER)
        return
    # Here and not above, with everything behind it: sessions in files need neither a loop nor a plugin.
    import asyncio

    from pluggent_host import __version__  # the same
    from pluggent_host.plugins.lookup import Capabilities  # the same
    from pluggent_host.plugins.registry import PluginSet  # the same

    with asyncio.Runner() as loop:
        plugins = PluginSet(setup.catalog(), setup.settings, __version__)
        try:
            yield Sessions(loop.run(Capabilities(plugins, setup.settings).sessions(name)), loop)
        finally:
            loop.run(plugins.aclose())
