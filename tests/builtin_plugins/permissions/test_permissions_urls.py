"""URLs that one program reads so and another otherwise are never permitted, and forbidden by every rule on URLs."""

from typing import Any
from urllib.parse import quote, urlsplit

from each_of import each_of
from hypothesis import given, strategies as st
from permitting import both
from pluggent_permissions.urls import read_url

BOTH = (True, True)
FORBIDDEN_ONLY = (True, False)
NEITHER = (False, False)
GOOD = {"scheme": "https", "host": ["good.example", "*.good.example"]}


@each_of(
    ("wanted", "url", "expected"),
    [
        (GOOD, "https://good.example", BOTH),
        (GOOD, "HTTPS://GOOD.EXAMPLE/", BOTH),
        (GOOD, "https://good.example:8443/a?b#c", BOTH),
        (GOOD, "https://good.example?x=https://evil.example", BOTH),
        (GOOD, "https://good.example#@evil.example", BOTH),
        (GOOD, "http://good.example", NEITHER),
        (GOOD, "https://evil.example", NEITHER),
        (GOOD, "https://evil.example/https://good.example", NEITHER),
        (GOOD, "https://evil.example?good.example", NEITHER),
        (GOOD, "https://good.example.evil.example", NEITHER),
        (GOOD, "https://10.0.0.1", NEITHER),
        # One sees a user name, another a host.
        (GOOD, "https://good.example@evil.example", FORBIDDEN_ONLY),
        (GOOD, "https://evil.example@good.example", FORBIDDEN_ONLY),
        (GOOD, "https://user:secret@good.example/", FORBIDDEN_ONLY),
        (GOOD, "https://good.example%40evil.example", FORBIDDEN_ONLY),
        (GOOD, "https://good.example\uff20evil.example", FORBIDDEN_ONLY),
        (GOOD, "https://evil.example\\@good.example", FORBIDDEN_ONLY),
        (GOOD, "https://good.example\\.evil.example", FORBIDDEN_ONLY),
        (GOOD, "https:\\\\good.example", FORBIDDEN_ONLY),
        (GOOD, "https:/good.example", FORBIDDEN_ONLY),
        (GOOD, "https:good.example", FORBIDDEN_ONLY),
        (GOOD, "https:///good.example", FORBIDDEN_ONLY),
        (GOOD, "//good.example", FORBIDDEN_ONLY),
        (GOOD, "good.example", FORBIDDEN_ONLY),
        (GOOD, "/good.example", FORBIDDEN_ONLY),
        (GOOD, "", FORBIDDEN_ONLY),
        (GOOD, " https://good.example", FORBIDDEN_ONLY),
        (GOOD, "https://good.example ", FORBIDDEN_ONLY),
        (GOOD, "https://good.example\n.evil.example", FORBIDDEN_ONLY),
        (GOOD, "https://good.\texample", FORBIDDEN_ONLY),
        (GOOD, "https://good.example\x00.evil.example", FORBIDDEN_ONLY),
        (GOOD, "https://good\u200b.example", FORBIDDEN_ONLY),
        (GOOD, "https://good.example\u202e/x", FORBIDDEN_ONLY),
        (GOOD, "https://good.example/\u202ex", FORBIDDEN_ONLY),
        (GOOD, "https://good.example/ x", FORBIDDEN_ONLY),
        (GOOD, "https://good.example%2eevil.example", FORBIDDEN_ONLY),
        (GOOD, "https://good.example%2fevil.example", FORBIDDEN_ONLY),
        (GOOD, "https://good.example%00.evil.example", FORBIDDEN_ONLY),
        (GOOD, "https://good.example\u2044evil.example", NEITHER),
        (GOOD, "https://good.example\u2100evil.example", FORBIDDEN_ONLY),
        (GOOD, "https://g\u043e\u043ed.example", NEITHER),
        (GOOD, "https://good.example.", FORBIDDEN_ONLY),
        (GOOD, "https://good.example..", FORBIDDEN_ONLY),
        (GOOD, "https://good\u3002example", FORBIDDEN_ONLY),
        (GOOD, "https://[good.example]", FORBIDDEN_ONLY),
        (GOOD, "https://good.example:443:80", FORBIDDEN_ONLY),
        (GOOD, "https://good.example:80evil.example", FORBIDDEN_ONLY),
        (GOOD, "javascript://good.example/%0aalert(1)", NEITHER),
        (GOOD, "file:///etc/passwd", FORBIDDEN_ONLY),
        (GOOD, "data:text/html,x", FORBIDDEN_ONLY),
        (GOOD, 5, FORBIDDEN_ONLY),
        (GOOD, ["https://good.example", "https://a.good.example"], BOTH),
        (GOOD, ["https://good.example", "https://evil.example"], FORBIDDEN_ONLY),
        ({"port": 443}, "https://h.example", BOTH),
        ({"port": 443}, "https://h.example:443", BOTH),
        ({"port": 443}, "http://h.example:443", BOTH),
        ({"port": 443}, "http://h.example", NEITHER),
        ({"port": 443}, "https://h.example:", FORBIDDEN_ONLY),
        ({"port": 443}, "gopher://h.example", FORBIDDEN_ONLY),
        ({"scheme": ["http", "https"]}, "ftp://h.example", NEITHER),
        ({"address": "internal"}, "http://169.254.169.254/latest/meta-data", BOTH),
        ({"address": "internal"}, "http://[::ffff:169.254.169.254]/latest", BOTH),
        ({"address": "internal"}, "http://0xa9.0xfe.0xa9.0xfe", FORBIDDEN_ONLY),
        ({"path": "/v1/*"}, "https://h.example/v1/users", BOTH),
        ({"path": "/v1/*"}, "https://h.example/v2", NEITHER),
        ({"path": "/"}, "https://h.example", BOTH),
        ({"path": "/v1/*"}, "https://h.example/V1/users", FORBIDDEN_ONLY),
        ({"path": "/v1/*"}, "https://h.example/v1/../admin", FORBIDDEN_ONLY),
        ({"path": "/admin"}, "https://h.example/v1/../admin", FORBIDDEN_ONLY),
        ({"path": "/admin"}, "https://h.example/v1/%2e%2e/admin", FORBIDDEN_ONLY),
        ({"path": "/admin"}, "https://h.example/v1/%252e%252e%252fadmin", FORBIDDEN_ONLY),
        ({"path": "/admin"}, "https://h.example/%61dmin", FORBIDDEN_ONLY),
        ({"path": "/admin"}, "https://h.example//admin", FORBIDDEN_ONLY),
        ({"path": "/admin"}, "https://h.example/v1/.\t./admin", FORBIDDEN_ONLY),
        ({"path": "/admin"}, "https://h.example/v1\\..\\admin", FORBIDDEN_ONLY),
        ({"path": "/admin"}, "https://h.example/%" + "25" * 12 + "61dmin", FORBIDDEN_ONLY),
        ({"path": "/admin"}, "https://h.example/./admin;x=1", FORBIDDEN_ONLY),
        ({"path": "/admin"}, "https://h.example/v1/..%5cadmin", FORBIDDEN_ONLY),
        ({"path": "/v1/*"}, "https://h.example/v1/a%2fb", FORBIDDEN_ONLY),
        ({"path": "/v1/*"}, "https://h.example/v1/%zz", FORBIDDEN_ONLY),
        ({"path": "/v1/*"}, "https://h.example/v1/%ff", BOTH),
    ],
)
def test_urls_are_permitted_only_as_every_program_reads_them(wanted: Any, url: Any, expected: tuple[bool, bool]):
    assert both({"url": wanted}, url) == expected


