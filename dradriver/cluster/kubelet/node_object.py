"""The Node object and its lease."""

import asyncio
import logging
import os
import platform
from datetime import UTC, datetime
from typing import Any, Final

from dradriver.errors import DraError
from dradriver.kube import LEASES, NODES, AlreadyExists, Client, NotFound, PatchKind
from dradriver.model.encoding.codec import rfc3339

__all__ = ["NodeObject"]

_log = logging.getLogger(__name__)

_LEASE_NAMESPACE: Final = "kube-node-lease"
_LEASE_SECONDS: Final = 40
_ARCHITECTURES: Final = {"x86_64": "amd64", "aarch64": "arm64"}


class NodeObject:
    """Creates and renews one Node and its lease."""

    def __init__(self, client: Client, name: str, *, runtime: str, period: float) -> None:
        self._client = client
        self._name = name
        self._labels = {
            "kubernetes.io/hostname": name,
            "kubernetes.io/os": "linux",
            "kubernetes.io/arch": _read_architecture(),
        }
        self._runtime = runtime
        self._period = period
        self._ready_since = datetime.now(UTC)

    async def register(self) -> None:
        """Create the node, or update an existing node. Labels are added, but never removed.

        Raises:
            DraError: the API server rejected the node.
        """
        body = {"metadata": {"name": self._name, "labels": self._labels}}
        try:
            await self._client.create(NODES, body, into=bytes)
        except AlreadyExists:
            await self._client.patch(NODES, self._name, "", body, PatchKind.MERGE, into=bytes)
        status = {"status": self._status()}
        await self._client.patch(
            NODES, self._name, "", status, PatchKind.STRATEGIC, into=bytes, subresource="status"
        )

    async def run(self) -> None:
        """Renew the lease and the Ready condition until cancelled.

        If the Node is deleted, it is created again.
        """
        while True:
            try:
                await self._heartbeat()
            except NotFound:
                await self._register_again()
            except DraError as error:
                _log.warning("heartbeat of node %s: %s", self._name, error)
            await asyncio.sleep(self._period)

    async def _register_again(self) -> None:
        try:
            await self.register()
        except DraError as error:
            _log.warning("node %s: %s", self._name, error)

    async def _heartbeat(self) -> None:
        now = datetime.now(UTC)
        spec = {
            "holderIdentity": self._name,
            "leaseDurationSeconds": _LEASE_SECONDS,
            "renewTime": now.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        }
        try:
            await self._client.patch(
                LEASES, self._name, _LEASE_NAMESPACE, {"spec": spec}, PatchKind.MERGE, into=bytes
            )
        except NotFound:
            lease = {"metadata": {"name": self._name, "namespace": _LEASE_NAMESPACE}, "spec": spec}
            await self._client.create(LEASES, lease, _LEASE_NAMESPACE, into=bytes)
        await self._client.patch(
            NODES,
            self._name,
            "",
            {"status": {"conditions": self._conditions(now)}},
            PatchKind.STRATEGIC,
            into=bytes,
            subresource="status",
        )

    def _status(self) -> dict[str, Any]:
        amounts = {"cpu": str(os.cpu_count() or 1), "memory": f"{_read_memory_kib()}Ki", "pods": "110"}
        release = platform.release()
        return {
            "capacity": amounts,
            "allocatable": amounts,
            "conditions": self._conditions(datetime.now(UTC)),
            "addresses": [
                {"type": "InternalIP", "address": "127.0.0.1"},
                {"type": "Hostname", "address": self._name},
            ],
            "nodeInfo": {
                "architecture": _read_architecture(),
                "bootID": _read_boot_id(),
                "containerRuntimeVersion": f"{self._runtime}://embedded",
                "kernelVersion": release,
                "kubeProxyVersion": "",
                "kubeletVersion": "v1.37.0-dradriver",
                "machineID": "",
                "operatingSystem": "linux",
                "osImage": "",
                "systemUUID": "",
            },
        }

    def _conditions(self, now: datetime) -> list[dict[str, str]]:
        since, beat = rfc3339(self._ready_since), rfc3339(now)
        times = {"lastTransitionTime": since, "lastHeartbeatTime": beat}
        good = {"reason": "EmbeddedKubelet", "message": "embedded kubelet is posting ready status"}
        return [
            {"type": "Ready", "status": "True", **good, **times},
            {"type": "MemoryPressure", "status": "False", **good, **times},
            {"type": "DiskPressure", "status": "False", **good, **times},
            {"type": "PIDPressure", "status": "False", **good, **times},
        ]


def _read_architecture() -> str:
    machine = platform.machine()
    return _ARCHITECTURES.get(machine, machine)


def _read_memory_kib() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 1024


def _read_boot_id() -> str:
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:  # noqa: PTH123 - one line of procfs
            return file.read().strip()
    except OSError:
        return ""
