"""Text of models, tools and plugins for a person's eyes: what cannot be seen is escaped."""


def quoted(text: str) -> str:
    r"""Return *text* with everything escaped that is no visible character, line breaks included.

    Control, bidirectional and invisible characters can make a terminal show something else
    than what will run.

    >>> quoted("a\x1b[2Jb\n")
    'a\\x1b[2Jb\\n'
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in text)
