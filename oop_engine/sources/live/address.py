"""Parse the address that something listens at, `address:port`: loopback, unless the user allows others.

Exporters may be listened to over UDP, TCP and TLS: `tcp://address:port` says which.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from typing import Final

import attrs

from oop_engine.sources.errors import SourceError
from oop_engine.sources.flows.channel import TCP, TLS, UDP

_LOCAL: Final = ("localhost", "127.0.0.1", "[::1]")
"""Names that lead to this machine from nowhere else."""


@attrs.frozen
class Listening:
    """An address and a port; port 0 stands for any that is free. What is no datagram names its transport."""

    host: str
    port: int
    transport: str = UDP

    @classmethod
    def parse(cls, text: str) -> Listening:
        """Read "127.0.0.1:2055" or "[::1]:2055"; SourceError naming the text, with the right form."""
        host, colon, port = text.strip().rpartition(":")
        host = host.removeprefix("[").removesuffix("]") if host.startswith("[") == host.endswith("]") else ""
        host = "127.0.0.1" if host == "localhost" else host
        try:
            address = ipaddress.ip_address(host)
            number = int(port) if port.isdecimal() else -1
        except ValueError:
            number, address = -1, None
        if not colon or address is None or not 0 <= number < 65_536:
            raise SourceError(
                f'"{text}" is no address to listen on; write ADDRESS:PORT, such as 127.0.0.1:2055, [::1]:4739,\n'
                "  or 0.0.0.0:2055 for all IPv4 addresses of this machine. Names are not looked up."
            )
        return cls(str(address), number)

    @classmethod
    def of_exporters(cls, text: str) -> Listening:
        """Read an address that exporters send to: "127.0.0.1:2055", "udp://...", "tcp://..." or "tls://...".

        SourceError naming the text, with the right form.
        """
        scheme, separator, rest = text.strip().partition("://")
        if not separator:
            return cls.parse(text)
        transport = scheme.lower()
        if transport not in (UDP, TCP, TLS):
            raise SourceError(
                f'"{text}" names the transport "{scheme}"; exporters are listened to over udp://, tcp:// and tls://,\n'
                f"  such as tcp://{rest or '127.0.0.1:4739'}. Without one it is UDP."
            )
        return attrs.evolve(cls.parse(rest), transport=transport)

    @property
    def is_stream(self) -> bool:
        """Return whether exporters connect to it, rather than send datagrams."""
        return self.transport != UDP

    @property
    def is_loopback(self) -> bool:
        """Return whether only this machine reaches it."""
        return ipaddress.ip_address(self.host).is_loopback

    @property
    def is_ipv6(self) -> bool:
        return ":" in self.host

    def admits(self, host: str) -> bool:
        """Return whether a request of HTTP with this Host is for us, whatever the port, which a tunnel changes.

        On loopback only names of loopback are: a page of others may have a name that leads here, and is not to read
        what we say.
        """
        name = host.rpartition(":")[0] if host.rpartition(":")[2].isdecimal() else host
        return not self.is_loopback or name.lower() in (*_LOCAL, str(self).rpartition(":")[0])

    def __str__(self) -> str:
        place = f"[{self.host}]:{self.port}" if self.is_ipv6 else f"{self.host}:{self.port}"
        return f"{self.transport}://{place}" if self.is_stream else place


def check_open(listening: Listening, *, allowed: bool, anyone: bool) -> None:
    """Check that who may send was said where more than this machine can; SourceError when not."""
    if listening.is_loopback or allowed or anyone:
        return
    raise SourceError(
        f"listening on {listening} takes {_taken(listening)}.\n"
        '  Say which exporters are yours, allow="192.0.2.0/24", or listen on 127.0.0.1; anyone=True opens it to all.'
    )


def addresses_text(where: Sequence[Listening]) -> str:
    """Write addresses in a row."""
    return ", ".join(map(str, where))


def _taken(listening: Listening) -> str:
    if listening.is_stream:
        return "connections from whoever reaches this machine"
    return "datagrams from whoever reaches this machine, and anybody can forge them"
