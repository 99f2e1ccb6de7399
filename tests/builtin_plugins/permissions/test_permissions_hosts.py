"""Hosts and addresses in all their spellings."""

import ipaddress
from typing import Any

import pytest
from each_of import each_of
from hypothesis import given, strategies as st
from permitting import both, settings
from pluggent_hookspecs import ConfigError
from pluggent_permissions import addresses
from pluggent_permissions.hosts import read_host, read_place

BOTH = (True, True)
FORBIDDEN_ONLY = (True, False)
NEITHER = (False, False)


@each_of(
    "spelling",
    [
        "127.0.0.1", "127.1", "127.0.1", "2130706433", "0x7f000001", "0x7f.1", "0x7F.0x0.0x0.0x1", "017700000001",
        "0177.0.0.1", "0177.1", "127.0.0.01", "127.0.0.1.", "[::1]", "[0:0:0:0:0:0:0:1]", "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]", "[::127.0.0.1]", "[64:ff9b::127.0.0.1]", "[2002:7f00:1::]", "[::1%25lo]", "[::1%lo]", "0",
        "0.0.0.0",  # noqa: S104 (no socket binds to it)
        "[::]", "localhost", "LOCALHOST", "localhost.", "a.localhost", "\uff11\uff12\uff17.0.0.1",
        "\u2460\u2461\u2466.0.0.1", "127\u30020\u30020\u30021",
        "\u24db\u24de\u24d2\u24d0\u24db\u24d7\u24de\u24e2\u24e3", "localtest.me",
    ],
)  # fmt: skip
def test_this_machine_is_forbidden_in_every_spelling(spelling: str):
    assert both({"host": {"address": "loopback"}}, spelling)[0]
    assert both({"host": {"address": "internal"}}, f"{spelling}:8080")[0]
    assert both({"url": {"address": "loopback"}}, f"http://{spelling}/x")[0]


@each_of(
    ("wanted", "spelling"),
    [
        ("private", "10.1.2.3"), ("private", "10.66051"), ("private", "0xa.1.2.3"), ("private", "012.1.2.3"),
        ("private", "010.1.2.3"), ("private", "172.16.0.1"), ("private", "192.168.1.1"), ("private", "100.64.0.1"),
        ("private", "[fd00::1]"), ("private", "[::ffff:10.0.0.1]"), ("private", "db"), ("private", "db.corp"),
        ("private", "printer.local"), ("private", "10.0.0.1.nip.io"),
        ("link_local", "169.254.1.1"), ("link_local", "[fe80::1]"), ("link_local", "[fe80::1%eth0]"),
        ("metadata", "169.254.169.254"), ("metadata", "2852039166"), ("metadata", "0xA9FEA9FE"),
        ("metadata", "0251.0376.0251.0376"), ("metadata", "169.16689662"), ("metadata", "[::ffff:a9fe:a9fe]"),
        ("metadata", "[fd00:ec2::254]"), ("metadata", "metadata.google.internal"),
        ("metadata", "METADATA.google.internal."),
        ("metadata", "100.100.100.200"), ("multicast", "224.0.0.1"), ("multicast", "[ff02::1]"),
        ("reserved", "240.0.0.1"), ("reserved", "255.255.255.255"), ("reserved", "198.18.0.1"),
        ("10.0.0.0/8", "10.9.9.9"), ("10.0.0.0/8", "[::ffff:10.9.9.9]"),
        # An IPv4 address in an IPv6 one: translated (RFC 2765), NAT64 at every prefix length (RFC 6052), 6to4,
        # Teredo (the server and, inverted, the client), ISATAP.
        ("private", "[::ffff:0:10.0.0.1]"), ("private", "[::ffff:0:a00:1]"), ("metadata", "[::ffff:0:169.254.169.254]"),
        ("private", "[64:ff9b::10.0.0.1]"), ("metadata", "[64:ff9b:1::a9fe:a9fe]"),
        ("private", "[64:ff9b:1:a00:0:100::]"), ("private", "[64:ff9b:1:a:0:1:0:0]"),
        ("metadata", "[64:ff9b:1:a9fe:a9:fe00::]"), ("metadata", "[64:ff9b:1:a9:fe:a9fe::]"),
        ("metadata", "[64:ff9b:1:0:a9:fea9:fe00:0]"),
        ("private", "[2002:a00:1::]"), ("metadata", "[2002:a9fe:a9fe::]"),
        ("private", "[2001:0:a00:1::]"), ("private", "[2001::f5ff:fffe]"),
        ("private", "[2606:4700::5efe:10.0.0.1]"), ("private", "[2606:4700::200:5efe:10.0.0.1]"),
        ("metadata", "168.63.129.16"), ("metadata", "[::ffff:0:168.63.129.16]"),
        # No network is there: all that is global is in 2000::/3 (RFC 4291).
        ("reserved", "[200::1]"), ("reserved", "[4000::1]"), ("reserved", "[e000::1]"), ("reserved", "[fe00::1]"),
        ("multicast", "[::ffff:0:224.0.0.1]"), ("multicast", "[64:ff9b::224.0.0.1]"),
        ("fd00::/8", "[fd12::1]"), ("name", "example.org"),
    ],
)  # fmt: skip
def test_named_sets_and_networks_are_forbidden_in_every_spelling(wanted: str, spelling: str):
    assert both({"host": {"address": wanted}}, spelling)[0]
    assert both({"url": {"address": wanted}}, f"https://{spelling}:8443/")[0]


