"""Recognise a file by its first bytes: a capture, flow exports, a file of nfdump, a log of Zeek.

A capture of export datagrams is a capture, so that it is to be read as flows needs to be said.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final, Literal, TypeAlias

from oop_engine.sources.capture.compression import PackedDamage, Plain, unpack

Kind: TypeAlias = Literal["pcap", "netflow", "zeek", "nfdump"]
KINDS: Final[tuple[Kind, ...]] = ("pcap", "netflow", "zeek", "nfdump")
MOST_COUNTED: Final = 30
"""Records in a datagram of NetFlow v1 or v7, at most."""
_NFDUMP: Final = (b"\x0c\xa5", b"\xa5\x0c")
_LINE: Final = 65_536
_ZEEK_FIELDS: Final = frozenset(("uid", "id.orig_h", "_path"))


def kind_of(path: Path) -> Kind | None:
    """Return how a file is read, by its content, uncompressed if need be; None for unknown content."""
    if not path.is_file():  # a pipe gives its bytes once
        return None
    try:
        with path.open("rb") as file:
            pieces, head = unpack(Plain(file)), b""
            while len(head) < _LINE and (piece := pieces.read(_LINE - len(head))):
                head += piece
    except PackedDamage:
        return None
    if is_stored(head):
        return "netflow"
    if head[:2] in _NFDUMP:
        return "nfdump"
    return "zeek" if head.startswith(b"#separator") or _is_json_log(head) else None


def is_stored(head: bytes) -> bool:
    """Return whether a file that begins so holds datagrams: the version of NetFlow, IPFIX or sFlow v5.

    Versions 1 and 7 have to have a count of records that can be.
    """
    if head[:2] in (b"\0\x01", b"\0\x07"):
        return 0 < int.from_bytes(head[2:4], "big") <= MOST_COUNTED
    return head[:2] in (b"\0\x05", b"\0\x09", b"\0\x0a") or head[:4] == b"\0\0\0\5"


def _is_json_log(head: bytes) -> bool:
    """Return whether a file begins with an object as Zeek writes it."""
    if not head.lstrip().startswith(b"{"):
        return False
    try:
        first = json.loads(head.lstrip().split(b"\n", 1)[0])
    except ValueError:
        return False
    return isinstance(first, dict) and "ts" in first and not _ZEEK_FIELDS.isdisjoint(first)  # pyright: ignore[reportUnknownArgumentType]
