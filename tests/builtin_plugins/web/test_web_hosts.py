import pytest
from hypothesis import given, strategies as st
from pluggent_checked_http.addresses import Place, place
from pluggent_web.hosts import HostPattern, HostRules, patterns
from pluggent_web.urls import UrlError, read_url

INSIDE = [
    "127.0.0.1", "127.255.255.254", "0.0.0.0",  # noqa: S104 (refused)
    "10.0.0.1", "172.16.0.1", "192.168.1.1", "100.64.0.1", "169.254.1.1",
    "169.254.169.254", "168.63.129.16", "100.100.100.200", "192.0.0.192", "224.0.0.1", "240.0.0.1", "255.255.255.255",
    "198.18.0.1", "192.88.99.1", "::1", "::", "fe80::1", "fe80::1%eth0", "fc00::1", "fd00:ec2::254", "ff02::1",
    "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:169.254.169.254", "64:ff9b::10.0.0.1", "64:ff9b::169.254.169.254",
    "64:ff9b:1::10.0.0.1", "2002:a00:1::", "2002:7f00:1::1", "2001:0:a00:1::", "::10.0.0.1", "::ffff:0:10.0.0.1",
    "2606:4700::5efe:10.0.0.1", "2001:db8::1", "3fff::1", "fec0::1", "4000::1",
]  # fmt: skip


def rules(**lists: str | list[str]) -> HostRules:
    return HostRules(**{name: patterns([texts] if isinstance(texts, str) else texts) for name, texts in lists.items()})


def permitted(rules: HostRules, url: str, *addresses: str) -> bool:
    read = read_url(url)
    try:
        rules.check_name(read)
        rules.check_addresses(read, addresses)
    except UrlError:
        return False
    return True


@pytest.mark.parametrize("address", INSIDE)
def test_what_is_inside_is_refused_and_not_named(address: str):
    with pytest.raises(UrlError, match="leads inside") as refused:
        rules().check_addresses(read_url("https://example.org/"), (address,))

    assert address not in str(refused.value)


@pytest.mark.parametrize("address", INSIDE)
def test_one_address_inside_is_enough(address: str):
    assert not permitted(rules(), "https://example.org/", "93.184.216.34", address)


@pytest.mark.parametrize("address", ["93.184.216.34", "2606:4700::1111", "64:ff9b::93.184.216.34"])
def test_what_is_outside_is_permitted(address: str):
    assert permitted(rules(), "https://example.org/", address)


def test_an_allowed_name_may_lead_into_the_network_but_not_to_metadata():
    wiki = rules(allow_private="wiki.corp.example")

    assert permitted(wiki, "https://wiki.corp.example/", "10.0.0.1")
    assert permitted(wiki, "https://wiki.corp.example/", "127.0.0.1", "fd00::1")
    assert not permitted(wiki, "https://other.corp.example/", "10.0.0.1")
    assert not permitted(wiki, "https://x.wiki.corp.example/", "10.0.0.1")
    for address in ("169.254.169.254", "fe80::1", "::ffff:169.254.169.254", "224.0.0.1", "168.63.129.16"):
        assert not permitted(wiki, "https://wiki.corp.example/", address)


def test_an_allowed_port_is_that_port_alone():
    local = rules(allow_private=["localhost:8000", "127.0.0.1:8001"])

    assert permitted(local, "http://localhost:8000/", "127.0.0.1")
    assert not permitted(local, "http://localhost:9000/", "127.0.0.1")
    assert permitted(local, "http://127.0.0.1:8001/", "127.0.0.1")
    assert not permitted(local, "http://127.0.0.1:8000/", "127.0.0.1")


def test_an_allowed_network_covers_the_addresses_in_it_in_every_spelling():
    inside = rules(allow_private=["10.1.0.0/16", "169.254.169.254"])

    assert permitted(inside, "http://x.example/", "10.1.2.3")
    assert permitted(inside, "http://x.example/", "::ffff:10.1.2.3")
    assert permitted(inside, "http://169.254.169.254/", "169.254.169.254")
    assert not permitted(inside, "http://x.example/", "10.2.0.1")
    assert not permitted(inside, "http://x.example/", "10.1.2.3", "10.2.0.1")


def test_a_denied_host_is_denied_by_its_name_and_by_its_address():
    denying = rules(deny=["*.tracker.example", "93.184.216.0/24"], allow_private="x.tracker.example")

    assert not permitted(denying, "https://x.tracker.example/", "8.8.8.8")
    assert permitted(denying, "https://tracker.example/", "8.8.8.8")
    assert not permitted(denying, "https://example.org/", "93.184.216.34")
    assert not permitted(denying, "https://example.org/", "8.8.8.8", "::ffff:93.184.216.34")


def test_only_the_hosts_that_are_listed_are_fetched_from():
    docs = rules(only=["docs.example", "*.docs.example", "8.8.8.0/24"])

    assert permitted(docs, "https://docs.example/", "93.184.216.34")
    assert permitted(docs, "https://a.docs.example/", "93.184.216.34")
    assert permitted(docs, "https://x.example/", "8.8.8.8")
    assert not permitted(docs, "https://x.example/", "8.8.8.8", "8.8.4.4")
    assert not permitted(docs, "https://xdocs.example/", "93.184.216.34")
    assert not permitted(docs, "https://docs.example.evil.example/", "93.184.216.34")
    assert not permitted(docs, "https://docs.example/", "10.0.0.1")


@pytest.mark.parametrize("url", ["http://localhost/", "http://printer/", "http://x.internal/", "http://10.0.0.1/"])
def test_behind_a_proxy_names_of_the_inside_are_refused(url: str):
    with pytest.raises(UrlError):
        rules().check_behind_proxy(read_url(url))
    rules(allow_private=read_url(url).host).check_behind_proxy(read_url(url))
    rules().check_behind_proxy(read_url("https://example.org/"))


@pytest.mark.parametrize("text", ["", "a/b", "https://a.example", "10.0.0.0/33", "a b", "*", "*.*.a", "a*.example"])
def test_a_pattern_that_is_none_says_so(text: str):
    with pytest.raises(ValueError, match=r"is not a (host|network)"):
        patterns([text])


def test_all_wrong_patterns_are_named():
    with pytest.raises(ValueError, match=r"'a b'.*'c/d'"):
        patterns(["a b", "fine.example", "c/d"])


@given(st.ip_addresses())
def test_without_settings_nothing_but_the_outside_is_permitted(address):
    assert permitted(rules(), "https://example.org/", str(address)) is (place(str(address)) is Place.OUTSIDE)


@given(st.ip_addresses(), st.booleans())
def test_a_pattern_of_an_address_fits_that_address(address, with_port: bool):
    text = f"[{address}]" if address.version == 6 else str(address)
    pattern = HostPattern.parse(f"{text}:8080" if with_port else text)

    assert pattern.fits_address(read_url("http://x.example:8080/"), str(address))
    assert pattern.fits_address(read_url("http://x.example:9090/"), str(address)) is not with_port
