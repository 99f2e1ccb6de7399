import codecs

import pytest
from hypothesis import given, strategies as st
from pluggent_web.pages.charsets import decode


@pytest.mark.parametrize(
    ("body", "header", "text"),
    [
        ("größe".encode(), "", "größe"),
        ("größe".encode("latin-1"), "text/html; charset=ISO-8859-1", "größe"),
        ("größe".encode("latin-1"), "", "größe"),
        (codecs.BOM_UTF8 + b"a", "text/html; charset=latin-1", "a"),
        (codecs.BOM_UTF16_LE + "ä€".encode("utf-16-le"), "", "ä€"),
        (codecs.BOM_UTF16_BE + "ä€".encode("utf-16-be"), "text/html; charset=utf-8", "ä€"),
        ("北京".encode("gbk"), 'text/html; charset="gb2312"', "北京"),
        ("日本".encode("cp932"), "text/html;charset=Shift_JIS", "日本"),
        ("Київ".encode("cp1251"), "text/html; charset=windows-1251", "Київ"),
        (b"\x80 5", "text/plain; charset=latin1", "€ 5"),
        ("größe".encode(), "text/html; charset=no-such", "größe"),
        (b"a\xff\xfe", "text/plain; charset=utf-8", "a��"),
    ],
)
def test_the_mark_goes_before_the_header_and_utf_8_before_a_guess(body: bytes, header: str, text: str):
    assert decode(body, header, markup=True)[0] == text


@pytest.mark.parametrize(
    "meta",
    [
        "<meta charset=cp1251>", '<META  CharSet="windows-1251" />', "<meta charset = 'cp1251'>",
        '<meta http-equiv="Content-Type" content="text/html; charset=windows-1251">',
    ],
)  # fmt: skip
def test_markup_may_say_its_charset_in_its_head(meta: str):
    body = f"<html><head>{meta}</head>Київ".encode("cp1251")

    assert "Київ" in decode(body, "text/html", markup=True)[0]
    assert "Київ" not in decode(body, "text/plain")[0]
    assert "Київ" not in decode(b" " * 1024 + body, "text/html", markup=True)[0]


@pytest.mark.parametrize("name", ["utf-7", "utf-32", "rot13", "idna", "punycode", "unicode_escape", "hex", "zlib"])
def test_a_charset_in_which_ascii_hides_something_is_not_used(name: str):
    body = b"+ADw-script+AD4- \\x3cscript\\x3e"

    assert decode(body, f"text/html; charset={name}", markup=True)[0] == body.decode()
    assert decode(b"<meta charset=" + name.encode() + b">" + body, markup=True)[0].endswith(body.decode())


def test_ascii_that_calls_itself_utf_16_is_utf_8():
    assert decode(b"<meta charset=utf-16>caf\xc3\xa9", markup=True)[0] == "<meta charset=utf-16>café"


@given(st.text(max_size=200))
def test_a_text_that_is_cut_inside_a_character_is_utf_8_still(text: str):
    body = ("é" + text + "é").encode("utf-8", "surrogatepass")[:-1]

    decoded, name = decode(body)
    try:
        ("é" + text).encode()
    except UnicodeEncodeError:
        return
    if not body.startswith((b"\xff\xfe", b"\xfe\xff")):
        assert (decoded, name) == ("é" + text + "�", "utf-8")


@given(st.binary(max_size=300), st.text(max_size=60), st.booleans())
def test_every_body_is_decoded(body: bytes, header: str, markup: bool):
    assert isinstance(decode(body, header, markup=markup)[0], str)


@given(st.binary(max_size=2000))
def test_a_head_of_any_bytes_is_read_in_no_time(noise: bytes):
    decode(b"<meta " * 200 + noise + b"<meta" + b" a" * 5000, markup=True)
