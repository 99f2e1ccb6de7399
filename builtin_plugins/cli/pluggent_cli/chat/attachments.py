"""What goes along with the next message of a chat, and how it is listed."""

from __future__ import annotations

from collections.abc import Callable

import attrs
from pluggent_contract_values.escape import escape_all
from pluggent_hookspecs.messages import Audio, File, Image, Part, Text


@attrs.frozen
class Attached:
    """A part and the path or URL that it was made of, "" if that is not known."""

    part: Part
    name: str = ""

    @property
    def shown(self) -> str:
        """Kind, size and name, for a list."""
        return " ".join(filter(None, (f"{self._kind}{self._size}", escape_all(self.name))))

    @property
    def _kind(self) -> str:
        return type(self.part).__name__.lower()

    @property
    def _size(self) -> str:
        match self.part:
            case Image(data=str(data)) | Audio(data=data) | File(data=str(data)):
                return f" ({shown_bytes(len(data) * 3 // 4 - data[-2:].count('='))})"
            case Text(text=text):
                return f" ({len(text):,} characters)"
            case _:
                return ""


def shown_bytes(count: int) -> str:
    """Return *count* bytes in words.

    >>> shown_bytes(800), shown_bytes(12_345), shown_bytes(5_000_000)
    ('800 bytes', '12 kB', '5.0 MB')
    """
    if count < 1000:  # noqa: PLR2004 (a kilobyte)
        return f"{count} bytes"
    return f"{count / 1000:.0f} kB" if count < 1_000_000 else f"{count / 1e6:.1f} MB"  # noqa: PLR2004 (a megabyte)


def attach(name: str, say: Callable[[str], None]) -> Attached:
    """Return what is at the path or URL *name*; *say* tells what takes long. Blocks. Raises ConfigError."""
    # Here and not above: most chats attach nothing.
    from pluggent_cli.inputs.attachments import attach as part_at

    return Attached(part_at(f"./{name}" if name == "-" else name, say), name)
