"""The kubelet's configuration of one node, with short periods."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any


def config(
    *, address: str, group: str, logs: Path, socket: Path, ca_file: Path, gates: Mapping[str, bool]
) -> dict[str, Any]:
    """Return a KubeletConfiguration.

    Args:
        address: the address to listen at.
        group: the parent control group of the pods' groups.
        logs: the folder of pods' logs.
        socket: the socket of containerd.
        ca_file: the authority of its clients' certificates.
        gates: feature gates that differ from the version's defaults.
    """
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
        "address": address, "healthzBindAddress": address, "featureGates": dict(gates),
        "containerRuntimeEndpoint": f"unix://{socket}", "podLogsDir": str(logs),
        "volumePluginDir": str(logs.parent / "volume-plugins"),
        "authentication": {
            "anonymous": {"enabled": False}, "webhook": {"enabled": False},
            "x509": {"clientCAFile": str(ca_file)},
        },
        "authorization": {"mode": "AlwaysAllow"},
        # Both versions of control groups, no resources reserved for the system.
        "failCgroupV1": False, "cgroupDriver": "cgroupfs", "cgroupRoot": group, "enforceNodeAllocatable": [],
        "failSwapOn": False, "localStorageCapacityIsolation": True, "maxPods": 250,
        # The machine's packet filter is not changed; a full disk or memory pressure has no effect.
        "makeIPTablesUtilChains": False, "imageGCHighThresholdPercent": 100, "imageGCLowThresholdPercent": 99,
        "evictionHard": {"memory.available": "0%", "nodefs.available": "0%", "nodefs.inodesFree": "0%",
                         "imagefs.available": "0%"},
        "syncFrequency": "1s", "fileCheckFrequency": "10m", "nodeStatusUpdateFrequency": "2s",
        "kubeAPIQPS": 1000, "kubeAPIBurst": 1000, "eventRecordQPS": 1000, "eventBurst": 1000,
        "configMapAndSecretChangeDetectionStrategy": "Watch", "serializeImagePulls": False,
        "resolvConf": "", "clusterDomain": "cluster.local", "enableServer": True,
    }  # fmt: skip
