"""One stored session as text, for other programs or for people."""

from __future__ import annotations

from typing import Literal

from pluggent_hookspecs.errors import SessionError

from pluggent_cli.sessions.store import Sessions
from pluggent_cli.terminal.console import json_text


def export_session(sessions: Sessions, id: str, form: Literal["json", "markdown"] = "json") -> str:
    r"""Return the session *id* as one JSON document, which export.py describes, or as Markdown for people.

    In it is what came out of the hooks. Takes no lease: a session in use is returned as far as it has come. Raises
    SessionError if there is no such session, it cannot be read, or it is damaged.

    >>> import json
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from pluggent_host import SyncHost
    >>> with TemporaryDirectory() as state:
    ...     with SyncHost.open(model="offline/demo", state_dir=state) as host, host.session("trip") as session:
    ...         _ = session.say("weather city=Paris")
    ...     document = json.loads(export_session(Sessions.in_files(Path(state, "sessions")), "trip"))
    >>> document["id"], [message["role"] for message in document["turns"][0]["messages"]]
    ('trip', ['user', 'assistant'])
    """
    # Here and not above: listing and searching need no converter of all types.
    from pluggent_cli.sessions.export import as_document, as_markdown
    from pluggent_cli.sessions.reader import read_session  # the same

    session = read_session(sessions, id)
    if session.problem:
        raise SessionError(f"{session.problem}; what comes before is shown by: pluggent sessions show {id}")
    return as_markdown(session) if form == "markdown" else f"{json_text(as_document(session))}\n"
