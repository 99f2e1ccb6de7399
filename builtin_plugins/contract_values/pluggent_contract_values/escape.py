"""Escapes text of models, tools and plugins for a terminal."""

_BREAKS = frozenset("\n\t")
_UNSEEN = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0") | {
    chr(code) for codes in (range(0x180B, 0x1810), range(0xFE00, 0xFE10), range(0xE0100, 0xE01F0)) for code in codes
}
"""Printable for Python, invisible in terminals: fillers, joiners, variation selectors."""
_REDIRECTING = frozenset("\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def escape_all(text: str) -> str:
    r"""Return *text* with all but visible characters escaped: control, bidirectional, invisible ones, line breaks.

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
    r"""Return *text* with control and bidirectional characters escaped, line breaks and tabs kept.

    >>> escape_controls("two\nlines\x1b]0;title")
    'two\nlines\\x1b]0;title'
    """
    if text.isprintable():
        return text
    return "".join(c.encode("unicode_escape", "surrogatepass").decode() if _is_harmful(c) else c for c in text)


def _is_harmful(character: str) -> bool:
    is_control = character < " " or "\x7f" <= character < "\xa0" or "\ud800" <= character <= "\udfff"
    return character in _REDIRECTING or (is_control and character not in _BREAKS)