@pytest.mark.parametrize(
    ("wanted", "value", "expected"),
    [
        ("public", "93.184.215.14", BOTH),
        ("public", "[2606:2800:21f::1]", BOTH),
        ("public", "093.184.215.14", FORBIDDEN_ONLY),
        ("public", "93.12112654", FORBIDDEN_ONLY),
        ("public", "10.0.0.1", NEITHER),
        ("public", "[::ffff:93.184.215.14]", FORBIDDEN_ONLY),
        ("public", "example.org", NEITHER),
        ("internal", "93.184.215.14", NEITHER),
        ("internal", "example.org", NEITHER),
        ("private", "10.0.0.1", BOTH),
        ("private", "10.1", FORBIDDEN_ONLY),
        ("private", "notcorp.example", NEITHER),
        ("loopback", "localhost", FORBIDDEN_ONLY),
        ("loopback", "mylocalhost.example", NEITHER),
        ("name", "example.org", BOTH),
        ("name", "10.0.0.1", NEITHER),
        (["10.0.0.0/8", "public"], "10.0.0.1", BOTH),
    ],
)
def test_addresses_are_permitted_only_as_everybody_reads_them(wanted: Any, value: str, expected: tuple[bool, bool]):
    assert both({"host": {"address": wanted}}, value) == expected


@each_of(
    ("wanted", "value", "expected"),
    [
        ("good.example", "good.example", BOTH),
        ("good.example", "GOOD.Example", BOTH),
        ("Good.Example", "good.example", BOTH),
        ("good.example", "good.example.", FORBIDDEN_ONLY),
        ("good.example.", "good.example", BOTH),
        ("good.example", "good.example.evil.example", NEITHER),
        ("good.example", "notgood.example", NEITHER),
        ("good.example", "sub.good.example", NEITHER),
        ("*.good.example", "sub.good.example", BOTH),
        ("*.good.example", "a.b.good.example", BOTH),
        ("*.good.example", "good.example", NEITHER),
        ("*.good.example", ".good.example", FORBIDDEN_ONLY),
        ("*.good.example", "evil.example", NEITHER),
        ("api-?.good.example", "api-1.good.example", BOTH),
        ("api-?.good.example", "api-.x.good.example", NEITHER),
        ("*", "good.example", BOTH),
        ("*", "10.0.0.1", BOTH),
        ("*", "10.1", FORBIDDEN_ONLY),
        ("10.0.0.1", "10.0.0.1", BOTH),
        ("10.0.0.1", "10.1", FORBIDDEN_ONLY),
        ("10.0.0.1", "[::ffff:10.0.0.1]", FORBIDDEN_ONLY),
        ("[::1]", "[::1]", BOTH),
        ("::1", "[0::1]", BOTH),
        ("xn--bcher-kva.example", "b\u00fccher.example", BOTH),
        ("xn--bcher-kva.example", "B\u00dcCHER.example", FORBIDDEN_ONLY),
        ("evil.example", "\uff45vil.example", FORBIDDEN_ONLY),
        ("evil.example", "evil\u3002example", FORBIDDEN_ONLY),
        # Another letter is another host: not the one that is permitted, nor the one that is forbidden.
        ("paypal.example", "p\u0430ypal.example", NEITHER),
        # Programs do not agree about these.
        ("fass.example", "fa\u00df.example", FORBIDDEN_ONLY),
        ("good.example", "good.example\u200d", FORBIDDEN_ONLY),
        ("good.example", "good.example\uff0fevil", FORBIDDEN_ONLY),
        ("good.example", "good%2eexample", FORBIDDEN_ONLY),
        ("good.example", "good.example:80:80", FORBIDDEN_ONLY),
        ("good.example", "good..example", FORBIDDEN_ONLY),
        ("good.example", "-good.example", FORBIDDEN_ONLY),
        ("good.example", "", FORBIDDEN_ONLY),
        ("good.example", "1.2.3.4.5", FORBIDDEN_ONLY),
        ("good.example", "256.256.256.256", FORBIDDEN_ONLY),
        ("good.example", "a" * 64 + ".example", FORBIDDEN_ONLY),
        ("good.example", "good.example x", FORBIDDEN_ONLY),
        ("good.example", 5, FORBIDDEN_ONLY),
    ],
)
def test_names_are_compared_as_the_name_system_does(wanted: str, value: Any, expected: tuple[bool, bool]):
    assert both({"host": {"name": wanted}}, value) == expected


