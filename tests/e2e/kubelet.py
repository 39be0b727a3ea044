"""The kubelet's configuration: everything in the node's folder, and quick."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any


def config(
    *, address: str, group: str, logs: Path, socket: Path, ca_file: Path, gates: Mapping[str, bool]
) -> dict[str, Any]:
    """A KubeletConfiguration.

    Args:
        address: where it listens.
        group: the control group that pods' groups are made in.
        logs: the folder of pods' logs.
        socket: containerd's.
        ca_file: who signs the certificates of its clients.
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
        # Either version of control groups, no part of the machine kept for the system.
        "failCgroupV1": False, "cgroupDriver": "cgroupfs", "cgroupRoot": group, "enforceNodeAllocatable": [],
        "failSwapOn": False, "localStorageCapacityIsolation": True, "maxPods": 250,
        # The machine's packet filter stays as it is, a full disk or busy memory is none of the tests' concern.
        "makeIPTablesUtilChains": False, "imageGCHighThresholdPercent": 100, "imageGCLowThresholdPercent": 99,
        "evictionHard": {"memory.available": "0%", "nodefs.available": "0%", "nodefs.inodesFree": "0%",
                         "imagefs.available": "0%"},
        "syncFrequency": "1s", "fileCheckFrequency": "10m", "nodeStatusUpdateFrequency": "2s",
        "kubeAPIQPS": 1000, "kubeAPIBurst": 1000, "eventRecordQPS": 1000, "eventBurst": 1000,
        "configMapAndSecretChangeDetectionStrategy": "Watch", "serializeImagePulls": False,
        "resolvConf": "", "clusterDomain": "cluster.local", "enableServer": True,
    }  # fmt: skip
