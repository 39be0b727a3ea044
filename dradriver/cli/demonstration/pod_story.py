"""The steps of one pod in a demonstration, from the creation of its claim to the output of its container."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from dradriver.cli.demonstration.failure import find_failure, has_another_allocation, wait_for_taints
from dradriver.cli.demonstration.shows import Show
from dradriver.cli.demonstration.waiting import deadline, wait_for_object, wait_for_output
from dradriver.cli.supervision import DriverProcess, last_lines
from dradriver.errors import DraError
from dradriver.kube import CLAIMS, PODS, Client
from dradriver.model.cdi import CdiSpec
from dradriver.model.core.conditions import is_true
from dradriver.model.core.meta import ObjectMeta
from dradriver.model.core.workload import Pod
from dradriver.model.encoding.codec import decode
from dradriver.model.resource.claim import ResourceClaim

__all__ = ["NAMESPACE", "PodStory", "Report", "format_id"]

NAMESPACE: Final = "default"
_POD_SECONDS: Final = 30.0

Report = Callable[[str, str], None]
"""Prints one line that consists of a heading and a text."""


class PodStory:
    """Follows pods until their containers show their devices.

    Args:
        client: client of the embedded API server.
        show: the demonstration of the driver.
        processes: processes of the driver, by node.
        report: prints a line.
    """

    def __init__(
        self, client: Client, show: Show, processes: Mapping[str, DriverProcess], report: Report
    ) -> None:
        self._client = client
        self._show = show
        self._processes = processes
        self._report = report

    async def follow(self, created: ObjectMeta) -> ResourceClaim:
        """Follow a pod until its container shows its device, and return the pod's claim.

        Args:
            created: metadata of the pod, as the API server answered its creation.

        Raises:
            DraError: a step did not happen in time.
        """
        name = created.name

        async def why() -> str:
            return await self._pod_reason(name)

        async with deadline(f"creation of the claim of pod {name}", _POD_SECONDS, why):
            pod = await self._pod(name, lambda pod: _claim_name(pod) is not None)
            claim = await self._claim(_claim_name(pod), lambda _: True, created.resource_version)
        self._report("claim", f"ResourceClaim {format_id(claim.metadata)} is created for pod {name}")
        allocated: ResourceClaim | None = None
        while allocated is None or has_another_allocation(claim, allocated):
            async with deadline(f"allocation of the claim of pod {name}", _POD_SECONDS, why):
                allocated = await self._later(claim, lambda claim: claim.allocation is not None)
            async with deadline(f"binding conditions of the claim of pod {name}", _POD_SECONDS, why):
                claim = await self._follow_allocation(name, allocated)
        async with deadline(f"start of pod {name}", _POD_SECONDS, why):
            pod = await self._pod(name, lambda pod: pod.status.phase == "Running")
        path, spec = self._spec(claim, pod.spec.node_name)
        edits = spec.devices[0].container_edits
        nodes = ", ".join(node.path for node in edits.device_nodes)
        self._report("prepare", f"CDI spec {path} gives {nodes} to containers of pod {name}")
        self._report("run", f"Pod {format_id(pod.metadata)} runs on node {pod.spec.node_name}")
        async with deadline(f"output with the device of pod {name}", _POD_SECONDS, why):
            text = await wait_for_output(
                self._client, name, NAMESPACE, lambda text: self._show.shows_edits(text, edits)
            )
        for line in text.strip().splitlines():
            self._report("", f"{name} | {line}")
        return claim

    async def _follow_allocation(self, pod: str, allocated: ResourceClaim) -> ResourceClaim:
        """Return the claim when the pod can be bound, or when the claim has lost the allocation."""
        (result,) = allocated.results
        self._report(
            "allocate",
            f"ResourceClaim {format_id(allocated.metadata)} has device {result.device} of pool {result.pool}",
        )
        if not result.binding_conditions:
            return allocated
        conditions = ", ".join(result.binding_conditions)
        self._report("wait", f"Pod {pod} waits for {conditions} of {result.device}")

        def has_result(claim: ResourceClaim) -> bool:
            failed = find_failure(claim) is not None or has_another_allocation(claim, allocated)
            return failed or _is_ready_to_bind(claim)

        claim = await self._later(allocated, has_result)
        if _is_ready_to_bind(claim) and not has_another_allocation(claim, allocated):
            self._report("ready", f"ResourceClaim {format_id(claim.metadata)}: {conditions} is True")
            return claim
        if failure := find_failure(claim):
            text = f"{failure.type} is True: {failure.reason}: {failure.message}"
            self._report("fail", f"ResourceClaim {format_id(claim.metadata)}: {text}")
        version = allocated.metadata.resource_version
        taints = await wait_for_taints(self._client, self._show.driver, result, after=version)
        self._report("taint", f"device {result.device} is tainted: {', '.join(taints)}")
        return await self._later(claim, lambda claim: has_another_allocation(claim, allocated))

    async def read_driver_log(self) -> str:
        """Return the last lines that the driver's processes have logged, for an error message."""
        logs = (process.log for process in self._processes.values())
        texts = (f"last log lines of the driver: {last_lines(log, 3) or 'none'} (log: {log})" for log in logs)
        return "; ".join(texts)

    async def _pod(self, name: str, matches: Callable[[Pod], bool]) -> Pod:
        return await wait_for_object(
            self._client, PODS, Pod, lambda pod: pod.metadata.name == name and matches(pod), NAMESPACE
        )

    async def _later(self, claim: ResourceClaim, matches: Callable[[ResourceClaim], bool]) -> ResourceClaim:
        """Return the claim, or its first later state, for which `matches` is true."""
        if matches(claim):
            return claim
        return await self._claim(claim.metadata.name, matches, claim.metadata.resource_version)

    async def _claim(
        self, name: str | None, matches: Callable[[ResourceClaim], bool], after: str
    ) -> ResourceClaim:
        return await wait_for_object(
            self._client,
            CLAIMS,
            ResourceClaim,
            lambda claim: claim.metadata.name == name and matches(claim),
            NAMESPACE,
            after=after,
        )

    def _spec(self, claim: ResourceClaim, node: str) -> tuple[Path, CdiSpec]:
        folder = self._processes[node].directory / "cdi"
        paths = sorted(folder.glob(f"*{claim.metadata.uid}*.json"))
        if not paths:
            raise DraError(f"the pod runs, but {folder} has no CDI spec of claim {claim.ref}")
        return paths[0], decode(CdiSpec, paths[0].read_bytes(), str(paths[0]))

    async def _pod_reason(self, name: str) -> str:
        pod = await self._client.get(PODS, name, NAMESPACE, into=Pod)
        unmet = [f"{c.reason}: {c.message}" for c in pod.status.conditions if c.status == "False"]
        waiting = [str(status.get("state")) for status in pod.status.container_statuses]
        details = "; ".join([pod.status.message, *unmet, *waiting]).strip("; ")
        return f"phase {pod.status.phase}; {details}; {await self.read_driver_log()}"


def _is_ready_to_bind(claim: ResourceClaim) -> bool:
    return all(
        any(entry.id == result.id and is_true(entry.conditions, kind) for entry in claim.status.devices)
        for result in claim.results
        for kind in result.binding_conditions
    )


def _claim_name(pod: Pod) -> str | None:
    return pod.claim_name(pod.spec.resource_claims[0])


def format_id(meta: ObjectMeta) -> str:
    """Return the name and resource version of an object, for people.

    Args:
        meta: metadata of the object.
    """
    name = f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name
    return f"{name} (resourceVersion {meta.resource_version})"
