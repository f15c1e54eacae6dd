"""Naive lookups: every network and every row is tried for every tuple."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence

from operators.data.page import Row

_MAPPED = ipaddress.IPv6Network("::ffff:0:0/96")


def as_four(network: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
    """Read a network; one of mapped IPv4 is one of IPv4."""
    found = ipaddress.ip_network(network)
    if isinstance(found, ipaddress.IPv6Network) and found.subnet_of(_MAPPED):
        return ipaddress.IPv4Network((int(found.network_address) & 0xFFFFFFFF, found.prefixlen - 96))
    return found


def longest_match(networks: Sequence[str], address: bytes) -> int:
    """Return the place of the longest network that holds an address of 16 bytes; -1 for none."""
    read = ipaddress.IPv6Address(address)
    wanted = read.ipv4_mapped or read
    lengths = [(n.prefixlen, i) for i, n in enumerate(map(as_four, networks)) if wanted in n]
    return max(lengths)[1] if lengths else -1


def naive_lookup(
    table: Sequence[Row],
    rows: Sequence[Row],
    on: Mapping[str, str],
    columns: Mapping[str, str],
    *,
    required: bool = False,
    valid_from: str | None = None,
) -> list[Row]:
    """Look each tuple of `rows` up in a table, in which `valid_from` says since when a row is valid at ts."""
    found: list[Row] = []
    for row in rows:
        matches = [entry for entry in table if all(row[a] is not None and row[a] == entry[k] for a, k in on.items())]
        if valid_from is not None:
            valid = [
                (since, m) for m in matches if isinstance(since := m[valid_from], int) and _began(since, row["ts"])
            ]
            matches = [max(valid, key=lambda found: found[0])[1]] if valid else []
        if matches or not required:
            found.append({**row, **{new: matches[0][old] if matches else None for new, old in columns.items()}})
    return found


def _began(since: int, time: object) -> bool:
    return isinstance(time, int) and since <= time


def naive_as_of(
    table: Sequence[Row],
    rows: Sequence[Row],
    on: Mapping[str, str],
    columns: Mapping[str, str],
    *,
    since: str,
    required: bool = False,
    first_holds: bool = False,
) -> list[Row]:
    """Look each tuple up in a table of which a row is valid from `since` to the next of its key, null from ever.

    With `first_holds`, so is the first one. Of rows of one key and time the one with the largest other values counts,
    and a null is more than any of them.
    """
    found: list[Row] = []
    for row in rows:
        best: tuple[object, ...] | None = None
        match: Row | None = None
        own_rows = [
            entry for entry in table if all(row[own] is not None and row[own] == entry[key] for own, key in on.items())
        ]
        first = min((_since(entry, since) for entry in own_rows), default=None) if first_holds else None
        for entry in own_rows:
            began = _since(entry, since)
            began = float("-inf") if began == first else began
            if not isinstance(row["ts"], int) or began > row["ts"]:
                continue
            rank = (began, *((entry[old] is None, entry[old] or "") for old in columns.values()))
            if best is None or rank > best:  # pyright: ignore[reportOperatorIssue]
                best, match = rank, entry
        if match is not None or not required:
            found.append({**row, **{new: None if match is None else match[old] for new, old in columns.items()}})
    return found


def _since(entry: Row, since: str) -> float | int:
    value = entry[since]
    assert value is None or isinstance(value, int | float)
    return float("-inf") if value is None else value
