"""Names that people have for numbers in packets: protocols, ports and the flags of TCP, as IANA lists them."""

from __future__ import annotations

from typing import Final

_PROTOCOLS_IN: Final = frozenset({"proto", "protocol", "protocolidentifier", "ip_proto"})
_PORTS_IN: Final = frozenset(
    {"srcport", "destport", "dstport", "port", "sport", "dport", "src_port", "dst_port", "dest_port",
     "sourcetransportport", "destinationtransportport", "id.orig_p", "id.resp_p"}
)  # fmt: skip
_FLAGS_IN: Final = frozenset({"flags", "tcp_flags", "tcpflags", "tcpcontrolbits"})
PROTOCOLS: Final[dict[str, int]] = {
    "icmp": 1, "igmp": 2, "ipip": 4, "tcp": 6, "udp": 17, "gre": 47, "esp": 50, "ah": 51, "icmpv6": 58, "icmp6": 58,
    "ipv6-icmp": 58, "ospf": 89, "vrrp": 112, "l2tp": 115, "sctp": 132,
}  # fmt: skip
"""The protocols that people name."""
PORTS: Final[dict[str, int]] = {
    "ftp-data": 20, "ftp": 21, "ssh": 22, "telnet": 23, "smtp": 25, "domain": 53, "dns": 53, "bootps": 67, "dhcp": 67,
    "bootpc": 68, "tftp": 69, "http": 80, "kerberos": 88, "pop3": 110, "sunrpc": 111, "ntp": 123, "netbios-ns": 137,
    "netbios-dgm": 138, "netbios-ssn": 139, "imap": 143, "snmp": 161, "snmptrap": 162, "bgp": 179, "ldap": 389,
    "https": 443, "microsoft-ds": 445, "smb": 445, "isakmp": 500, "syslog": 514, "submission": 587, "ldaps": 636,
    "imaps": 993, "pop3s": 995, "ms-sql-s": 1433, "mysql": 3306, "ms-wbt-server": 3389, "rdp": 3389, "sip": 5060,
    "sips": 5061, "mdns": 5353, "postgresql": 5432, "amqp": 5672,
}  # fmt: skip
"""The ports that people name."""
TCP_FLAGS: Final[dict[str, int]] = {
    "FIN": 1, "SYN": 2, "RST": 4, "PSH": 8, "ACK": 16, "URG": 32, "ECE": 64, "CWR": 128, "AE": 256,
}  # fmt: skip
"""The bits of TCP's flags (RFC 9293, RFC 9768)."""


def flags_named(text: str) -> int | None:
    """Return the bits of flags such as "SYN" or "SYN+ACK"; None where a name is unknown."""
    bits = [TCP_FLAGS.get(name.strip()) for name in text.upper().replace(",", "+").split("+")]
    found = [bit for bit in bits if bit is not None]
    return sum(set(found)) if len(found) == len(bits) else None


def known_names(attribute: str) -> dict[str, int]:
    """Return the names that the values of an attribute have, by what it is called; empty for most."""
    name = attribute.lower()
    if name in _PROTOCOLS_IN:
        return PROTOCOLS
    if name in _PORTS_IN:
        return PORTS
    return TCP_FLAGS if name in _FLAGS_IN else {}


def number_named(attribute: str, text: str) -> int | None:
    """Return the number that a text such as "tcp" stands for beside an attribute such as proto; None for none."""
    known = known_names(attribute)
    if known is TCP_FLAGS:
        return flags_named(text)
    return known.get(text.strip().lower())
