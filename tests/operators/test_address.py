"""Addresses are written as the standard library writes them, and read back to the same 16 bytes."""

from __future__ import annotations

import ipaddress

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from operators.data.address import format_ip, parse_ip, parse_network

# Bytes that are often zero, so that runs of zero groups of every length and place occur.
GROUPS = st.lists(
    st.sampled_from([b"\0\0", b"\0\0", b"\0\1", b"\x0a\0", b"\xff\xff", b"\x20\x01"]), min_size=8, max_size=8
)
ADDRESSES = st.binary(min_size=16, max_size=16) | GROUPS.map(b"".join)
MAPPED = st.binary(min_size=4, max_size=4).map(lambda last: b"\0" * 10 + b"\xff\xff" + last)


def expected(address: bytes | None) -> str | None:
    if address is None:
        return None
    six = ipaddress.IPv6Address(address)
    return str(six.ipv4_mapped) if six.ipv4_mapped is not None else str(six)


@settings(deadline=None)  # the first example compiles
@given(st.lists(ADDRESSES | MAPPED | st.none(), max_size=20), st.integers(0, 20), st.integers(0, 20))
@example([bytes(16), b"\0" * 15 + b"\1", b"\0" * 10 + b"\xff\xff" + bytes(4), b"\0" * 12 + b"\1\2\3\4"], 0, 20)
def test_text_is_that_of_the_standard_library(addresses: list[bytes | None], offset: int, length: int) -> None:
    array = pa.array(addresses, pa.binary(16)).slice(offset, length)
    text = format_ip(array)
    text.validate(full=True)
    assert text.type == pa.string()
    assert text.to_pylist() == [expected(address) for address in addresses[offset : offset + length]]


@given(ADDRESSES | MAPPED)
def test_an_address_is_read_back_from_its_text(address: bytes) -> None:
    assert parse_ip(f" {expected(address)} ") == address
    assert parse_ip(ipaddress.IPv6Address(address).exploded) == address


def test_only_nulls_and_no_rows_are_formatted() -> None:
    assert format_ip(pa.array([None, None], pa.binary(16))).to_pylist() == [None, None]
    assert format_ip(pa.array([], pa.binary(16))).to_pylist() == []


def test_a_column_of_another_type_is_refused() -> None:
    with pytest.raises(TypeError, match="this column is string"):
        format_ip(pa.array(["10.0.0.1"]))


@pytest.mark.parametrize("text", ["", "10.0.0", "10.0.0.256", "host", "1::2::3", "10.0.0.0/8"])
def test_what_is_no_address_is_refused_by_its_text(text: str) -> None:
    with pytest.raises(ValueError, match=f'^"{text}" is no IP address'):
        parse_ip(text)


@given(st.ip_addresses(v=4), st.integers(0, 32))
def test_a_network_of_ipv4_is_its_mapped_first_and_last_address(address: ipaddress.IPv4Address, prefix: int) -> None:
    network = ipaddress.ip_network((address, prefix), strict=False)
    assert parse_network(str(network)) == (parse_ip(str(network[0])), parse_ip(str(network[-1])))


@given(st.ip_addresses(v=6), st.integers(0, 128))
def test_a_network_of_ipv6_is_its_first_and_last_address(address: ipaddress.IPv6Address, prefix: int) -> None:
    network = ipaddress.ip_network((address, prefix), strict=False)
    assert parse_network(str(network)) == (network[0].packed, network[-1].packed)


def test_a_bare_address_is_a_network_of_one() -> None:
    assert parse_network("10.0.0.7") == (parse_ip("10.0.0.7"), parse_ip("10.0.0.7"))


def test_bits_behind_the_prefix_are_refused_with_the_network_meant() -> None:
    with pytest.raises(ValueError, match=r'"10\.1\.2\.3/8" is no network .*did you mean 10\.0\.0\.0/8'):
        parse_network("10.1.2.3/8")
    with pytest.raises(ValueError, match=r'"home" is no network .*write one like 10\.0\.0\.0/8'):
        parse_network("home")
