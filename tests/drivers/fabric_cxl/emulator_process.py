"""The emulator of a Redfish manager, as a process, and its failures on demand."""

import asyncio
import datetime as dt
import ipaddress
import json
import os
import ssl
import subprocess
import sys
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from dradriver_fabric_cxl.fabric import FabricPace
from dradriver_fabric_cxl.fabric.redfish import CredentialFiles, RedfishSettings

USER, PASSWORD = "fabric-admin", "correct horse 7"


@dataclass(frozen=True)
class ManagerFiles:
    """Files that a manager and its clients share.

    Attributes:
        folder: where they are.
        address: where clients reach the manager.
    """

    folder: Path
    address: str = "127.0.0.1"

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        write_certificate(self.certificate, self.key, self.address)
        self.user.write_text(f"{USER}\n")
        self.password.write_text(f"{PASSWORD}\n")

    @property
    def certificate(self) -> Path:
        return self.folder / "tls.crt"

    @property
    def key(self) -> Path:
        return self.folder / "tls.key"

    @property
    def user(self) -> Path:
        return self.folder / "user"

    @property
    def password(self) -> Path:
        return self.folder / "password"

    def settings(self, url: str, pace: FabricPace) -> RedfishSettings:
        return RedfishSettings(url, CredentialFiles(self.user, self.password), self.certificate, pace=pace)


class EmulatorProcess:
    """The emulator on a free port; with the state file it can be killed and started again."""

    def __init__(self, files: ManagerFiles, options: Sequence[str] = ()) -> None:
        self.files = files
        self._options = options
        self._process: subprocess.Popen[str] | None = None
        self.url = ""

    def start(self) -> None:
        files = self.files
        command = [
            sys.executable,
            "-m",
            "dradriver_fabric_cxl.emulator",
            "--port",
            self.url.rpartition(":")[2] or "0",
        ]
        command += ["--state", str(files.folder / "state.json"), "--cert", str(files.certificate)]
        command += ["--key", str(files.key), "--user", USER, "--password-file", str(files.password)]
        command += ["--retry-after", "0", *self._options]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
        output: IO[str] | None = self._process.stdout
        assert output is not None
        line = output.readline()
        assert line, "the emulator did not start"
        self.url = json.loads(line)["url"]

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            assert self._process.stdout is not None
            self._process.stdout.close()
            self._process = None

    async def control(self, method: str, path: str, body: Mapping[str, object] | None = None) -> None:
        await asyncio.to_thread(self._control, method, path, body)

    def _control(self, method: str, path: str, body: Mapping[str, object] | None) -> None:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            f"{self.url}/emulator/{path}", data, {"Content-Type": "application/json"}, method=method
        )
        context = ssl.create_default_context(cafile=self.files.certificate)
        with urllib.request.urlopen(request, context=context):
            pass


def write_certificate(certificate: Path, key: Path, address: str = "127.0.0.1") -> None:
    """A certificate of an address that signs itself."""
    private = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "fabric manager")])
    now = dt.datetime.now(dt.UTC)
    built = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(private.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(address))]), critical=False
        )
        .sign(private, hashes.SHA256())
    )
    certificate.write_bytes(built.public_bytes(serialization.Encoding.PEM))
    key.write_bytes(
        private.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
