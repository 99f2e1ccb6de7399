"""Stored sessions as they are read, searched, answered, explained and exported.

``Sessions``, ``search_sessions`` and ``export_session`` are public, for other programs.
"""

from pluggent_cli.sessions.portable import export_session
from pluggent_cli.sessions.search import Found, Unreadable, search_sessions
from pluggent_cli.sessions.store import Sessions

__all__ = ["Found", "Sessions", "Unreadable", "export_session", "search_sessions"]
