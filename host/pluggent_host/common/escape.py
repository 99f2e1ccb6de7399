"""Text of models, tools and plugins for a person's eyes: what cannot be seen is escaped."""

_BREAKS = frozenset("\n\t")
_UNSEEN = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0") | {
    chr(code) for codes in (range(0x180B, 0x1810), range(0xFE00, 0xFE10), range(0xE0100, 0xE01F0)) for code in codes
}
"""What Python takes for printable and no terminal shows: fillers, joiners, selectors of variants."""
_REDIRECTING = frozenset("\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def escape_all(text: str) -> str:
    r"""Return *text* with everything escaped that is not a visible character, line breaks included.

    Control, bidirectional and invisible characters can make a terminal show something else
    than what will run.

    >>> escape_all("a\x1b[2Jb\n")
    'a\\x1b[2Jb\\n'
    """
    if text.isprintable() and (text.isascii() or _UNSEEN.isdisjoint(text)):
        return text
    return "".join(
        c if c.isprintable() and c not in _UNSEEN else c.encode("unicode_escape", "surrogatepass").decode()
        for c in text
    )


def escape_controls(text: str) -> str:
    r"""Return *text* for a terminal: lines stay lines, control and direction characters are escaped.

    >>> print(escape_controls("two\nlines\x1b]0;title"))
    two
    lines\x1b]0;title
    """
    if text.isprintable():
        return text
    return "".join(c.encode("unicode_escape", "surrogatepass").decode() if _is_harmful(c) else c for c in text)


def _is_harmful(character: str) -> bool:
    if character in _BREAKS:
        return False
    is_control = character < " " or "\x7f" <= character < "\xa0" or "\ud800" <= character <= "\udfff"
    return is_control or character in _REDIRECTING
