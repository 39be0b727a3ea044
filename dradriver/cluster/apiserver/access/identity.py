"""Users, tokens, and the certificate authority with which clients use TLS.

The server uses TLS because kubectl and client-go send no tokens over plain HTTP. A token contains the user's
name and a keyed hash. Only the server's data folder contains the key of the hash. The server stores the key,
but no tokens.
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
_VALIDITY = timedelta(days=3650)
_MAX_CHECKED = 1024
"""Number of valid tokens whose users are kept, because each request of a client has the same token."""


@dataclass(frozen=True, slots=True)
class Identity:
    """An authenticated user.

    Attributes:
        name: the user name in the form of Kubernetes: `system:node:worker`, `system:serviceaccount:ns:name`.
        groups: the groups of the user.
        node: the node to which the user is bound; "" for none.
        is_node: whether the user is a kubelet, not a service account.
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


def parse_user(text: str) -> Identity | None:
    """Return the user of a short name.

    Short names are `admin`; `node:NAME`, the kubelet of a node; `driver:NAME`, a driver's service account bound
    to a node; `sa:NAMESPACE:NAME`, any other service account. With a third part `:NODE`, this service account
    is bound to a node. The result is None for any other text.
    """
    kind, _, rest = text.partition(":")
    if text == "admin":
        return Identity("admin", ("system:masters", "system:authenticated"))
    if kind == "node" and rest:
        return Identity(f"system:node:{rest}", ("system:nodes", "system:authenticated"), rest, is_node=True)
    if kind == "driver" and rest:
        return _make_service_account(DRIVER_NAMESPACE, "dra-driver", rest)
    if kind == "sa" and rest.count(":") in {1, 2}:
        namespace, name, *node = rest.split(":")
        return _make_service_account(namespace, name, node[0] if node else "")
    return None


def _make_service_account(namespace: str, name: str, node: str) -> Identity:
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated")
    return Identity(f"system:serviceaccount:{namespace}:{name}", groups, node)


class Tokens:
    """Creates and checks tokens: the user's short name and a keyed hash of this name."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._checked: dict[str, Identity] = {}

    def token(self, user: str) -> str:
        """Return the token of a short name. Each call with the same name returns the same token."""
        name = base64.urlsafe_b64encode(user.encode()).decode().rstrip("=")
        return f"{name}.{self._mac(user)}"

    def _mac(self, user: str) -> str:
        digest = hmac.new(self._key, user.encode(), hashlib.sha256).digest()
        return base64.urlsafe_b64encode(digest).decode().rstrip("=")

    def user(self, token: str) -> Identity | None:
        """Return the user of a token; None for a token from another source."""
        known = self._checked.get(token)
        if known is None and (known := self._check(token)) is not None:
            if len(self._checked) >= _MAX_CHECKED:
                self._checked.clear()
            self._checked[token] = known
        return known

    def _check(self, token: str) -> Identity | None:
        name, _, mac = token.partition(".")
        try:
            user = base64.urlsafe_b64decode(name + "=" * (-len(name) % 4)).decode()
        except ValueError:  # the token is not ASCII, base64 or UTF-8
            return None
        return parse_user(user) if hmac.compare_digest(mac.encode(), self._mac(user).encode()) else None


@dataclass(frozen=True, slots=True)
class Credentials:
    """The credentials in the data folder: the CA's certificate, the server's TLS context, and the tokens."""

    ca_file: Path
    context: ssl.SSLContext
    tokens: Tokens


def load_credentials(folder: Path, host: str) -> Credentials:
    """Read the credentials of a data folder and create missing credentials. Blocking.

    Each file is first written under another name and then renamed, so no file is incomplete if the process
    dies. If the CA exists but the server certificate is missing, the next start creates the certificate.
    """
    key_file, ca_file, ca_key_file = folder / "token.key", folder / "ca.crt", folder / "ca.key"
    server_file = folder / f"server-{hashlib.sha256(host.encode()).hexdigest()[:8]}.pem"
    if not key_file.exists():
        _write(key_file, secrets.token_bytes(32))
    if not (ca_key_file.exists() and ca_file.exists()):
        key, certificate = _create_authority()
        _write(ca_key_file, _encode_private_key(key))
        _write(ca_file, certificate.public_bytes(serialization.Encoding.PEM))
        server_file.unlink(missing_ok=True)
    if not server_file.exists():
        _write(server_file, _create_server_certificate(ca_file.read_bytes(), ca_key_file.read_bytes(), host))
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(server_file)
    return Credentials(ca_file, context, Tokens(key_file.read_bytes()))


def _write(path: Path, data: bytes) -> None:
    temporary = path.with_name(path.name + ".new")
    temporary.unlink(missing_ok=True)
    with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(data)
    temporary.replace(path)


def _encode_private_key(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _start_certificate(
    subject: str, issuer: x509.Name, key: ec.EllipticCurvePrivateKey
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, subject)]))
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + _VALIDITY)
    )


def _create_authority() -> tuple[ec.EllipticCurvePrivateKey, x509.Certificate]:
    key = ec.generate_private_key(ec.SECP256R1())
    name = "dradriver embedded control plane"
    issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    usage = x509.KeyUsage(
        digital_signature=True, content_commitment=False, key_encipherment=False, data_encipherment=False,
        key_agreement=False, key_cert_sign=True, crl_sign=True, encipher_only=False, decipher_only=False,
    )  # fmt: skip
    builder = _start_certificate(name, issuer, key)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    builder = builder.add_extension(usage, critical=True)
    identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    return key, builder.add_extension(identifier, critical=False).sign(key, hashes.SHA256())


def _create_server_certificate(ca: bytes, ca_key: bytes, host: str) -> bytes:
    authority = x509.load_pem_x509_certificate(ca)
    signer = serialization.load_pem_private_key(ca_key, None)
    if not isinstance(signer, ec.EllipticCurvePrivateKey):
        raise TypeError("ca.key is not an elliptic curve key")
    key = ec.generate_private_key(ec.SECP256R1())
    names = {"localhost", "127.0.0.1", "::1", "kubernetes.default.svc", host}
    builder = _start_certificate("kube-apiserver", authority.subject, key)
    builder = builder.add_extension(
        x509.SubjectAlternativeName([_subject_alternative_name(name) for name in sorted(names)]), critical=False
    )
    builder = builder.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
    identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key())
    certificate = builder.add_extension(identifier, critical=False).sign(signer, hashes.SHA256())
    return _encode_private_key(key) + certificate.public_bytes(serialization.Encoding.PEM)


def _subject_alternative_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)
