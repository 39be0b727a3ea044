"""Prepares and unprepares the claims of pods, as the kubelet's DRA manager does.

The rules, in order:

1. All checks run before the first record is written. If a check fails, the pod can be deleted without an
   unprepare.
2. A claim is recorded with the pod before a driver is called. From then on, the claim must be unprepared.
3. Each driver gets one call with all of its claims that are not prepared yet. The first error ends prepare.
4. Unprepare calls the drivers only for the last pod of a claim. After all drivers succeeded, the claim's record
   is removed.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from dradriver.cluster.kubelet.claims.claim_records import (
    CheckpointedClaim,
    CheckpointedDevice,
    encode_records,
    load_records,
    write_checkpoint,
)
from dradriver.cluster.kubelet.plugins.plugin import ClaimResult, ClaimToPrepare, RegisteredPlugin
from dradriver.cluster.kubelet.pods.pod_types import NodePod
from dradriver.errors import DraError
from dradriver.kube import CLAIMS, Client
from dradriver.model.core.workload import Container, PodClaim
from dradriver.model.quantity import Quantity
from dradriver.model.resource.claim import ResourceClaim

__all__ = ["ClaimManager"]


class ClaimManager:
    """The claims of one node.

    If the process is killed at any point, the next run reads the checkpoint. If the checkpoint contains a
    claim, the claim is prepared again when its pod starts, or unprepared if its pod is gone. If the checkpoint
    does not contain a claim, no driver was called for it.
    """

    def __init__(self, client: Client, checkpoint: Path, plugin_for: Callable[[str], RegisteredPlugin]) -> None:
        self._client = client
        self._checkpoint = checkpoint
        self._plugin_for = plugin_for
        self._records: dict[tuple[str, str], CheckpointedClaim] = {}
        self._lock = asyncio.Lock()

    async def load(self) -> None:
        """Read the records of an earlier run."""
        for record in await asyncio.to_thread(load_records, self._checkpoint):
            self._records[record.namespace, record.name] = record

    def record(self, namespace: str, name: str) -> CheckpointedClaim | None:
        """Return the record of a claim, or None."""
        return self._records.get((namespace, name))

    def has_claims(self, pod_uid: str) -> bool:
        """Return whether this pod has claims that may need an unprepare."""
        return any(pod_uid in record.pods for record in self._records.values())

    def find_pods(self, driver: str, devices: set[tuple[str, str]]) -> set[str]:
        """Return the UIDs of the pods that have one of these devices (pool, device)."""
        return {
            pod
            for record in self._records.values()
            if any((each.pool, each.device) in devices for each in record.drivers.get(driver, ()))
            for pod in record.pods
        }

    def list_inactive_pods(self, active: set[str]) -> list[tuple[str, str]]:
        """Return (namespace, UID) of recorded pods that are not in `active`."""
        return sorted(
            {(r.namespace, pod) for r in self._records.values() for pod in r.pods if pod not in active}
        )

    def cdi_devices(self, pod: NodePod, container: Container) -> tuple[str, ...]:
        """Return the CDI devices of the requests that the container names.

        Raises:
            DraError: a claim has not been prepared.
        """
        names: list[str] = []
        for claim_name, requests in _list_requests(pod, container).items():
            record = self.record(pod.metadata.namespace, claim_name)
            if record is None:
                raise DraError(f"ResourceClaim {claim_name} of container {container.name} is not prepared")
            for request in requests:
                for devices in record.drivers.values():
                    names += [cdi for each in devices if each.serves(request) for cdi in each.cdi_devices]
        return tuple(dict.fromkeys(names))

    async def prepare(self, pod: NodePod) -> None:
        """Prepare all claims of a pod. Prepared claims are skipped.

        Raises:
            DraError: a claim or a driver is not ready; the message is the kubelet's.
        """
        claims = [
            await self._read_claim(pod, claim, own=own) for claim, own in _list_claims(pod) if claim is not None
        ]
        plugins = {driver: self._plugin_for(driver) for claim in claims for driver in _list_drivers(claim)}
        pending = await self._add_pod(pod, claims)
        for driver, plugin in plugins.items():
            batch = [record for record in pending if driver in record.drivers]
            if batch:
                answers = await plugin.prepare([record.ref for record in batch])
                self._record_devices(driver, batch, answers)
        for record in pending:
            record.prepared = True
        if pending:
            await self._save()

    async def unprepare(self, pod_uid: str, namespace: str) -> None:
        """Unprepare the claims of a pod that no other pod uses. Does nothing if no claim remains.

        Raises:
            DraError: a driver is not registered or failed; call again later.
        """
        last: list[CheckpointedClaim] = []
        for record in self._records.values():
            if pod_uid not in record.pods or record.namespace != namespace:
                continue
            if len(record.pods) > 1:
                # The change is saved only at the end, so that this function runs again after a crash.
                record.pods.remove(pod_uid)
            else:
                record.unpreparing = True
                last.append(record)
        for driver in sorted({driver for record in last for driver in record.drivers}):
            refs = [record.ref for record in last if driver in record.drivers]
            answers = await self._plugin_for(driver).unprepare(refs)
            _check_answers("NodeUnprepareResources", refs, answers)
        for record in last:
            self._records.pop((record.namespace, record.name), None)
        await self._save()

    async def _read_claim(self, pod: NodePod, claim_name: str, *, own: bool) -> ResourceClaim:
        namespace = pod.metadata.namespace
        try:
            claim = await self._client.get(CLAIMS, claim_name, namespace, into=ResourceClaim)
        except DraError as error:
            raise DraError(f"fetch ResourceClaim {claim_name}: {error}") from error
        owner = claim.metadata.controller
        if own and (owner is None or owner.uid != pod.metadata.uid):
            raise DraError(f"ResourceClaim {claim.ref} was not created for Pod {pod.ref} (Pod is not owner)")
        if not any(
            user.resource == "pods" and user.uid == pod.metadata.uid for user in claim.status.reserved_for
        ):
            raise DraError(
                f"pod {pod.metadata.name} ({pod.metadata.uid}) is not allowed to use "
                f"ResourceClaim {claim_name} ({claim.metadata.uid})"
            )
        if claim.allocation is None:
            raise DraError(f"ResourceClaim {claim_name}: not allocated")
        return claim

    async def _add_pod(self, pod: NodePod, claims: Sequence[ResourceClaim]) -> list[CheckpointedClaim]:
        """Add the pod to the records of its claims. Return the records of claims that drivers must prepare."""
        pending = []
        for claim in claims:
            key = (claim.metadata.namespace, claim.metadata.name)
            record = self._records.get(key)
            if record is None:
                drivers: dict[str, list[CheckpointedDevice]] = {driver: [] for driver in _list_drivers(claim)}
                record = CheckpointedClaim(claim.metadata.uid, *key, [], drivers)
            elif record.uid != claim.metadata.uid:
                raise DraError(
                    f"old ResourceClaim with same name {record.name} and different UID {record.uid} "
                    "still exists (previous pod force-deleted?!)"
                )
            elif record.unpreparing:
                raise DraError(f"ResourceClaim {record.name} is being unprepared")
            self._records[key] = record
            if pod.metadata.uid not in record.pods:
                record.pods.append(pod.metadata.uid)
            if not record.prepared:
                pending.append(record)
        if claims:
            await self._save()
        return pending

    def _record_devices(
        self, driver: str, batch: Sequence[CheckpointedClaim], answers: Mapping[str, ClaimResult]
    ) -> None:
        _check_answers("NodePrepareResources", [record.ref for record in batch], answers)
        for record in batch:
            # The answer replaces an earlier answer of the same driver, so that a retry does not duplicate
            # devices.
            record.drivers[driver] = [
                CheckpointedDevice(
                    each.pool, each.device, each.share_id, list(each.requests), list(each.cdi_devices)
                )
                for each in answers[record.uid].devices
            ]

    async def _save(self) -> None:
        async with self._lock:
            text = encode_records(self._records.values())
            writing = asyncio.create_task(asyncio.to_thread(write_checkpoint, self._checkpoint, text))
            try:
                await asyncio.shield(writing)
            except OSError as error:
                raise DraError(f"checkpoint ResourceClaim state: {error}") from error
            finally:
                # A thread can't be cancelled, so the lock is kept until the thread has finished.
                await asyncio.wait({writing})


def _check_answers(method: str, refs: Iterable[ClaimToPrepare], answers: Mapping[str, ClaimResult]) -> None:
    names = {ref.uid: ref.name for ref in refs}
    for uid, answer in answers.items():
        if uid not in names:
            raise DraError(f"{method} returned result for unknown claim UID {uid}")
        if answer.error:
            raise DraError(f"{method} failed for ResourceClaim {names[uid]}: {answer.error}")
    if skipped := len(names) - len(answers):
        raise DraError(f"{method} skipped {skipped} ResourceClaims")


def _list_drivers(claim: ResourceClaim) -> list[str]:
    return list(dict.fromkeys(result.driver for result in claim.results))


def _list_claims(pod: NodePod) -> list[tuple[str | None, bool]]:
    """Return the names of the pod's claims, and whether the pod must own each claim.

    A name is None if the pod did not need the claim.

    Raises:
        DraError: a claim has not been created yet.
    """
    claims: list[tuple[str | None, bool]] = []
    created = {status.name for status in pod.status.resource_claim_statuses}
    for claim in pod.spec.resource_claims:
        if not claim.resource_claim_name and claim.name not in created:
            raise DraError(f'pod "{pod.ref}": ResourceClaim not created yet')
        claims.append((pod.claim_name(claim), not claim.resource_claim_name))
    if pod.status.extended_resource_claim_status is not None:
        claims.append((pod.status.extended_resource_claim_status.resource_claim_name, False))
    return claims


def _list_requests(pod: NodePod, container: Container) -> dict[str, list[str]]:
    """Return the requests that a container uses, by claim. An empty request means the whole claim."""
    by_name: dict[str, PodClaim] = {claim.name: claim for claim in pod.spec.resource_claims}
    requests: dict[str, list[str]] = {}
    for use in container.resources.claims:
        claim_name = pod.claim_name(by_name[use.name]) if use.name in by_name else None
        if claim_name is not None:
            requests.setdefault(claim_name, []).append(use.request)
    extended = pod.status.extended_resource_claim_status
    if extended is not None:
        wanted = {name for name, amount in container.resources.requests.items() if amount > Quantity("0")}
        requests.setdefault(extended.resource_claim_name, []).extend(
            mapping.request_name
            for mapping in extended.request_mappings
            if mapping.container_name == container.name and mapping.resource_name in wanted
        )
    return requests
