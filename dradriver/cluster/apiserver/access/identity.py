"""Users, tokens, and the certificate authority with which clients use TLS.

kubectl and client-go drop tokens over plain HTTP, hence TLS. A token contains its user's name and a keyed hash.
Only the server's data folder has the key, so the server needs to store nothing but that key.
"""

import base64
import hashlib
import hmac
import ipaddress
import os
import secrets
import ssl
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

DRIVER_NAMESPACE = "kube-system"
_YEARS = timedelta(days=3650)


@dataclass(frozen=True, slots=True)
class Identity:
    """An authenticated user.

    Attributes:
        name: as Kubernetes names it: `system:node:worker`, `system:serviceaccount:ns:name`.
        groups: its groups.
        node: the node that it is bound to, "" for none.
        is_node: a kubelet's identity, not a service account's.
    """

    name: str
    groups: tuple[str, ...]
    node: str = ""
    is_node: bool = False

    @property
    def is_admin(self) -> bool:
        """Whether the user is a member of `system:masters`."""
        return "system:masters" in self.groups


SERVER = Identity("system:apiserver", ("system:masters",))


def user_of(text: str) -> Identity | None:
    """Return the user of a short name.

    Short names are `admin`; `node:NAME`, the kubelet of a node; `driver:NAME`, a driver's service account bound
    to a node; `sa:NAMESPACE:NAME`, any other service account, bound to a node with a third `:NODE`. None for
    any other text.
    """
    kind, _, rest = text.partition(":")
    if text == "admin":
        return Identity("admin", ("system:masters", "system:authenticated"))
    if kind == "node" and rest:
        return Identity(f"system:node:{rest}", ("system:nodes", "system:authenticated"), rest, is_node=True)
    if kind == "driver" and rest:
        return _service_account(DRIVER_NAMESPACE, "dra-driver", rest)
    if kind == "sa" and rest.count(":") in {1, 2}:
        namespace, name, *node = rest.split(":")
        return _service_account(namespace, name, node[0] if node else "")
    return None


def _service_account(namespace: str, name: str, node: str) -> Identity:
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated")
    return Identity(f"system:serviceaccount:{namespace}:{name}", groups, node)


class Tokens:
    """Creates and checks tokens: the user's short name and a keyed hash of it."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def token(self, user: str) -> str:
        """Return the token of a short name. It is always the same one."""
        name = base64.urlsafe_b64encode(user.encode()).decode().rstrip("=")
        return f"{name}.{self._mac(user)}"

    def _mac(self, user: str) -> str:
        digest = hmac.new(self._key, user.encode(), hashlib.sha256).digest()
        return base64.urlsafe_b64encode(digest).decode().rstrip("=")

    def user(self, token: str) -> Identity | None:
        """Return the user of a token; None for a token from another source."""
        name, _, mac = token.partition(".")
        try:
            user = base64.urlsafe_b64decode(name + "=" * (-len(name) % 4)).decode()
        except ValueError:  # neither ASCII, base64 nor UTF-8
            return None
        return user_of(user) if hmac.compare_digest(mac.encode(), self._mac(user).encode()) else None


@dataclass(frozen=True, slots=True)
class Credentials:
    """The credentials in the data folder: the CA's certificate, the server's TLS context, and the tokens."""

    ca_file: Path
    context: ssl.SSLContext
    tokens: Tokens


def load(folder: Path, host: str) -> Credentials:
    """Read the credentials of a data folder and create missing ones. Blocking.

    Each file is written under another name first. If the process dies in between, no file is incomplete, and
    the next start adds a missing server certificate to an existing CA.
    """
    key_file, ca_file, ca_key_file = folder / "token.key", folder / "ca.crt", folder / "ca.key"
    server_file = folder / f"server-{hashlib.sha256(host.encode()).hexdigest()[:8]}.pem"
    if not key_file.exists():
        _write(key_file, secrets.token_bytes(32))
    if not (ca_key_file.exists() and ca_file.exists()):
        key, certificate = _authority()
        _write(ca_key_file, _private(key))
        _write(ca_file, certificate.public_bytes(serialization.Encoding.PEM))
        server_file.unlink(missing_ok=True)
    if not server_file.exists():
        _write(server_file, _server(ca_file.read_bytes(), ca_key_file.read_bytes(), host))
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(server_file)
    return Credentials(ca_file, context, Tokens(key_file.read_bytes()))


def _write(path: Path, data: bytes) -> None:
    temporary = path.with_name(path.name + ".new")
    temporary.unlink(missing_ok=True)
    with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(data)
    temporary.replace(path)


def _private(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _builder(subject: str, issuer: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, subject)]))
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + _YEARS)
    )


def _authority() -> tuple[ec.EllipticCurvePrivateKey, x509.Certificate]:
    key = ec.generate_private_key(ec.SECP256R1())
    name = "dradriver embedded control plane"
    issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    usage = x509.KeyUsage(
        digital_signature=True, content_commitment=False, key_encipherment=False, data_encipherment=False,
        key_agreement=False, key_cert_sign=True, crl_sign=True, encipher_only=False, decipher_only=False,
    )  # fmt: skip
    builder = _builder(name, issuer, key)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    builder = builder.add_extension(usage, critical=True)
    identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    return key, builder.add_extension(identifier, critical=False).sign(key, hashes.SHA256())


def _server(ca: bytes, ca_key: bytes, host: str) -> bytes:
    authority = x509.load_pem_x509_certificate(ca)
    signer = serialization.load_pem_private_key(ca_key, None)
    if not isinstance(signer, ec.EllipticCurvePrivateKey):
        raise TypeError("ca.key is not an elliptic curve key")
    key = ec.generate_private_key(ec.SECP256R1())
    names = {"localhost", "127.0.0.1", "::1", "kubernetes.default.svc", host}
    builder = _builder("kube-apiserver", authority.subject, key)
    builder = builder.add_extension(
        x509.SubjectAlternativeName([_san(name) for name in sorted(names)]), critical=False
    )
    builder = builder.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
    identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key())
    certificate = builder.add_extension(identifier, critical=False).sign(signer, hashes.SHA256())
    return _private(key) + certificate.public_bytes(serialization.Encoding.PEM)


def _san(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)
