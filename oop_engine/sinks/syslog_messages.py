"""Results go to a syslog server, each as one message of RFC 5424 that is a JSON object."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Final

import attrs

from oop_engine.sinks.addresses import Address
from oop_engine.sinks.encoders import Ndjson
from oop_engine.sinks.errors import SinkError
from oop_engine.sinks.outbox import Delivery, Sender, Sent
from oop_engine.sinks.retry import RETRY, Refused, Retry
from operators.data.page import Page
from operators.data.schema import Schema
from operators.errors import did_you_mean

FACILITIES: Final = (
    "kern", "user", "mail", "daemon", "auth", "syslog", "lpr", "news", "uucp", "cron", "authpriv", "ftp", "ntp",
    "audit", "alert", "clock", *(f"local{number}" for number in range(8)),
)  # fmt: skip
SEVERITIES: Final = ("emerg", "alert", "crit", "err", "warning", "notice", "info", "debug")
_EXAMPLE: Final = "syslog://host:514?facility=local0&severity=info, or syslog+tcp: in its place."
_LARGEST: Final = 65_000
"""Bytes of a datagram."""


def message(
    text: str, *, facility: str = "local0", severity: str = "info", app: str = "oop-engine", name: str = "-",
    when: datetime | None = None, host: str = "-",
) -> bytes:  # fmt: skip
    """Write a message of RFC 5424.

    - `text`: what it says; line breaks become spaces.
    - `facility`, `severity`: by their names, as in FACILITIES and SEVERITIES.
    - `app`, `host`: who sends it; `name`: its kind (MSGID).
    - `when`: the time; by default there is none.

    >>> message("up", severity="err", name="alert", when=datetime(2026, 11, 21, tzinfo=UTC), host="probe")
    b'<131>1 2026-11-21T00:00:00Z probe oop-engine - alert - up'
    """
    number = FACILITIES.index(facility) * 8 + SEVERITIES.index(severity)
    moment = "-" if when is None else when.astimezone(UTC).isoformat().replace("+00:00", "Z")
    line = " ".join(text.splitlines())
    return f"<{number}>1 {moment} {_word(host)} {_word(app)} - {_word(name)} - {line}".encode()


def _word(text: str) -> str:
    """Return a word of a header: printable ASCII without blanks, "-" where that leaves nothing."""
    return "".join(sign for sign in text if "!" <= sign <= "~")[:48] or "-"


@attrs.frozen
class SyslogSink(Sent):
    """Results as messages of RFC 5424, by UDP or TCP (RFC 6587, with their lengths).

    Nobody acknowledges a message: UDP may lose any, and TCP those that are under way when a connection breaks.
    Revisions and retractions are further messages, which `sign` tells from others.
    """

    host: str
    port: int = 514
    stream: bool = False
    facility: str = "local0"
    severity: str = "info"
    app: str = "oop-engine"
    retry: Retry = attrs.field(default=RETRY, repr=False)
    clock: Callable[[], datetime] = attrs.field(default=lambda: datetime.now(UTC), repr=False)

    @classmethod
    def named(cls, text: str) -> SyslogSink:
        """Read syslog://HOST:PORT?facility=local0&severity=info&app=NAME, or syslog+tcp:; SinkError for other parts."""
        address = Address.of(text, ("facility", "severity", "app"), _EXAMPLE)
        facility, severity = address.options.get("facility", "local0"), address.options.get("severity", "info")
        for value, known in ((facility, FACILITIES), (severity, SEVERITIES)):
            if value not in known:
                raise SinkError(f'"{text}": "{value}" is none of {", ".join(known)}. {did_you_mean(value, known)}')
        host = address.parts.hostname
        assert host is not None
        stream = address.parts.scheme.lower() == "syslog+tcp"
        return cls(
            host, address.parts.port or 514, stream, facility, severity, address.options.get("app", "oop-engine")
        )

    @property
    def place(self) -> str:
        return f"syslog{'+tcp' if self.stream else ''}://{self.host}:{self.port}"

    def sender(self, schema: Schema, job: str | None = None) -> Sender:
        return SyslogSender(self)

    def message(self, text: str, name: str = "result") -> bytes:
        """Write a message of this sink."""
        return message(
            text, facility=self.facility, severity=self.severity, app=self.app, name=name, when=self.clock(),
            host=os.uname().nodename if hasattr(os, "uname") else "-",
        )  # fmt: skip


@attrs.define(eq=False)
class SyslogSender:
    """A connection to a syslog server."""

    sink: SyslogSink
    _socket: socket.socket | None = attrs.field(init=False, default=None)

    def send(self, pages: Iterable[Page], delivery: Delivery | None = None) -> None:
        for page in pages:
            encoder = Ndjson()
            encoder.open(page.schema)
            for line in encoder.write(page).decode().splitlines():
                self.put(self.sink.message(line))

    def put(self, written: bytes) -> None:
        """Send one message; WriteFailed where it cannot be sent."""
        if self.sink.stream:
            written = b"%d %s" % (len(written), written)
        elif len(written) > _LARGEST:
            raise SinkError(f"a result is {len(written):,} bytes, and a datagram has {_LARGEST:,}; use syslog+tcp:.")

        def once() -> None:
            try:
                if self._socket is None:
                    self._socket = self._connected()
                self._socket.sendall(written)
            except OSError as error:
                self.close()
                raise Refused(error.strerror or str(error)) from error

        self.sink.retry.call(once, self.sink.place)

    def _connected(self) -> socket.socket:
        kind = socket.SOCK_STREAM if self.sink.stream else socket.SOCK_DGRAM
        family, *_, where = socket.getaddrinfo(self.sink.host, self.sink.port, type=kind)[0]
        made = socket.socket(family, kind)
        made.settimeout(30)
        made.connect(where)
        return made

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None
