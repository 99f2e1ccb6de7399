"""Sessions on disk, as the host writes them."""

import os
from pathlib import Path

from pluggent_hookspecs import DecisionMade, Message, Usage
from pluggent_hookspecs.events import Scope
from pluggent_hookspecs.messages import ToolCall
from pluggent_hookspecs.observations import Change, Vote
from pluggent_host.transcript.entries import Decided, Entry, Said, SessionBegan, Settled, Spending, TurnBegan, TurnOver
from transcript_file import FileTranscript

CALL = ToolCall("c1", "weather", '{"city": "Beijing", "unit": "fahrenheit"}')
DECISION = DecisionMade(
    Scope("trip", "t1"), "tool_call", "t1.0.0", "digest", "allow", "host", "declared pure",
    "acme-weather:tool/weather", "c1", b'{"city":"Beijing","unit":"celsius"}',
    votes=(Vote("acme-policy", "none"),), changes=(Change("acme-policy", ("unit",), "s3cret", "celsius"),),
)  # fmt: skip


def turn(said: str, answered: str, id: str = "t1", at_s: float = 2.5) -> tuple[Entry, ...]:
    """Return a turn without tools."""
    return (
        TurnBegan(id, at_s, "cli"),
        Said(id, Message.user(said)),
        Spending(id, "scripted/m", Usage(3, 4)),
        Said(id, Message.assistant(answered)),
        TurnOver(id, "completed", usage=Usage(3, 4)),
    )


def tool_turn(result: str = "17 °C", id: str = "t1") -> tuple[Entry, ...]:
    """Return a turn with one call, whose arguments a policy changed."""
    return (
        TurnBegan(id, 2.5, "cli"),
        Said(id, Message.user("what is the weather?")),
        Said(id, Message.assistant((), (CALL,))),
        Decided(DECISION),
        Settled(id, "c1", Message.tool(CALL, result)),
        Said(id, Message.assistant("it is windy")),
        TurnOver(id, "completed"),
    )


def save(folder: Path, id: str, *entries: Entry, system: str = "", modified_s: float | None = None) -> Path:
    """Write a session and return its file."""
    transcript = FileTranscript(folder, id)
    transcript.append(SessionBegan(id, 1.5, "scripted/m", system), *entries)
    transcript.close()
    if modified_s is not None:
        os.utime(transcript.path, (modified_s, modified_s))
    return transcript.path
