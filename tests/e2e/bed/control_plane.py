"""The control plane on a bed: etcd, kube-apiserver, and optionally scheduler and controllers."""

import http.client
import json
import ssl
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from typing import Final

from tests.e2e.bed.bed import Bed
from tests.e2e.bed.programs import program
from tests.ports import reserve_port

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


def answers(url: str, context: ssl.SSLContext | None = None) -> bool:
    """Return whether a GET of the URL is answered with 200."""
    try:
        with urllib.request.urlopen(url, timeout=2, context=context) as response:
            return bool(response.status == 200)
    except (OSError, urllib.error.URLError, http.client.HTTPException):
        return False


def start_etcd(bed: Bed) -> str:
    """Start etcd without sync and return its address."""
    url, peers = (f"http://127.0.0.1:{reserve_port()}" for _ in range(2))
    bed.run(
        "etcd", f"--data-dir={bed.folder / 'etcd'}", "--unsafe-no-fsync", f"--listen-client-urls={url}",
        f"--advertise-client-urls={url}", f"--listen-peer-urls={peers}",
        f"--initial-advertise-peer-urls={peers}", f"--initial-cluster=default={peers}",
    )  # fmt: skip
    bed.wait("etcd", lambda: answers(f"{url}/health"))
    return url


def start_apiserver(
    bed: Bed,
    etcd: str,
    gates: Mapping[str, bool] | None = None,
    *,
    emulated_version: str = "",
    for_nodes: bool = False,
) -> None:
    """Start kube-apiserver and wait until it is ready.

    Args:
        bed: the bed of its processes.
        etcd: the address of its etcd.
        gates: feature gates that differ from the version's defaults.
        emulated_version: an older minor (`1.35`) to behave as.
        for_nodes: listen at the address that pods use, which needs root.
    """
    address, port = (bed.network.api, 443) if for_nodes else ("127.0.0.1", reserve_port())
    if for_nodes:
        bed.changes.add_address(address)
    credentials = bed.credentials
    bed.url = f"https://{address}:{port}"
    enabled = ",".join(f"resource.k8s.io/{version}=true" for version in _VERSIONS)
    bed.run(
        "kube-apiserver", f"--etcd-servers={etcd}", f"--secure-port={port}", f"--bind-address={address}",
        f"--advertise-address={address}", "--endpoint-reconciler-type=none",
        f"--service-cluster-ip-range={bed.network.services}",
        f"--cert-dir={bed.folder / 'apiserver'}", f"--tls-cert-file={credentials.server_cert}",
        f"--tls-private-key-file={credentials.server_key}", f"--token-auth-file={credentials.token_file}",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={credentials.account_key}",
        f"--service-account-signing-key-file={credentials.account_key}", "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction", "--disable-admission-plugins=TaintNodesByCondition",
        f"--runtime-config={enabled}", "--shutdown-delay-duration=0s", "--allow-privileged=true",
        f"--kubelet-client-certificate={credentials.kubelet_client_cert}",
        f"--kubelet-client-key={credentials.kubelet_client_key}",
        "--kubelet-preferred-address-types=InternalIP",
        # The API server calls webhooks at their pods' addresses: there is no proxy for Services.
        "--enable-aggregator-routing=true",
        *_version_options(gates, emulated_version),
    )  # fmt: skip
    context = ssl.create_default_context(cafile=str(credentials.ca_file))
    bed.wait("kube-apiserver", lambda: answers(f"{bed.url}/readyz", context))


def _version_options(gates: Mapping[str, bool] | None, emulated_version: str) -> list[str]:
    """Return the options that all programs of a control plane have in common."""
    options = []
    if gates:
        options.append("--feature-gates=" + ",".join(f"{k}={str(v).lower()}" for k, v in gates.items()))
    if emulated_version:
        options.append(f"--emulated-version={emulated_version}")
    return options


def start_scheduler(bed: Bed, versioned: Sequence[str], binding_timeout: str = "") -> None:
    """Start kube-scheduler without client-side rate limits.

    Args:
        bed: the bed of its processes.
        versioned: options that all programs of the control plane get alike.
        binding_timeout: time limit of binding conditions, such as `10s`; kube-scheduler's default if empty.
    """
    config: dict[str, object] = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "clientConnection": {
            "kubeconfig": str(bed.credentials.write_kubeconfig(bed.url, "scheduler")),
            "qps": 5000, "burst": 5000,
        },
    }  # fmt: skip
    if binding_timeout:
        arguments = {"name": "DynamicResources", "args": {"bindingTimeout": binding_timeout}}
        config["profiles"] = [{"schedulerName": "default-scheduler", "pluginConfig": [arguments]}]
    path = bed.folder / "scheduler.json"
    path.write_text(json.dumps(config))
    start_with_health(bed, "kube-scheduler", f"--config={path}", *versioned)


def start_controller_manager(bed: Bed, versioned: Sequence[str], without: Sequence[str] = ()) -> None:
    """Start kube-controller-manager without some controllers.

    The node lifecycle controller is off: nodes without kubelet keep their state.
    """
    controllers = ",".join(["*", "-node-lifecycle-controller", *(f"-{each}" for each in without)])
    credentials = bed.credentials
    kubeconfig = credentials.write_kubeconfig(bed.url, "controller-manager")
    start_with_health(
        bed, "kube-controller-manager", f"--kubeconfig={kubeconfig}", "--leader-elect=false",
        "--use-service-account-credentials=true", f"--controllers={controllers}",
        f"--service-account-private-key-file={credentials.account_key}",
        f"--root-ca-file={credentials.ca_file}", "--kube-api-qps=1000", "--kube-api-burst=1000", *versioned,
    )  # fmt: skip


def start_with_health(bed: Bed, program_name: str, *options: str, name: str = "") -> None:
    """Start a program with its health endpoints on its own port.

    Args:
        bed: the bed of its processes.
        program_name: the program.
        options: the other options.
        name: the name of the process on the bed, if it is not the program's.
    """
    port, name = reserve_port(), name or program_name
    bed.spawn(
        name, str(program(program_name)), f"--secure-port={port}", "--bind-address=127.0.0.1",
        f"--cert-dir={bed.folder / name}", "--authorization-always-allow-paths=/healthz,/readyz,/livez",
        *options,
    )  # fmt: skip
    unverified = ssl._create_unverified_context()  # its certificate is self-signed
    bed.wait(name, lambda: answers(f"https://127.0.0.1:{port}/healthz", unverified))


def start(
    bed: Bed,
    gates: Mapping[str, bool] | None = None,
    *,
    emulated_version: str = "",
    scheduling: bool = False,
    without: Sequence[str] = (),
) -> None:
    """Start a control plane.

    Args:
        bed: the bed of its processes.
        gates: feature gates that differ from the version's defaults, for all of its programs.
        emulated_version: an older minor (`1.35`) for all of its programs to behave as.
        scheduling: with scheduler and controllers, ready for nodes; needs root.
        without: names of controllers that stay off.
    """
    start_apiserver(bed, start_etcd(bed), gates, emulated_version=emulated_version, for_nodes=scheduling)
    if scheduling:
        versioned = _version_options(gates, emulated_version)
        start_controller_manager(bed, versioned, without)
        start_scheduler(bed, versioned)