ODD = st.text(alphabet="gode.xamplvi/\\@:#?%40 \t\n\u3002\uff0f\uff20\u200b[]", max_size=12)


@given(ODD, ODD, ODD)
def test_what_is_permitted_leads_to_that_host_for_other_readers_too(before: str, between: str, after: str):
    url = f"https://{before}good.example{between}evil.example{after}"

    permitted = both({"url": {"host": "good.example"}}, url)[1]

    if permitted:
        assert urlsplit(url).hostname == "good.example"
        assert urlsplit(url.replace("\\", "/")).hostname == "good.example"
        assert urlsplit("".join(url.split())).hostname == "good.example"


@given(ODD, ODD)
def test_what_another_reader_finds_at_a_forbidden_host_is_forbidden(before: str, after: str):
    url = f"http://{before}evil.example{after}"
    try:
        found = urlsplit(url).hostname
    except ValueError:
        return
    if found == "evil.example":
        assert both({"url": {"host": "evil.example"}}, url)[0]


@given(st.text(max_size=40))
def test_any_text_is_a_url_or_none(text: str):
    url = read_url(text)

    assert url is None or url.scheme == url.scheme.lower()


@given(st.integers(0, 4), st.sampled_from(["/admin", "/./admin", "/x/../admin", "//admin", "/admin;a=b"]))
def test_a_forbidden_path_stays_forbidden_however_often_it_is_encoded(times: int, path: str):
    for _ in range(times):
        path = quote(path, safe="/" if times % 2 else "")
    path = path if path.startswith("/") else f"/{path}"

    assert both({"url": {"path": ["/admin", "//admin"]}}, f"https://h.example{path}")[0]
