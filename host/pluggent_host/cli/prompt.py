"""What the person wants to say: from the arguments, from standard input, or from both."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from pluggent_hookspecs.errors import ConfigError

STANDARD_INPUT = "-"


def read_prompt(words: Sequence[str]) -> str:
    """Return *words* as one text; ``-`` among them, or no word at all, is standard input.

    Raises ConfigError for what is empty or no UTF-8 text, and instead of waiting for a terminal.

    >>> read_prompt(["what", "is", "this?"])
    'what is this?'
    """
    at = words.index(STANDARD_INPUT) if STANDARD_INPUT in words else len(words)
    pieces = [" ".join(words[:at])]
    if not words or at < len(words):
        pieces += [_standard_input(asked=bool(words)), " ".join(words[at + 1 :])]
    text = "\n\n".join(filter(None, pieces))
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ConfigError("PROMPT", ["is not UTF-8 text"]) from error
    if not text.strip():
        raise ConfigError("PROMPT", ['is empty; say something: pluggent run "weather city=Beijing"'])
    return text


def _standard_input(*, asked: bool) -> str:
    if sys.stdin is None:
        raise ConfigError("PROMPT", ["there is none, and standard input is closed"])
    if sys.stdin.isatty() and not asked:
        raise ConfigError("PROMPT", ['say something: pluggent run "weather city=Beijing", or pipe it in'])
    try:
        return sys.stdin.buffer.read().decode("utf-8-sig").strip("\n")
    except UnicodeDecodeError as error:
        raise ConfigError("standard input", [f"is not UTF-8 text (byte {error.start})"]) from error
    except OSError as error:
        raise ConfigError("standard input", [f"cannot be read: {error.strerror}"]) from error
