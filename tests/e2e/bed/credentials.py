"""Credentials of a bed: a certificate authority, the server's certificate, tokens, kubeconfigs."""

import base64
import ipaddress
import json
import secrets
import tempfile
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

NODES: Final = ("node-1", "node-2", "node-3", "node-4")
USERS: Final[Mapping[str, tuple[str, str]]] = {
    "admin": ("admin", "system:masters"),
    "scheduler": ("system:kube-scheduler", ""),
    "controller-manager": ("system:kube-controller-manager", ""),
    **{f"node:{node}": (f"system:node:{node}", "system:nodes") for node in NODES},
}
"""Short name -> user name and group. Service accounts get their tokens from the API server."""


class Credentials:
    """Credential files that the components read.

    Attributes:
        ca_file: the certificate of the authority, which clients trust.
        server_cert, server_key: the API server's.
        account_key: signs service accounts' tokens.
        kubelet_client_cert, kubelet_client_key: the API server's, as a client of kubelets.
        token_file: the tokens of `USERS`, in the form of `--token-auth-file`.
    """

    def __init__(self, folder: Path, address: str) -> None:
        folder.mkdir(mode=0o700)
        self._folder = folder
        self.ca_file = folder / "ca.crt"
        self.server_cert, self.server_key = folder / "server.crt", folder / "server.key"
        self.account_key = folder / "service-accounts.key"
        self.kubelet_client_cert, self.kubelet_client_key = (
            folder / "kubelet-client.crt",
            folder / "kubelet-client.key",
        )
        self.token_file = folder / "tokens.csv"
        self._tokens = {user: secrets.token_urlsafe() for user in USERS}
        authority = ec.generate_private_key(ec.SECP256R1())
        self.ca_file.write_bytes(_certificate("bed", authority, authority, ca=True))
        for certificate, key_file, name in (
            (self.server_cert, self.server_key, "kube-apiserver"),
            (self.kubelet_client_cert, self.kubelet_client_key, "kube-apiserver-kubelet-client"),
        ):
            key = ec.generate_private_key(ec.SECP256R1())
            certificate.write_bytes(_certificate(name, key, authority, address))
            key_file.write_bytes(_private(key))
        self.account_key.write_bytes(_private(ec.generate_private_key(ec.SECP256R1())))
        self.token_file.write_text(
            "".join(f'{self._tokens[user]},{name},{name},"{group}"\n' for user, (name, group) in USERS.items())
        )

    def token(self, user: str) -> str:
        """Return the token of one of `USERS`."""
        return self._tokens[user]

    def write_kubeconfig(self, url: str, user: str) -> Path:
        """Write the kubeconfig of one of `USERS` and return its path."""
        authority = base64.b64encode(self.ca_file.read_bytes()).decode()
        document = {
            "apiVersion": "v1", "kind": "Config", "current-context": "bed",
            "clusters": [{"name": "bed", "cluster": {"server": url, "certificate-authority-data": authority}}],
            "users": [{"name": user, "user": {"token": self._tokens[user]}}],
            "contexts": [{"name": "bed", "context": {"cluster": "bed", "user": user, "namespace": "default"}}],
        }  # fmt: skip
        path = self._folder / f"{user.replace(':', '-')}.kubeconfig"
        # The rename is atomic: other threads and programs may be reading the file.
        with tempfile.NamedTemporaryFile("w", dir=self._folder, delete=False) as unfinished:
            json.dump(document, unfinished)
        return Path(unfinished.name).replace(path)


def _private(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _certificate(
    name: str,
    key: ec.EllipticCurvePrivateKey,
    authority: ec.EllipticCurvePrivateKey,
    address: str = "127.0.0.1",
    *,
    ca: bool = False,
) -> bytes:
    now = datetime.now(UTC)
    addresses = [x509.IPAddress(ipaddress.ip_address(each)) for each in {"127.0.0.1", address}]
    services = ["kubernetes", "kubernetes.default", "kubernetes.default.svc", "localhost"]
    names = [*(x509.DNSName(each) for each in services), *addresses]
    builder = (
        x509.CertificateBuilder()
        .subject_name(_name(name)).issuer_name(_name("bed")).public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1)).not_valid_after(now + timedelta(days=2))
        .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.public_key()), critical=False
        )
    )  # fmt: skip
    if ca:
        usage = x509.KeyUsage(
            digital_signature=True, content_commitment=False, key_encipherment=False, data_encipherment=False,
            key_agreement=False, key_cert_sign=True, crl_sign=True, encipher_only=False, decipher_only=False,
        )  # fmt: skip
        builder = builder.add_extension(usage, critical=True)
    return builder.sign(authority, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
