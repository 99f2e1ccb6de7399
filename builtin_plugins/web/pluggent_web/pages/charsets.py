"""Decides in which charset a text is written, as browsers do: byte order mark, header, meta, UTF-8. Pure."""

from __future__ import annotations

import codecs
import re

_MARKS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_HEAD = 1024
_META = re.compile(rb"<meta[^>]{0,500}?charset\s*=\s*[\"']?\s*([A-Za-z0-9_:.-]{1,40})", re.IGNORECASE)
_HEADER = re.compile(r"charset\s*=\s*[\"']?([A-Za-z0-9_:.-]{1,40})", re.IGNORECASE)
_FALLBACK = "cp1252"

_CODECS = {
    **{f"iso8859-{number}": f"iso8859-{number}" for number in (2, 3, 4, 5, 6, 7, 8, 10, 13, 14, 15, 16)},
    **{f"cp{number}": f"cp{number}" for number in (1250, 1251, 1252, 1253, 1254, 1255, 1256, 1257, 1258, 866, 874)},
    "ascii": "cp1252", "iso8859-1": "cp1252", "iso8859-9": "cp1254", "iso8859-11": "cp874", "tis-620": "cp874",
    "utf-8": "utf-8", "utf-16-le": "utf-16-le", "utf-16": "utf-16-le", "utf-16-be": "utf-16-be",
    "gb2312": "gb18030", "gbk": "gb18030", "gb18030": "gb18030", "big5": "big5hkscs", "big5hkscs": "big5hkscs",
    "shift_jis": "cp932", "cp932": "cp932", "euc_jp": "euc_jp", "iso2022_jp": "iso2022_jp",
    "euc_kr": "cp949", "cp949": "cp949", "koi8-r": "koi8-r", "koi8-u": "koi8-u", "mac-roman": "mac-roman",
}  # fmt: skip
"""By Python's name the codec that browsers use (WHATWG Encoding, 4.2). UTF-7 is not one of them: in it, ASCII
text hides markup."""


def decode(body: bytes, content_type: str = "", *, markup: bool = False) -> tuple[str, str]:
    r"""Return the text of *body* and the name of its charset. Never fails: wrong bytes become U+FFFD.

    >>> decode(b"caf\xe9", "text/plain; charset=latin-1"), decode("café".encode())
    (('café', 'cp1252'), ('café', 'utf-8'))
    """
    for mark, name in _MARKS:
        if body.startswith(mark):
            return body[len(mark) :].decode(name, "replace"), name
    in_header = _HEADER.search(content_type)
    said = _codec(in_header[1]) if in_header else ""
    if not said and markup and (in_head := _META.search(body[:_HEAD])):
        said = _codec(in_head[1].decode("ascii"))
        # What says in ASCII that it is UTF-16 is not.
        said = "utf-8" if said.startswith("utf-16") else said
    if said:
        return body.decode(said, "replace"), said
    try:
        return body.decode("utf-8"), "utf-8"
    except UnicodeDecodeError as error:
        # Cut at the end is not wrong.
        cut = error.start >= len(body) - 3 and error.reason == "unexpected end of data"
        name = "utf-8" if cut else _FALLBACK
        return body.decode(name, "replace"), name


def _codec(label: str) -> str:
    try:
        return _CODECS.get(codecs.lookup(label).name, "")
    except LookupError:
        return ""