@pytest.mark.parametrize(
    ("wanted", "value", "expected"),
    [
        (443, "h.example:443", BOTH),
        ("8000-8010", "h.example:8010", BOTH),
        ("8000-8010", "h.example:8011", NEITHER),
        ([80, 443], "[::1]:443", BOTH),
        (443, "h.example", FORBIDDEN_ONLY),
        (443, "h.example:", FORBIDDEN_ONLY),
        (443, "h.example:0x1bb", FORBIDDEN_ONLY),
        (443, "h.example:\u0664\u0664\u0663", FORBIDDEN_ONLY),
        (443, "h.example:65979", FORBIDDEN_ONLY),
    ],
)
def test_ports_are_numbers_that_everybody_reads(wanted: Any, value: str, expected: tuple[bool, bool]):
    assert both({"host": {"port": wanted}}, value) == expected


@pytest.mark.parametrize(
    "pattern",
    [
        "https://good.example", "good.example/x", "good.example:443", "*good.example", "good.*", "*-good.example",
        "good.example*", "10.*", "10.0.0.*", "b\u00fccher.example", "", "a b", "user@good.example",
    ],
)  # fmt: skip
def test_a_host_pattern_that_means_something_else_than_it_seems_is_refused(pattern: str):
    for test in ({"host": {"name": pattern}}, {"url": {"host": pattern}}):
        with pytest.raises(ConfigError):
            settings({"rules": [{"id": "r", "decision": "deny", "when": {"arguments": {"a": test}}}]})


@pytest.mark.parametrize("network", ["10.0.0.1/8", "privat", "10.0.0.0/33", "example.org", ""])
def test_a_network_that_is_none_is_refused(network: str):
    with pytest.raises(ConfigError, match="is not a network"):
        settings(
            {"rules": [{"id": "r", "decision": "deny", "when": {"arguments": {"a": {"host": {"address": network}}}}}]}
        )


# ---- properties


v4 = st.integers(0, 2**32 - 1)


def spelled(number: int, parts: int, bases: tuple[str, ...]) -> str:
    sizes = [8] * (parts - 1) + [32 - 8 * (parts - 1)]
    found: list[str] = []
    left = 32
    for size, base in zip(sizes, bases, strict=False):
        left -= size
        value = (number >> left) & (2**size - 1)
        found.append({"d": f"{value}", "x": f"0x{value:x}", "X": f"0X{value:X}", "o": f"0{value:o}"}[base])
    return ".".join(found)


@given(v4, st.integers(1, 4), st.tuples(*[st.sampled_from("dxXo")] * 4))
def test_every_spelling_that_inet_aton_knows_leads_to_the_address(number: int, parts: int, bases: tuple[str, ...]):
    address = ipaddress.IPv4Address(number)
    host = read_host(spelled(number, parts, bases))

    assert host is not None
    assert address in host.addresses
    assert not host.plain or (parts == 4 and set(bases) <= {"d"}) or str(address) == spelled(number, parts, bases)


@given(v4)
def test_an_address_inside_an_address_is_found(number: int):
    inner = ipaddress.IPv4Address(number)
    for outer in (f"::ffff:{inner}", f"64:ff9b::{inner}", str(ipaddress.IPv6Address((0x2002 << 112) | (number << 80)))):
        assert inner in addresses.readings(outer)


@given(v4.map(ipaddress.IPv4Address) | st.integers(0, 2**128 - 1).map(ipaddress.IPv6Address))
def test_an_address_is_public_or_internal_and_never_both(address: addresses.Address):
    assert addresses.in_set(address, "public") != addresses.in_set(address, "internal")
    assert not (addresses.in_set(address, "public") and address.is_private and not address.is_multicast)


@given(st.text(max_size=20))
def test_any_text_is_a_place_or_none(text: str):
    place = read_place(text)

    assert place is None or bool(place.host.name) != bool(place.host.addresses)


@given(st.text(alphabet="abcXYZ019.-_\u00df\u0430\uff41\u3002%:[]@/", min_size=1, max_size=15))
def test_only_one_name_in_ascii_is_ever_permitted(text: str):
    place = read_place(text)

    if place is not None and place.host.plain and place.host.name:
        assert place.host.name.isascii()
        assert read_host(place.host.name) == place.host
