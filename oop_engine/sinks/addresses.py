"""Read the URIs of servers: what belongs to the place, and the options that follow the question mark.

No password stands in a URI, where the list of processes and the history of the shell would show it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from urllib.parse import SplitResult, parse_qsl, urlsplit

import attrs

from oop_engine.sinks.errors import SinkError
from operators.errors import did_you_mean


@attrs.frozen
class Address:
    """A URI that was read: its parts, and its options by name."""

    text: str
    parts: SplitResult
    options: Mapping[str, str]

    @classmethod
    def of(cls, text: str, known: Collection[str], example: str, *, others: bool = False) -> Address:
        """Read a URI; SinkError for an option that is not `known` (unless `others` may be), a password, or no host.

        >>> Address.of("influx://host:8086/flows?tags=srcIP", ["tags"], "").options
        {'tags': 'srcIP'}
        """
        parts = urlsplit(text)
        options = dict(parse_qsl(parts.query, keep_blank_values=True))
        secret = next((name for name in options if "password" in name.lower() or "token" in name.lower()), None)
        if parts.password is not None or secret is not None:
            raise SinkError(
                f'"{parts.scheme}://{parts.netloc.rpartition("@")[2]}{parts.path}": the URI has a password or token, '
                f"which others could read in the list of processes.\n  Leave it out; {example}"
            )
        if not parts.netloc:
            raise SinkError(f'"{text}": it names no server.\n  Write {example}')
        wrong = next((name for name in options if name not in known and not others), None)
        if wrong is not None:
            raise SinkError(f'"{text}": "{wrong}" is no option of it. {did_you_mean(wrong, known)}\n  Write {example}')
        return cls(text, parts, options)

    @property
    def host(self) -> str:
        """Return the server, without the user."""
        return self.parts.netloc.rpartition("@")[2]

    def number(self, name: str, default: int) -> int:
        """Return an option that is a whole number from 1 on; SinkError for another."""
        value = self.options.get(name, str(default))
        if not value.isdecimal() or int(value) < 1:
            raise SinkError(f'"{self.text}": {name}={value} should be a whole number from 1 on.')
        return int(value)

    def names(self, name: str) -> tuple[str, ...]:
        """Return an option that lists names."""
        return tuple(part for part in self.options.get(name, "").split(",") if part)
