from ipaddress import IPv6Address, IPv6Network, ip_address

import httpx2
import pytest
from hypothesis import given, strategies as st
from pluggent_checked_http import pinned
from pluggent_checked_http.addresses import Place, place
from pluggent_checked_http.failures import reason
from pluggent_permissions.addresses import in_set, readings

TRANSLATED = IPv6Network("64:ff9b::/96"), IPv6Network("::ffff:0:0/96")
"""Where only the IPv4 address inside counts."""
EMBEDDING = ("{}", "::ffff:{}", "::ffff:0:{}", "::{}", "64:ff9b::{}", "64:ff9b:1::{}", "2606:4700::5efe:{}")


@given(st.ip_addresses() | st.builds(lambda way, inner: ip_address(way.format(inner)),
                                     st.sampled_from(EMBEDDING), st.ip_addresses(v=4)))  # fmt: skip
def test_what_a_policy_calls_internal_is_not_outside(address):
    inner = [
        each
        for each in readings(str(address))
        if not isinstance(each, IPv6Address) or not any(each in network for network in TRANSLATED)
    ]

    if any(in_set(each, "internal") for each in inner):
        assert place(str(address)) is not Place.OUTSIDE


@pytest.mark.parametrize("address", ["8.8.8.8", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::8.8.8.8"])
def test_what_the_world_reaches_is_outside(address: str):
    assert place(address) is Place.OUTSIDE


@pytest.mark.parametrize("address", ["fe80::1%eth0", "127.1.2.3", "0.1.2.3", "100.64.0.1", "240.0.0.1", "ff02::1"])
def test_what_only_this_network_reaches_is_not(address: str):
    assert place(address) is not Place.OUTSIDE


async def test_the_addresses_of_a_name_come_once_each():
    found = await pinned.addresses_of("localhost")

    assert found
    assert len(set(found)) == len(found)


async def test_a_name_that_is_none_has_no_addresses():
    assert await pinned.addresses_of("nowhere.invalid") == ()
    assert await pinned.addresses_of("a" * 70 + ".test") == ()


async def test_the_addresses_are_tried_in_turn_and_the_last_error_counts():
    asked: list[str] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        asked.append(request.url.host)
        if request.url.host != "192.0.2.3":
            raise httpx2.ConnectError("refused")
        return httpx2.Response(200)

    async with httpx2.AsyncClient(transport=httpx2.MockTransport(answer)) as client:
        request = httpx2.Request("GET", "https://example.org/a")
        response = await pinned.send(client, request, ("192.0.2.1", "192.0.2.2", "192.0.2.3"))
        with pytest.raises(httpx2.ConnectError):
            await pinned.send(client, request, ("192.0.2.1",))
        with pytest.raises(httpx2.ConnectError):  # the name itself is asked for without addresses alone
            await pinned.send(client, request, ())

    assert response.status_code == 200
    assert asked == ["192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.1", "example.org"]


def test_an_error_without_a_known_cause_is_its_own_first_line():
    assert reason(httpx2.ProtocolError("odd\nmore")) == "odd"
    assert reason(httpx2.ProtocolError("")) == "ProtocolError"
