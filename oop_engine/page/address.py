"""The address that a page is served at, and who may see it: this machine, or who knows a token."""

from __future__ import annotations

import hmac
import socket
from typing import Final

import attrs

from oop_engine.errors import PlanError
from oop_engine.sources.live.address import Listening

_LEAST: Final = 8
"""Characters that a token has at least."""


@attrs.frozen
class Address:
    """Where a page is served.

    - `listening`: the address to listen on; port 0 takes any that is free.
    - `token`: what a reader must know; None where only this machine can reach the address.
    """

    listening: Listening
    token: str | None = attrs.field(default=None, repr=False)

    @classmethod
    def of(cls, text: str, token: str | None = None) -> Address:
        """Read ADDRESS:PORT; SourceError for what is none, PlanError for one that others reach without a token."""
        if token is not None and (len(token) < _LEAST or not token.isascii() or not token.isalnum()):
            raise PlanError(
                f"the token of the page has {len(token)} characters; write {_LEAST} or more, letters and digits only."
            )
        listening = Listening.parse(text)
        if token is None and not listening.is_loopback:
            raise PlanError(
                f'page="{text}": other machines reach this address, and would see the run.\n'
                "  Serve it at 127.0.0.1, or give a token that its readers must know: --page-token TOKEN."
            )
        return cls(listening, token)

    def bound(self) -> socket.socket:
        """Return a socket that listens there; PlanError where that cannot be."""
        listening = self.listening
        try:
            family = socket.AF_INET6 if listening.is_ipv6 else socket.AF_INET
            return socket.create_server((listening.host, listening.port), family=family)
        except OSError as error:
            raise PlanError(
                f"page: cannot listen on {listening}: {error.strerror or error}.\n"
                "  Name another port, or port 0 for any that is free."
            ) from None

    def at(self, port: int) -> Address:
        """Return the address with the port that the system chose."""
        return Address(Listening(self.listening.host, port), self.token)

    def knows(self, token: str) -> bool:
        """Return whether who asks with this token may see the run."""
        return self.token is None or hmac.compare_digest(self.token.encode(), token.encode())
