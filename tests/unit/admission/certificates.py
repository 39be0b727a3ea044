"""Self-signed certificates."""

import ipaddress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate and its key, as PEM."""

    certificate: str
    key: str

    def write(self, folder: Path) -> tuple[Path, Path]:
        """Write `tls.crt` and `tls.key`, as in a Secret of the type kubernetes.io/tls; return their paths."""
        files = folder / "tls.crt", folder / "tls.key"
        for file, text in zip(files, (self.certificate, self.key), strict=True):
            file.write_text(text)
        return files


def make_pair(name: str) -> Pair:
    """Return a new pair for this machine."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    encoding = serialization.Encoding.PEM
    return Pair(
        certificate.public_bytes(encoding).decode(),
        key.private_bytes(encoding, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()).decode(),
    )
