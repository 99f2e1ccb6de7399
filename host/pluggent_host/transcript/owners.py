"""Whose a stored session is, and who may open it. Pure but for one line in the log."""

from __future__ import annotations

import logging
from time import time

from pluggent_hookspecs.errors import SessionOwnerError

from pluggent_host.settings import Grants
from pluggent_host.transcript.entries import SessionAdopted
from pluggent_host.transcript.rebuild import Rebuilt

CLAIMED = "claimed:"
"""How a principal begins that only a client itself names: no rule about a proven one fits it."""

log = logging.getLogger("pluggent.sessions")


def scoped(principal: str | None, *, claimed: bool) -> tuple[str, bool]:
    """Return the principal as scopes have it, and whether it is only claimed.

    >>> scoped("alice", claimed=True), scoped("claimed:bob", claimed=False), scoped("", claimed=True)
    (('claimed:alice', True), ('claimed:bob', True), ('', True))
    """
    name = principal or ""
    if name.startswith(CLAIMED):
        return name, True
    return (f"{CLAIMED}{name}" if claimed and name else name), claimed


def refusal(
    session_id: str, past: Rebuilt, principal: str, grants: Grants, *, claimed: bool
) -> SessionOwnerError | None:
    """Return why *principal* may not open the session of *past*; None if it may."""
    if not past.began:
        return None
    own = not past.claimed and past.principal in ("", principal)
    granted = bool(principal) and principal in grants.sessions
    if not claimed and (own or granted):
        return None
    return SessionOwnerError(session_id, past.principal, by=principal, claimed=past.claimed, unproven=claimed)


def adopted(session_id: str, past: Rebuilt, principal: str) -> tuple[SessionAdopted, ...]:
    """Return the entry that gives a session without an owner to *principal*; none for other sessions."""
    if not past.began or past.principal or past.claimed or not principal:
        return ()
    log.warning("session '%s' had no owner and belongs to '%s' from now on", session_id, principal)
    return (SessionAdopted(principal, time()),)
