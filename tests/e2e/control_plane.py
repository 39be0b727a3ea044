"""etcd and kube-apiserver on a bed."""

import http.client
import ssl
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Final

from tests.e2e.bed import Bed, free_port

ALL_GATES: Final[Mapping[str, bool]] = {
    "DRADerivedAttributes": True,
    "DRADeviceCompatibilityGroups": True,
    "DRAListTypeAttributes": True,
    "DRANodeAllocatableResources": True,
    "DRAOptionalNodeOperations": True,
    "DRAPartitionableDevicesType": True,
    "DRAResourcePoolStatus": True,
}
"""The gates of dynamic resource allocation that Kubernetes 1.37 has off."""
_VERSIONS: Final = ("v1alpha3", "v1beta1", "v1beta2")


def _answers(url: str, context: ssl.SSLContext | None = None) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2, context=context) as response:
            return bool(response.status == 200)
    except (OSError, urllib.error.URLError, http.client.HTTPException):
        return False


def start_etcd(bed: Bed) -> str:
    """Start etcd and give its address. What it holds need not outlive the machine: it never syncs."""
    url, peers = (f"http://127.0.0.1:{free_port()}" for _ in range(2))
    bed.run(
        "etcd", f"--data-dir={bed.folder / 'etcd'}", "--unsafe-no-fsync", f"--listen-client-urls={url}",
        f"--advertise-client-urls={url}", f"--listen-peer-urls={peers}",
        f"--initial-advertise-peer-urls={peers}", f"--initial-cluster=default={peers}",
    )  # fmt: skip
    bed.wait("etcd", lambda: _answers(f"{url}/health"))
    return url


def start_apiserver(
    bed: Bed, etcd: str, gates: Mapping[str, bool] | None = None, *, emulated_version: str = ""
) -> None:
    """Start kube-apiserver and wait until it is ready.

    Args:
        bed: where.
        etcd: the address of its etcd.
        gates: feature gates that differ from the version's defaults.
        emulated_version: an older minor (`1.35`) to behave as.
    """
    port, credentials = free_port(), bed.credentials
    bed.url = f"https://127.0.0.1:{port}"
    enabled = ",".join(f"resource.k8s.io/{version}=true" for version in _VERSIONS)
    optional = []
    if gates:
        optional.append("--feature-gates=" + ",".join(f"{k}={str(v).lower()}" for k, v in gates.items()))
    if emulated_version:
        optional.append(f"--emulated-version={emulated_version}")
    bed.run(
        "kube-apiserver", f"--etcd-servers={etcd}", f"--secure-port={port}", "--bind-address=127.0.0.1",
        "--advertise-address=127.0.0.1", "--endpoint-reconciler-type=none",
        "--service-cluster-ip-range=10.0.0.0/24",
        f"--cert-dir={bed.folder / 'apiserver'}", f"--tls-cert-file={credentials.server_cert}",
        f"--tls-private-key-file={credentials.server_key}", f"--token-auth-file={credentials.token_file}",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={credentials.account_key}",
        f"--service-account-signing-key-file={credentials.account_key}", "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction", "--disable-admission-plugins=TaintNodesByCondition",
        f"--runtime-config={enabled}", "--shutdown-delay-duration=0s", *optional,
    )  # fmt: skip
    context = ssl.create_default_context(cafile=str(credentials.ca_file))
    bed.wait("kube-apiserver", lambda: _answers(f"{bed.url}/readyz", context))


def start(bed: Bed, gates: Mapping[str, bool] | None = None) -> None:
    """Start a control plane without controllers."""
    start_apiserver(bed, start_etcd(bed), gates)
