"""The address that a page is served at, and who may see it: this machine, or who knows a token."""

from __future__ import annotations

import hmac
import ipaddress
import socket
from typing import Final

import attrs

from oop_engine.errors import PlanError

_LEAST: Final = 8
"""Characters that a token has at least."""


@attrs.frozen
class Address:
    """Where a page is served.

    - `host`, `port`: the address to listen on; port 0 takes any that is free.
    - `token`: what a reader must know; None where only this machine can reach the address.
    """

    host: str
    port: int
    token: str | None = attrs.field(default=None, repr=False)

    @classmethod
    def of(cls, text: str, token: str | None = None) -> Address:
        """Read HOST:PORT; PlanError for what is no address, and for one that others reach without a token."""
        host, colon, port = text.rpartition(":")
        host = host.removeprefix("[").removesuffix("]")
        if not colon or not host or not port.isascii() or not port.isdigit() or int(port) > 65_535:
            raise PlanError(f'page="{text}": write where the page is served as HOST:PORT, such as 127.0.0.1:8080.')
        if token is not None and (len(token) < _LEAST or not token.isascii() or not token.isalnum()):
            raise PlanError(
                f"the token of the page has {len(token)} characters; write {_LEAST} or more, letters and digits only."
            )
        address = cls(host, int(port), token)
        if token is None and not address.loopback:
            raise PlanError(
                f'page="{text}": other machines reach this address, and would see the run.\n'
                "  Serve it at 127.0.0.1, or give a token that its readers must know: --page-token TOKEN."
            )
        return address

    @property
    def loopback(self) -> bool:
        """Return whether only this machine reaches the address."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    def bound(self) -> socket.socket:
        """Return a socket that listens there; PlanError where that cannot be."""
        try:
            family = socket.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM)[0][0]
            return socket.create_server((self.host, self.port), family=family)
        except OSError as error:
            raise PlanError(
                f"page: cannot listen on {self.text(self.port)}: {error.strerror or error}.\n"
                "  Name another port, or port 0 for any that is free."
            ) from None

    def text(self, port: int) -> str:
        """Return HOST:PORT."""
        return f"[{self.host}]:{port}" if ":" in self.host else f"{self.host}:{port}"

    def admits(self, host: str, port: int) -> bool:
        """Return whether a request for this Host is for us: a page of others must not reach us by a name of theirs.

        Without loopback, it is the token that tells who may ask.
        """
        if not self.loopback:
            return True
        return host.lower() in {f"{name}:{port}" for name in ("localhost", "127.0.0.1", "[::1]")} | {self.text(port)}

    def knows(self, token: str) -> bool:
        """Return whether who asks with this token may see the run."""
        return self.token is None or hmac.compare_digest(self.token.encode(), token.encode())
