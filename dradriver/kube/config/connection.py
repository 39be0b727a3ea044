"""Finds address, TLS settings and credentials of the API server, in a kubeconfig or a pod's files."""

import asyncio
import base64
import binascii
import os
import ssl
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from dradriver.errors import DraError, InvalidObjectError, Problem
from dradriver.kube.config.credentials import FileToken, FixedHeader, HeaderSource, PluginToken, basic, bearer
from dradriver.kube.config.kubeconfig import KubeconfigContext, load_kubeconfig

__all__ = ["Connection", "find_connection"]

_SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")


@dataclass(frozen=True, slots=True)
class Connection:
    """An API server with its TLS settings and the client's credentials.

    Attributes:
        server: the URL of the API server, without a slash at the end.
        source: the file or service account from which the settings were read, for messages.
        tls: the TLS settings; None for plain HTTP.
        server_hostname: the name that the server's certificate must have; None: the host name of the URL.
        proxy: the URL of the HTTP proxy to use; None: no proxy.
        credentials: the source of the `Authorization` header.
        namespace: the default namespace.
    """

    server: str
    source: str
    tls: ssl.SSLContext | None
    credentials: HeaderSource
    server_hostname: str | None = None
    proxy: str | None = None
    namespace: str = "default"


async def find_connection(
    kubeconfig: str | None = None,
    context: str | None = None,
    *,
    environ: Mapping[str, str] = os.environ,
    service_account: Path = _SERVICE_ACCOUNT,
) -> Connection:
    """Return the connection to the API server.

    The settings come from the given kubeconfig. Without one, they come from the first of these that is present:
    the files that `$KUBECONFIG` names, the pod's service account, `~/.kube/config`.

    Args:
        kubeconfig: the path of a kubeconfig. None: none is given.
        context: a context of the kubeconfig. None: the kubeconfig's current context.
        environ: the environment variables.
        service_account: the folder in which a pod finds the credentials of its service account.

    Raises:
        DraError: no configuration exists, or the configuration is invalid. The message names the file and the
            field.
    """
    paths = kubeconfig or environ.get("KUBECONFIG")
    if not paths:
        host = environ.get("KUBERNETES_SERVICE_HOST")
        mounted = await asyncio.to_thread(os.path.exists, service_account / "token")
        if host and mounted:
            return await asyncio.to_thread(_in_cluster, host, environ, service_account)
        paths = "~/.kube/config"
    entry = await asyncio.to_thread(load_kubeconfig, paths, context)
    credentials = _credentials(entry)
    if isinstance(credentials, PluginToken):
        await credentials.header()  # the plugin may provide the client certificate
    return await asyncio.to_thread(_from_kubeconfig, entry, credentials)


def _in_cluster(host: str, environ: Mapping[str, str], folder: Path) -> Connection:
    port = environ.get("KUBERNETES_SERVICE_PORT", "443")
    authority = folder / "ca.crt"
    try:
        tls = _new_tls_context(authority.read_text())
        namespace = (folder / "namespace").read_text().strip()
    except ssl.SSLError as error:
        raise DraError(f"service account {authority}: not a CA certificate: {error}") from None
    except OSError as error:
        raise DraError(f"service account {folder}: {error.filename}: {error.strerror}") from None
    server = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
    return Connection(server, str(folder), tls, FileToken(folder / "token"), namespace=namespace)


def _credentials(entry: KubeconfigContext) -> HeaderSource:
    user = entry.user
    if user.exec is not None or user.auth_provider is not None:
        return PluginToken(entry)
    if user.token:
        return FixedHeader(bearer(user.token))
    if user.token_file:
        return FileToken(Path(user.token_file))
    return FixedHeader(basic(user.username, user.password) if user.username else "")


def _from_kubeconfig(entry: KubeconfigContext, credentials: HeaderSource) -> Connection:
    server = entry.cluster.server.rstrip("/")
    return Connection(
        server,
        f"kubeconfig {entry.source}",
        _tls_from_kubeconfig(entry, credentials) if server.startswith("https") else None,
        credentials,
        entry.cluster.tls_server_name or None,
        entry.cluster.proxy_url or _environment_proxy(server),
        entry.namespace,
    )


def _environment_proxy(server: str) -> str | None:
    import urllib.request  # noqa: PLC0415 - not needed inside a cluster

    url = urlsplit(server)
    if urllib.request.proxy_bypass(url.hostname or ""):
        return None
    return urllib.request.getproxies().get(url.scheme)


def _new_tls_context(authority: str | None) -> ssl.SSLContext:
    context = ssl.create_default_context(cadata=authority)
    # Strict mode requires certificate extensions that Go, and therefore Kubernetes, does not require.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context


def _tls_from_kubeconfig(entry: KubeconfigContext, credentials: HeaderSource) -> ssl.SSLContext:
    cluster, user = entry.cluster, entry.user
    field = "certificate-authority"
    try:
        authority = _pem(cluster.certificate_authority_data, cluster.certificate_authority)
        context = _new_tls_context(authority.decode() if authority else None)
        if cluster.insecure_skip_tls_verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        field = "client-certificate"
        certificate = _pem(user.client_certificate_data, user.client_certificate)
        field = "client-key"
        key = _pem(user.client_key_data, user.client_key)
        if certificate and key:
            field = "client-certificate and client-key"
            _load_chain(context, certificate, key)
        if isinstance(credentials, PluginToken) and credentials.cert_file:
            field = "exec"
            context.load_cert_chain(credentials.cert_file, credentials.key_file)
    except (ssl.SSLError, ValueError, OSError) as error:
        raise InvalidObjectError(
            f"kubeconfig {entry.source}", [Problem(field, f"is not usable: {error}")]
        ) from None
    return context


def _pem(data: str, path: str) -> bytes | None:
    if data:
        try:
            return base64.b64decode(data, validate=True)
        except binascii.Error as error:
            raise ValueError(f"not base64: {error}") from None
    return Path(path).read_bytes() if path else None


def _load_chain(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    # OpenSSL reads a certificate chain only from a file. Only this user can read the file. It is deleted before
    # the function returns.
    with tempfile.NamedTemporaryFile() as file:
        file.write(certificate + b"\n" + key)
        file.flush()
        context.load_cert_chain(file.name)
