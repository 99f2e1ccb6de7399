from ipaddress import ip_address
from urllib.parse import urlsplit

import httpx2
import pytest
from hypothesis import given, strategies as st
from pluggent_web.urls import UrlError, follow, read_url


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("https://example.org", "https://example.org/"),
        ("HTTP://EXAMPLE.org:80/A?b=C#d", "http://example.org/A?b=C"),
        ("https://example.org.:443/", "https://example.org/"),
        ("http://example.org:8080/a%20b%2Fc", "http://example.org:8080/a%20b%2Fc"),
        ("https://[2606:4700::1111]:8443/x", "https://[2606:4700::1111]:8443/x"),
        ("https://münchen.example/straße?q=ü", "https://xn--mnchen-3ya.example/stra%C3%9Fe?q=%C3%BC"),
        ("https://example.org?a={b}|c", "https://example.org/?a=%7Bb%7D%7Cc"),
        ("http://8.8.8.8/", "http://8.8.8.8/"),
        ("https://a_b.example.org/", "https://a_b.example.org/"),
    ],
)
def test_a_url_is_read_in_one_form(text: str, read: str):
    assert str(read_url(text)) == read
    assert str(read_url(read)) == read


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("example.org/page", "whole URL"),
        ("//example.org/page", "whole URL"),
        ("file:///etc/passwd", r"file:// is not fetched"),
        ("ftp://example.org/", r"ftp:// is not fetched"),
        ("gopher://127.0.0.1:6379/_INFO", r"gopher:// is not fetched"),
        ("data:text/html,x", "whole URL"),
        ("javascript:alert(1)", "whole URL"),
        ("view-source:http://example.org", "whole URL"),
        ("http://user@example.org/", "user name or password"),
        ("http://user:pw@example.org/", "user name or password"),
        ("http://@example.org/", "user name or password"),
        ("http://good.example@127.0.0.1/", "user name or password"),
        ("http://good.example%40127.0.0.1/", "differently"),
        ("http://good.example\\@127.0.0.1/", "backslashes"),
        ("http:\\\\example.org", "backslashes"),
        ("http://example.org/a b", "blanks"),
        ("http://example.org/\r\nHost: evil", "invisible"),
        ("http://example.org/\x00", "invisible"),
        ("http://exam\u200bple.org/", "invisible"),
        ("http://example.org/\u202egpj.exe", "invisible"),
        ("http:///path", "no host"),
        ("http://:80/", "no host"),
        ("http://./", "not a host"),
        ("http://a..b/", "not a host"),
        ("http://-a.example/", "not a host"),
        ("http://a%2eexample/", "not a host"),
        ("http://faß.example/", "not a host"),
        ("http://[::1%25eth0]/", "not a host"),
        ("http://[::1%eth0]/", "not a host"),
        ("http://[::1/", "no host"),
        ("http://::1/", "no host"),
        ("http://[fe80::1]x/", "no host"),
        ("http://[127.0.0.1]/", "not a host"),
        ("http://127.1/", "differently"),
        ("http://2130706433/", "differently"),
        ("http://0x7f000001/", "differently"),
        ("http://0177.0.0.1/", "differently"),
        ("http://0x7f.1/", "differently"),
        ("http://127.0.0.0x1/", "differently"),
        ("http://1.2.3.4.5/", "differently"),
        ("http://999.1.1.1/", "differently"),
        ("http://example.org:0/", "no port"),
        ("http://example.org:65536/", "no port"),
        ("http://example.org:-1/", "no host"),
        ("http://example.org:8o/", "no host"),
        ("http://example.org:22/", "port 22 belongs"),
        ("http://example.org:25/", "port 25 belongs"),
        ("http://example.org:6667/", "port 6667 belongs"),
        ("http://example.org:10080/", "port 10080 belongs"),
        ("http://" + "a" * 64 + ".example/", "not a host"),
        ("http://example.org/" + "a" * 9000, "longer than"),
    ],
)
def test_what_programs_read_differently_is_refused(text: str, says: str):
    with pytest.raises(UrlError, match=says):
        read_url(text)


def test_full_width_and_other_digits_become_what_they_mean_before_they_are_judged():
    with pytest.raises(UrlError, match="differently"):
        read_url("http://\uff11\uff12\uff17.1/")
    assert read_url("http://\u2460\u2461\u2466.0.0.1/").host == "127.0.0.1"


@given(st.text())
def test_every_text_is_read_or_refused(text: str):
    for each in (text, f"http://{text}", f"https://example.org{text}", f"http://{text}/"):
        try:
            url = read_url(each)
        except UrlError:
            continue
        assert url.scheme in ("http", "https")
        assert str(url).isascii()
        assert str(url).isprintable()
        assert read_url(str(url)) == url


@given(st.from_regex(r"https?://[a-z0-9.\[\]:%@\\-]{1,20}(/[a-z%@:?]{0,10})?", fullmatch=True))
def test_what_is_read_means_the_same_to_other_parsers(text: str):
    try:
        url = read_url(text)
    except UrlError:
        return

    ours, theirs = urlsplit(str(url)), httpx2.URL(str(url))
    for host, port in ((str(ours.hostname), ours.port), (theirs.host, theirs.port)):
        try:
            assert ip_address(host) == ip_address(url.host)
        except ValueError:
            assert host == url.host
        assert (port or {"http": 80, "https": 443}[url.scheme]) == url.port


@pytest.mark.parametrize(
    ("location", "leads"),
    [
        ("/b", "http://example.org/b"),
        ("b?c", "http://example.org/dir/b?c"),
        ("//other.example/x", "http://other.example/x"),
        ("https://other.example", "https://other.example/"),
        ("../../..", "http://example.org/"),
        ("?q", "http://example.org/dir/a?q"),
        ("#part", "http://example.org/dir/a"),
        ("", "http://example.org/dir/a"),
    ],
)
def test_a_redirect_is_read_from_where_it_is_given(location: str, leads: str):
    assert str(follow(read_url("http://example.org/dir/a"), location)) == leads


@pytest.mark.parametrize(
    "location",
    ["file:///etc/passwd", "javascript:alert(1)", "data:text/html,x", "//user@a.example/", "http://[::1", "/\\evil"],
)
def test_a_redirect_that_is_no_url_of_the_web_is_refused(location: str):
    with pytest.raises(UrlError):
        follow(read_url("http://example.org/"), location)
