"""Where a command reads traffic from: files, standard input, or the exporters that send to an address."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

import attrs
import click

from oop_engine.cli.options import file_of, listen_options
from oop_engine.sources.said_format import FORMATS, said_format

if TYPE_CHECKING:
    from oop_engine.api.stream import Stream

Command = Callable[..., None]
_OF_EXPORTERS: Final = (
    "allow", "anyone", "sockets", "certificate", "key", "client_ca", "lasting", "most", "active", "inactive", "settle",
)  # fmt: skip
"""Options for what is listened to alone."""


def intake_options(command: Command) -> Command:
    """Add the files that a command reads, and the options of exporters that it listens to."""
    command = listen_options(command)
    for option in reversed(
        (
            click.argument("files", nargs=-1, metavar="[FILE]..."),
            click.option(
                "--netflow", "--listen", "listen", multiple=True, metavar="ADDRESS:PORT", help="Listen to exporters of"
                " NetFlow, IPFIX and sFlow on this address instead of reading files, e.g. 127.0.0.1:2055, or"
                " tcp://127.0.0.1:4739 and tls:// for connections of IPFIX. May be repeated.",
            ),
            click.option("--allow", multiple=True, metavar="NET", help="Accept datagrams from this network only."),
            click.option("--anyone", is_flag=True, help="Accept datagrams from anybody, not only on loopback."),
            click.option("--for", "lasting", metavar="DURATION", help="Listen so long, e.g. 1h."),
            click.option("--most", type=click.IntRange(min=1), metavar="N", help="End after N datagrams."),
            click.option("--active", metavar="DURATION", help="Active timeout of the exporters' flow caches."),
            click.option("--inactive", metavar="DURATION", help="Inactive timeout of these."),
            click.option(
                "--settle", metavar="DURATION", help="Promise nothing in this time at the start.  [default: 10s]"
            ),
            click.option(
                "--slack", metavar="DURATION", help="Promise that nothing is later than this, e.g. 2s: for what cannot"
                " be read ahead, as standard input.",
            ),
            click.option(
                "--format", "format_", type=click.Choice(FORMATS),
                help="Format, if neither suffix nor content shows it.",
            ),
        )
    ):  # fmt: skip
        command = option(command)
    return command


@attrs.frozen(kw_only=True)
class Intake:
    """Where traffic comes from, as the options say; None and empty where an option is missing."""

    files: tuple[str, ...] = ()
    listen: tuple[str, ...] = ()
    sockets: int = 1
    certificate: str | None = None
    key: str | None = None
    client_ca: str | None = None
    allow: tuple[str, ...] = ()
    anyone: bool = False
    lasting: str | None = None
    most: int | None = None
    active: str | None = None
    inactive: str | None = None
    settle: str | None = None
    slack: str | None = None
    format_: str | None = None

    def __attrs_post_init__(self) -> None:
        if bool(self.listen) == bool(self.files):
            raise click.UsageError("name files to read, or --netflow ADDRESS:PORT to listen on; not both.")
        if not self.listen:
            for name in _OF_EXPORTERS:
                if getattr(self, name) not in (None, False, (), attrs.fields_dict(type(self))[name].default):
                    option = "for" if name == "lasting" else name.replace("_", "-")
                    raise click.UsageError(f"--{option} is for --netflow; files are read as they are.")
        elif self.slack is not None or self.format_ is not None:
            option = "--format" if self.slack is None else "--slack"
            raise click.UsageError(
                f"{option} is for files; exporters promise by their own clocks (--active, --inactive)."
            )

    @classmethod
    def of(cls, options: dict[str, Any]) -> tuple[Intake, dict[str, Any]]:
        """Return the intake that options of a command give, and the options that are not its own."""
        names = {field.name for field in attrs.fields(cls)}
        own = {name: value for name, value in options.items() if name in names}
        return cls(**own), {name: value for name, value in options.items() if name not in names}

    def stream(self, columns: Sequence[str] = (), *, opened: Callable[[Any], None] | None = None) -> Stream:
        """Return the stream: `columns` are read beyond the common ones where the traffic is flow exports.

        `opened` is called with the reader of exporters when its socket is bound.
        """
        # Start-up: help needs nothing of the engine.
        from oop_engine.api.read import kind_read, netflow, read
        from oop_engine.cli.collecting import told_of
        from oop_engine.plan.punctuate import slack as promised

        if self.listen:
            live = netflow(
                listen=self.listen, sockets=self.sockets, certificate=file_of(self.certificate),
                key=file_of(self.key), client_ca=file_of(self.client_ca), columns=columns, allow=self.allow or None,
                anyone=self.anyone, lasting=self.lasting, most=self.most, active=self.active,
                inactive=self.inactive, settle=self.settle or "10s",
            )  # fmt: skip
            return live if opened is None else told_of(live, opened)
        files, known = self.files, self.format_
        if known is None:
            known, first = said_format(files[0])
            files = (first, *files[1:])
        more = columns if kind_read(files, known) == "netflow" else ()
        return read(*files, format=known, columns=more, punctuate=None if self.slack is None else promised(self.slack))
