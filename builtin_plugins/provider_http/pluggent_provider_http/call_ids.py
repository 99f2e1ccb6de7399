"""Ids of tool calls, where a server gives none or one twice."""

from __future__ import annotations

from pluggent_hookspecs import ModelRequest


class CallIds:
    """Gives every call of a reply an id of its own, also where the server gives none or one twice.

    A missing one becomes ``call_<n>``, the first that neither the reply nor the request's
    history has, so that a repeated request has the same ids.
    """

    def __init__(self, request: ModelRequest) -> None:
        self._request = request
        self._used: set[str] = set()
        self._history: frozenset[str] | None = None
        self._next = 0

    def unique(self, given: object) -> str:
        """Return *given* if it can stand, otherwise one that is new."""
        chosen = given if isinstance(given, str) and given and given not in self._used else self._made()
        self._used.add(chosen)
        return chosen

    def _made(self) -> str:
        if self._history is None:
            # Walks the history, but only for servers that give no ids.
            self._history = frozenset(call.id for message in self._request.messages for call in message.tool_calls)
        while (made := f"call_{self._next}") in self._used or made in self._history:
            self._next += 1
        return made
