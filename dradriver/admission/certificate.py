"""The certificate of the webhook's server, loaded again when its files change.

Certificates are renewed while the webhook runs (cert-manager, a Secret mounted by the kubelet). If a pair
cannot be loaded, for example a new certificate beside the old key during a change, the previous pair stays in
use.
"""

import asyncio
import hashlib
import logging
import ssl
from pathlib import Path

from dradriver.errors import UsageError

__all__ = ["Certificate"]

_log = logging.getLogger("dradriver.admission")


class Certificate:
    """A pair of certificate and private key, in PEM files.

    Attributes:
        context: the TLS context for listening. New connections use the pair that was loaded last.
    """

    def __init__(self, cert_file: Path, key_file: Path) -> None:
        """Load the pair; blocks on the disk.

        Raises:
            UsageError: a file cannot be read, or the two files do not match.
        """
        self._files = cert_file, key_file
        try:
            self._digest = self._read()
            self._current = self.context = self._load()
        except OSError as error:  # ssl.SSLError is a subclass
            raise UsageError(f"--tls-cert-file, --tls-private-key-file: {self._why(error)}") from error
        # One context cannot change its pair in a single step, so each pair has a context. The callback also
        # runs for clients that send no server name (those that connect to an address).
        self.context.sni_callback = self._choose

    async def follow(self, seconds: float) -> None:
        """Check the files at this interval, forever."""
        while True:
            await asyncio.sleep(seconds)
            await asyncio.to_thread(self.reload)

    def reload(self) -> None:
        """Load the pair again if the files have changed; blocks on the disk, logs problems."""
        try:
            digest = self._read()
            if digest == self._digest:
                return
            context = self._load()
        except OSError as error:
            _log.warning("the certificate can't be read again, the one before stays: %s", self._why(error))
            return
        # If the files changed between reading and loading, the next digest differs, and they are loaded again.
        self._current, self._digest = context, digest
        _log.info("the certificate has changed")

    def _read(self) -> bytes:
        return hashlib.sha256(b"".join(hashlib.sha256(f.read_bytes()).digest() for f in self._files)).digest()

    def _load(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_cert_chain(*self._files)
        return context

    def _choose(
        self, connection: ssl.SSLObject | ssl.SSLSocket, _name: str | None, _context: ssl.SSLContext
    ) -> None:
        connection.context = self._current

    def _why(self, error: OSError) -> str:
        files = " and ".join(map(str, self._files))
        if isinstance(error, ssl.SSLError):
            return f"{files} are no certificate and its private key ({error.reason or error})"
        return f"{error.filename or files}: {error.strerror}"
