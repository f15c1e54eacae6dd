"""The certificate that a listener of TLS shows, also a renewed one, and who has to show one to it."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import NoReturn, TypeAlias

import attrs

from oop_engine.sources.errors import SourceError


@attrs.frozen
class Certificate:
    """Files in PEM: the chain that exporters are shown, its key, and whom the certificates of exporters come from.

    `key` is left out where the file of the certificate has it. With `client_ca` an exporter has to show a certificate
    that one of these authorities signed; without, everybody may connect who `allow` lets in.
    """

    certificate: Path = attrs.field(converter=Path)
    key: Path | None = attrs.field(converter=attrs.converters.optional(Path), default=None)
    client_ca: Path | None = attrs.field(converter=attrs.converters.optional(Path), default=None)

    @property
    def files(self) -> dict[str, Path]:
        """Return the files by what they are called as options."""
        named = {"certificate": self.certificate, "key": self.key, "client_ca": self.client_ca}
        return {option: path for option, path in named.items() if path is not None}

    def context(self) -> ssl.SSLContext:
        """Load the files; SourceError that names the one which cannot be used, and why."""
        made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        made.minimum_version = ssl.TLSVersion.TLSv1_2
        for option, path in self.files.items():
            _readable(option, path)
        try:
            made.load_cert_chain(self.certificate, self.key, password=self._no_password)
        except ssl.SSLError as error:
            held = self.certificate if self.key is None else self.key
            raise SourceError(
                f'certificate="{self.certificate}" cannot be used with the key in "{held}": {_reason(error)}.\n'
                "  Both are files in PEM: the certificate with those that signed it behind it, and its own private key."
            ) from None
        if self.client_ca is not None:
            try:
                made.load_verify_locations(self.client_ca)
            except ssl.SSLError as error:
                raise SourceError(
                    f'client_ca="{self.client_ca}" holds no certificates in PEM: {_reason(error)}.'
                ) from None
            made.verify_mode = ssl.CERT_REQUIRED
        return made

    def _no_password(self) -> NoReturn:
        held = self.certificate if self.key is None else self.key
        raise SourceError(
            f'the key in "{held}" is encrypted, and no password can be given.\n'
            "  Write it without one to a file that only this user can read: openssl pkey -in KEY -out PLAIN."
        )


@attrs.define(eq=False)
class Renewed:
    """Show a certificate, and load its files anew when they are others than before.

    Connections that are open keep what they were shown. Files that cannot be used, as a certificate whose key is still
    to be written, leave all as it was; they are tried again for each connection.
    """

    certificate: Certificate
    _context: ssl.SSLContext = attrs.field(init=False)
    _seen: tuple[_Stamp | None, ...] = attrs.field(init=False)
    _failure: str = attrs.field(init=False, default="")

    def __attrs_post_init__(self) -> None:
        self._seen = self._stamps()
        self._context = self.certificate.context()

    def context(self) -> tuple[ssl.SSLContext, str]:
        """Return what is shown to a new connection, and what there is to say of it, nothing most times.

        Cost: asking the file system for up to three files.
        """
        seen = self._stamps()
        if seen == self._seen:
            return self._context, ""
        try:
            self._context = self.certificate.context()
        except SourceError as error:
            before, self._failure = self._failure, str(error).partition("\n")[0].rstrip(".")
            what = "the renewed files cannot be used, and the former ones are shown still"
            return self._context, "" if self._failure == before else f"{what}: {self._failure}"
        self._seen, self._failure = seen, ""
        return self._context, "the renewed files are shown from now on"

    def _stamps(self) -> tuple[_Stamp | None, ...]:
        return tuple(map(_stamp, self.certificate.files.values()))


_Stamp: TypeAlias = "tuple[int, int, int]"


def _stamp(path: Path) -> _Stamp | None:
    """Return what changes when a file is written or replaced; None where there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


def _readable(option: str, path: Path) -> None:
    try:
        with path.open("rb"):
            return
    except OSError as error:
        raise SourceError(f'{option}="{path}" cannot be read: {error.strerror}.') from None


def _reason(error: ssl.SSLError) -> str:
    """Say what OpenSSL found wrong, in its words."""
    return (error.reason or str(error)).replace("_", " ").lower()
