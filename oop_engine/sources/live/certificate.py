"""The certificate that a listener of TLS shows, and who has to show one to it."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import NoReturn

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

    def context(self) -> ssl.SSLContext:
        """Load the files; SourceError that names the one which cannot be used, and why."""
        made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        made.minimum_version = ssl.TLSVersion.TLSv1_2
        for option, path in (("certificate", self.certificate), ("key", self.key), ("client_ca", self.client_ca)):
            if path is not None:
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


def _readable(option: str, path: Path) -> None:
    try:
        with path.open("rb"):
            return
    except OSError as error:
        raise SourceError(f'{option}="{path}" cannot be read: {error.strerror}.') from None


def _reason(error: ssl.SSLError) -> str:
    """Say what OpenSSL found wrong, in its words."""
    return (error.reason or str(error)).replace("_", " ").lower()
