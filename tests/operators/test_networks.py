"""An index of networks finds the longest one that holds an address, as trying all of them does."""

from __future__ import annotations

import doctest
import ipaddress

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.data import networks as module
from operators.data.address import parse_ip
from operators.data.networks import NetworkIndex
from operators.errors import SchemaError
from tests.examples import share
from tests.naive_lookup import as_four, longest_match


def found(networks: list[str], addresses: list[bytes | None]) -> list[int]:
    index = NetworkIndex.of(pa.array(networks, pa.string()), "t.network")
    return index.find(pa.array(addresses, pa.binary(16))).tolist()


@st.composite
def tables(draw: st.DrawFn) -> tuple[list[str], list[bytes | None]]:
    """Draw networks that lie in one another, and the addresses at their ends and beside these."""
    drawn: dict[object, str] = {}
    edges: set[int] = {0, (1 << 128) - 1, 0xFFFF << 32, (0xFFFF << 32) + (1 << 32) - 1}
    for _ in range(draw(st.integers(0, 12))):
        if draw(st.booleans()):
            length = draw(st.integers(0, 32))
            network = ipaddress.ip_network((draw(st.sampled_from((0, 0x0A010203, 0xFFFFFFFF))), length), strict=False)
            first, size = (0xFFFF << 32) + int(network.network_address), network.num_addresses
        else:
            length = draw(st.integers(0, 128))
            value = draw(st.sampled_from((0, 0x20010DB8 << 96 | 7, (1 << 128) - 1, 0xFFFF0A010203, 1 << 64)))
            network = ipaddress.ip_network((ipaddress.IPv6Address(value), length), strict=False)
            first, size = int(network.network_address), network.num_addresses
        drawn[as_four(str(network))] = str(network)
        edges |= {first - 1, first, first + size // 2, first + size - 1, first + size}
    addresses = [edge.to_bytes(16, "big") for edge in sorted(edges) if 0 <= edge < 1 << 128]
    return list(drawn.values()), [*addresses, None]


@share(1)
@given(tables())
def test_the_longest_network_is_found(drawn: tuple[list[str], list[bytes | None]]) -> None:
    networks, addresses = drawn
    expected = [-1 if address is None else longest_match(networks, address) for address in addresses]
    assert found(networks, addresses) == expected


def test_the_default_of_one_kind_of_address_is_not_that_of_the_other() -> None:
    addresses: list[bytes | None] = [parse_ip("10.0.0.1"), parse_ip("2001:db8::1")]
    assert found(["::/0"], addresses) == [-1, 0]
    assert found(["0.0.0.0/0"], addresses) == [0, -1]
    assert found(["::ffff:0.0.0.0/96", "::/0"], addresses) == [0, 1]


def test_addresses_are_networks_of_one() -> None:
    addresses: list[bytes | None] = [parse_ip("10.0.0.1"), parse_ip("10.0.0.2"), parse_ip("::1")]
    assert found(["10.0.0.1", "10.0.0.0/24", " ::1 "], addresses) == [0, 1, 2]


def test_an_index_of_a_part_of_a_column_is_that_part() -> None:
    texts = pa.array(["1.0.0.0/8", "2.0.0.0/8", "3.0.0.0/8"]).slice(1)
    addresses = pa.array([parse_ip("3.1.1.1"), parse_ip("2.1.1.1"), parse_ip("1.1.1.1")], pa.binary(16)).slice(1)
    assert NetworkIndex.of(texts, "t.n").find(addresses).tolist() == [0, -1]


@pytest.mark.parametrize(
    ("networks", "message"),
    [
        (["10.0.0.0/8", "10.0.0.1/8"], r't\.n, row 2: "10.0.0.1/8".*host bits(.|\n)*mean 10\.0\.0\.0/8'),
        (["10.0.0.0/8", "1.0.0.0/8", "::ffff:10.0.0.0/104"], "rows 1 and 3 have the same network, 10.0.0.0/8"),
        (["2001:db8::/32", "2001:0db8::/32"], "rows 1 and 2 have the same network"),
        (["10.0.0.0/33"], r'row 1: "10.0.0.0/33" is no network'),
        (["10.0.0.0/", "10.0.0.0/8/8"], r'row 1: "10.0.0.0/" is no network'),
        (["010.0.0.0/8"], "row 1"),
        (["host7"], 'row 1: "host7" is no network'),
        (["10.0.0.0/8", None], "row 2 has no network"),
    ],
)
def test_what_is_no_network_is_refused_with_its_row(networks: list[str], message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        NetworkIndex.of(pa.array(networks, pa.string()), "t.n")


def test_the_example_in_the_docstring_runs() -> None:
    result = doctest.testmod(module)
    assert result.attempted and not result.failed
