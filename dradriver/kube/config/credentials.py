"""Sources of the `Authorization` header. Each source decides when it reads its credentials again."""

import asyncio
import base64
import time
from pathlib import Path
from typing import Any, Final, Protocol

from dradriver.errors import DraError
from dradriver.extras import require
from dradriver.kube.config.kubeconfig import KubeconfigContext

__all__ = ["FileToken", "FixedHeader", "HeaderSource", "PluginToken", "basic", "bearer"]

_REREAD_SECONDS: Final = 60.0
"""Seconds after which a token is read again, as in client-go.

The kubelet replaces projected service account tokens about every hour.
"""


class HeaderSource(Protocol):
    """Source of the `Authorization` header of the next request."""

    async def header(self) -> str:
        """Return the value of the header; empty if no header must be sent.

        Raises:
            DraError: the credentials can't be read.
        """

    def expire(self) -> None:
        """Discard the value that the server rejected (401). The next call of `header` reads it again."""


def bearer(token: str) -> str:
    """Return the header value for a token."""
    return f"Bearer {token}"


def basic(username: str, password: str) -> str:
    """Return the header value for a user name and a password."""
    return "Basic " + base64.b64encode(f"{username}:{password}".encode()).decode()


class FixedHeader:
    """A header that never changes."""

    def __init__(self, value: str = "") -> None:
        self._value = value

    async def header(self) -> str:
        """Return the value."""
        return self._value

    def expire(self) -> None:
        """Do nothing: the value never changes."""


class FileToken:
    """A token in a file that another component renews."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._value = ""
        self._read_at = float("-inf")

    async def header(self) -> str:
        """Return the token. The file is read at most once a minute. If a read fails, the last token is used."""
        if time.monotonic() - self._read_at < _REREAD_SECONDS:
            return self._value
        try:
            token = (await asyncio.to_thread(self._path.read_text)).strip()
        except OSError as error:
            if not self._value:
                raise DraError(f"token file {self._path}: cannot be read: {error.strerror}") from None
            return self._value
        if token:
            self._value, self._read_at = bearer(token), time.monotonic()
        elif not self._value:
            raise DraError(f"token file {self._path}: is empty")
        return self._value

    def expire(self) -> None:
        """Discard the value, so that the next call reads the file again."""
        self._read_at = float("-inf")


class PluginToken:
    """Credentials of an `exec` or `auth-provider` user, which `kubernetes.aio` obtains and renews.

    Attributes:
        cert_file: the file of the client certificate that the plugin returned, if any.
        key_file: the file of the client certificate's key.
    """

    def __init__(self, context: KubeconfigContext) -> None:
        self._context = context
        self._loader: Any = None
        self._value = ""
        self._read_at = float("-inf")
        self.cert_file: str | None = None
        self.key_file: str | None = None

    async def header(self) -> str:
        """Return the plugin's token. The plugin is called once a minute, and usually returns a cached token."""
        if time.monotonic() - self._read_at < _REREAD_SECONDS:
            return self._value
        subject = f"kubeconfig {self._context.source}, context {self._context.name}"
        require("kubeconfig", f"{subject}: users[].user.{self._kind}")
        # This import takes a quarter of a second and 20 MiB, so it is done only if a user has a plugin.
        from kubernetes.aio.client import Configuration  # noqa: PLC0415
        from kubernetes.aio.config.kube_config import KubeConfigLoader  # noqa: PLC0415

        configuration = Configuration()
        try:
            if self._loader is None:
                self._loader = KubeConfigLoader(self._to_config(), config_base_path="")
            await self._loader.load_and_set(configuration)
        except Exception as error:  # plugins may raise any exception
            raise DraError(f"{subject}: users[].user.{self._kind}: {error}") from error
        self._value = configuration.api_key.get("BearerToken", "")
        self.cert_file, self.key_file = configuration.cert_file, configuration.key_file
        if not self._value and not self.cert_file:
            raise DraError(f"{subject}: users[].user.{self._kind}: returned neither a token nor a certificate")
        self._read_at = time.monotonic()
        return self._value

    def expire(self) -> None:
        """Discard the plugin's state, so that the next call runs the plugin again."""
        self._loader = None
        self._read_at = float("-inf")

    @property
    def _kind(self) -> str:
        return "exec" if self._context.user.exec is not None else "auth-provider"

    def _to_config(self) -> dict[str, object]:
        user = self._context.user
        plugin = user.exec if user.exec is not None else user.auth_provider
        return {
            "current-context": "it",
            "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
            "clusters": [{"name": "it", "cluster": {"server": self._context.cluster.server}}],
            "users": [{"name": "it", "user": {self._kind: plugin}}],
        }
