"""Puts a prompt together: what was typed, standard input, files, a template, and attachments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import attrs
from pluggent_hookspecs.errors import ConfigError
from pluggent_hookspecs.messages import Part, Text

from pluggent_cli.inputs.reading import (
    FROM_STANDARD_INPUT,
    STANDARD_INPUT,
    Say,
    is_piped,
    is_typed,
    read_standard_input,
)
from pluggent_cli.inputs.texts import ATTACH, framed, read_text

if TYPE_CHECKING:  # for those who use one
    from pluggent_cli.inputs.templates import PromptTemplate

_NOTHING = 'say something: pluggent run "weather city=Beijing", or pipe it in'


@attrs.frozen
class Given:
    """What a person gave for one prompt; see the options of ``pluggent run``."""

    words: Sequence[str]
    files: Sequence[str] = ()
    attachments: Sequence[str] = ()
    images: Sequence[str] = ()
    template: PromptTemplate | None = None
    parameters: Mapping[str, str] = attrs.field(factory=dict[str, str])


def read_prompt(given: Given, say: Say) -> tuple[str | Part, ...]:
    """Return the content of the message: its text, then the parts that are no text.

    ``-`` among the words is standard input, as if it had been typed there; so is what is piped in where there are
    neither words nor a template. Otherwise it follows the words as data. Raises ConfigError for what is empty, cannot
    be read, or is not text.
    """
    if given.template is not None:
        given.template.check(given.parameters)
    spliced = FROM_STANDARD_INPUT in given.words
    attaches = FROM_STANDARD_INPUT in given.attachments
    if [*given.words, *given.attachments].count(FROM_STANDARD_INPUT) > 1:
        raise ConfigError(STANDARD_INPUT, ["is named more than once by -; it can be read once"])
    nothing_else = not (given.files or given.attachments or given.images)
    alone = not (given.words or given.template or attaches) and (nothing_else or is_piped())
    typed = _whole_input(say) if alone else _typed(given.words, say)
    parts = _attached(given, say)
    data = [part.text for part in parts if isinstance(part, Text)]
    if not (spliced or attaches or alone) and is_piped():
        piped = _standard_input(say)
        if piped.strip():
            data.append(framed(piped, STANDARD_INPUT))
    text = _filled(given, typed, data)
    others = tuple(part for part in parts if not isinstance(part, Text))
    _check(text, others)
    return (text, *others)


def _attached(given: Given, say: Say) -> tuple[Part, ...]:
    if not (given.files or given.attachments or given.images):
        return ()
    from pluggent_cli.inputs.attachments import attached  # here and not above: most turns have none

    return attached(given.attachments, given.images, say, given.files)


def _typed(words: Sequence[str], say: Say) -> str:
    """Return *words* as one text, with standard input in place of ``-``."""
    if FROM_STANDARD_INPUT not in words:
        return " ".join(words)
    at = words.index(FROM_STANDARD_INPUT)
    pieces = (" ".join(words[:at]), _standard_input(say), " ".join(words[at + 1 :]))
    return "\n\n".join(filter(None, pieces))


def _whole_input(say: Say) -> str:
    if is_typed():
        raise ConfigError("PROMPT", [_NOTHING])
    return _standard_input(say)


def _standard_input(say: Say) -> str:
    data = read_standard_input(say)
    return read_text(data, STANDARD_INPUT, ATTACH.format(FROM_STANDARD_INPUT)).strip("\n")


def _filled(given: Given, typed: str, data: Sequence[str]) -> str:
    text = "\n\n".join(filter(None, (typed, *data)))
    if given.template is None:
        return text
    if given.template.takes_input and not text.strip():
        raise ConfigError(f"template {given.template.name}", ["needs a text for $input: type it or pipe it in"])
    return given.template.filled(text, given.parameters)


def _check(text: str, parts: Sequence[Part]) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ConfigError("PROMPT", ["is not UTF-8 text"]) from error
    if not text.strip() and not parts:
        raise ConfigError("PROMPT", [f"is empty; {_NOTHING}"])
