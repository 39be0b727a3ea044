"""Load the certificate of a server, and load it again when its files change.

Certificates are renewed while the server runs, for example by cert-manager in a mounted Secret. If the files
cannot be loaded, the previous content stays in use. This can happen during a renewal, when only some of the
files are new.
"""

import asyncio
import hashlib
import logging
import ssl
from pathlib import Path
from typing import Final

from dradriver.errors import UsageError

__all__ = ["Certificate"]

_log = logging.getLogger(__name__)


_FLAGS: Final = ("--tls-cert-file", "--tls-private-key-file", "--client-ca-file")


class Certificate:
    """A certificate, its private key, and the authority of the clients' certificates, in PEM files.

    Args:
        cert_file: the certificate.
        key_file: its private key.
        client_ca_file: the certificates of the authorities that sign clients' certificates. If it is given, a
            client without a valid certificate is rejected. None: clients need no certificate.

    Attributes:
        context: the TLS context for listening. New connections use the files that were loaded last.
    """

    def __init__(self, cert_file: Path, key_file: Path, client_ca_file: Path | None = None) -> None:
        """Load the files; blocks on the disk.

        Raises:
            UsageError: a file cannot be read, or the certificate and the key do not match.
        """
        self._pair, self._client_ca = (cert_file, key_file), client_ca_file
        try:
            self._digest = self._read()
            self._current = self.context = self._load()
        except OSError as error:  # ssl.SSLError is a subclass
            flags = ", ".join(_FLAGS[: len(self._files)])
            raise UsageError(f"{flags}: {self._describe(error)}") from error
        # The files of a context cannot be replaced atomically, so new files get a new context. The callback
        # also runs for clients that send no server name, because they connect to an address.
        self.context.sni_callback = self._select_context

    async def follow(self, seconds: float) -> None:
        """Every `seconds`, load the files again if they have changed; until canceled."""
        while True:
            await asyncio.sleep(seconds)
            await asyncio.to_thread(self.reload)

    def reload(self) -> None:
        """Load the files again if they have changed, and log problems; blocks on the disk."""
        try:
            digest = self._read()
            if digest == self._digest:
                return
            context = self._load()
        except OSError as error:
            _log.warning("cannot reload the certificate, keeping the previous one: %s", self._describe(error))
            return
        # If the files have changed between `_read` and `_load`, the next digest differs, and they are loaded
        # again.
        self._current, self._digest = context, digest
        _log.info("the certificate was reloaded")

    @property
    def _files(self) -> tuple[Path, ...]:
        return self._pair if self._client_ca is None else (*self._pair, self._client_ca)

    def _read(self) -> bytes:
        return hashlib.sha256(b"".join(hashlib.sha256(f.read_bytes()).digest() for f in self._files)).digest()

    def _load(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_cert_chain(*self._pair)
        if self._client_ca is not None:
            context.load_verify_locations(self._client_ca)
            context.verify_mode = ssl.CERT_REQUIRED
            # A resumed session skips the check of the client's certificate, also after its authority was
            # removed from the file.
            context.options |= ssl.OP_NO_TICKET
            context.num_tickets = 0
        return context

    def _select_context(
        self, connection: ssl.SSLObject | ssl.SSLSocket, _name: str | None, _context: ssl.SSLContext
    ) -> None:
        connection.context = self._current

    def _describe(self, error: OSError) -> str:
        files = " and ".join(map(str, self._files))
        if isinstance(error, ssl.SSLError):
            rule = "must be a certificate and its private key"
            if self._client_ca is not None:
                rule += ", and certificates of authorities"
            return f"{files}: {rule} ({error.reason or error})"
        return f"{error.filename or files}: {error.strerror}"
