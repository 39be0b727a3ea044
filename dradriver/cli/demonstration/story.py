"""The story: each step makes something happen, waits until the cluster shows it, and then tells it."""

from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml

from dradriver.cli.demonstration.waiting import deadline, object_gone, object_with, text_of
from dradriver.cli.supervisor import DriverProcess, last_lines
from dradriver.errors import DraError
from dradriver.kube import CLAIMS, CLASSES, NODES, PODS, SLICES, TEMPLATES, Client, Resource
from dradriver.model.cdi import CdiSpec
from dradriver.model.claim import ResourceClaim
from dradriver.model.codec import decode
from dradriver.model.meta import ObjectMeta
from dradriver.model.slices import ResourceSlice
from dradriver.model.workload import Node, Pod

__all__ = ["Story"]

DRIVER: Final = "loop.example.com"
NAMESPACE: Final = "default"
_START_SECONDS: Final = 20.0
_POD_SECONDS: Final = 30.0
_KINDS: Final = {each.kind: each for each in (CLASSES, TEMPLATES, PODS)}

Say = Callable[[str, str], None]
"""Prints one line: its heading and its text."""


class Story:
    """Two pods, each with a loop device of its own, from their creation to their end.

    Args:
        client: the embedded API server.
        process: the driver's process and its node.
        say: prints a line.
    """

    def __init__(self, client: Client, process: DriverProcess, say: Say) -> None:
        self._client = client
        self._process = process
        self._say = say
        self._pods: list[Pod] = []
        self._claims: list[ResourceClaim] = []

    async def node_is_there(self) -> None:
        """Tells of the node."""
        async with deadline(f"node {self._process.node} becoming ready", _START_SECONDS):
            node = await object_with(self._client, NODES, Node, _is_ready)
        self._say("node", f"Node {_named(node.metadata)} is ready")

    async def devices_are_published(self) -> None:
        """Waits for the driver's slices; two devices are needed."""

        def published(candidate: ResourceSlice) -> bool:
            return candidate.spec.driver == DRIVER and candidate.spec.node_name == self._process.node

        async with deadline("the publication of devices", _START_SECONDS, self._driver_log):
            found = await object_with(self._client, SLICES, ResourceSlice, published)
        spec = found.spec
        names = ", ".join(device.name for device in spec.devices)
        self._say(
            "publish",
            f"ResourceSlice {_named(found.metadata)}: pool {spec.pool.name}, "
            f"generation {spec.pool.generation}, {len(spec.devices)} devices: {names or 'none'}",
        )
        if sum(not device.attribute("backed") for device in spec.devices) < 2:
            raise DraError(
                "the demo needs two loop devices without a file behind them, and this machine has fewer; "
                "run it as root, so that the driver can make some"
            )

    async def objects_are_created(self) -> None:
        """Creates the example's manifests."""
        for manifest in _manifests():
            resource = _KINDS[manifest["kind"]]
            created: Any = await self._client.create(resource, manifest, _namespace(resource), into=dict)
            self._say("create", f"{resource.kind} {_named(decode_meta(created))} created")
            if resource is PODS:
                self._pods.append(msgspec.convert({"metadata": {"name": manifest["metadata"]["name"]}}, Pod))

    async def pods_run(self) -> None:
        """Follows each pod until its container has shown its device."""
        for pod in self._pods:
            await self._follow(pod.metadata.name)

    async def _follow(self, name: str) -> None:
        async def why() -> str:
            return await self._pod_reason(name)

        async with deadline(f"pod {name} getting a claim", _POD_SECONDS, why):
            pod = await self._pod(name, lambda pod: _claim_name(pod) is not None)
            claim = await self._claim(_claim_name(pod), lambda _: True)
        self._say("claim", f"ResourceClaim {_named(claim.metadata)} was made for pod {name}")
        async with deadline(f"the allocation of the claim of pod {name}", _POD_SECONDS, why):
            claim = await self._claim(_claim_name(pod), lambda claim: claim.allocation is not None)
        (result,) = claim.results
        self._claims.append(claim)
        self._say(
            "allocate",
            f"ResourceClaim {_named(claim.metadata)} has device {result.device} of pool {result.pool}",
        )
        async with deadline(f"the start of pod {name}", _POD_SECONDS, why):
            pod = await self._pod(name, lambda pod: pod.status.phase == "Running")
        path, spec = self._spec(claim)
        node = spec.devices[0].container_edits.device_nodes[0]
        self._say("prepare", f"CDI spec {path} gives {node.path} to containers of pod {name}")
        self._say("run", f"Pod {_named(pod.metadata)} runs on node {pod.spec.node_name}")
        async with deadline(f"output of pod {name}", _POD_SECONDS, why):
            text = await text_of(self._client, name, NAMESPACE, lambda text: text.count("\n") >= 2)
        for line in text.strip().splitlines():
            self._say("", f"{name} | {line}")
        if f"LOOP_DEVICE={node.path}" not in text or text.count(node.path) < 2:
            raise DraError(f"the container of pod {name} did not see {node.path}; it printed: {text!r}")

    async def pods_are_deleted(self) -> None:
        """Deletes the pods and follows their claims to the end."""
        for pod in self._pods:
            await self._client.delete(PODS, pod.metadata.name, NAMESPACE)
        for pod in self._pods:
            async with deadline(f"the end of pod {pod.metadata.name}", _POD_SECONDS):
                await object_gone(self._client, PODS, pod.metadata.name, NAMESPACE)
            self._say("delete", f"Pod {NAMESPACE}/{pod.metadata.name} is gone")
        for claim in self._claims:
            async with deadline(f"the end of claim {claim.ref}", _POD_SECONDS):
                await object_gone(self._client, CLAIMS, claim.metadata.name, NAMESPACE)
            self._say("delete", f"ResourceClaim {claim.ref} is gone")

    def nothing_is_left(self) -> None:
        """Looks for what an unprepare should have removed."""
        from dradriver.node import node_status  # noqa: PLC0415 - slow to import (gRPC)

        folder, data = self._process.directory / "cdi", self._process.directory / "plugins" / DRIVER
        specs = sorted(path.name for path in folder.iterdir())
        claims = [str(row.record.ref) for row in node_status(data).claims]
        if specs or claims:
            raise DraError(f"left behind: CDI specs {specs or 'none'}, prepared claims {claims or 'none'}")
        self._say("unprepare", f"no CDI spec in {folder}, no prepared claim in {data}")

    async def _pod(self, name: str, holds: Callable[[Pod], bool]) -> Pod:
        return await object_with(
            self._client, PODS, Pod, lambda pod: pod.metadata.name == name and holds(pod), NAMESPACE
        )

    async def _claim(self, name: str | None, holds: Callable[[ResourceClaim], bool]) -> ResourceClaim:
        return await object_with(
            self._client,
            CLAIMS,
            ResourceClaim,
            lambda claim: claim.metadata.name == name and holds(claim),
            NAMESPACE,
        )

    def _spec(self, claim: ResourceClaim) -> tuple[Path, CdiSpec]:
        folder = self._process.directory / "cdi"
        found = sorted(folder.glob(f"*{claim.metadata.uid}*.json"))
        if not found:
            raise DraError(f"the pod runs, but there is no CDI spec for claim {claim.ref} in {folder}")
        return found[0], decode(CdiSpec, found[0].read_bytes(), str(found[0]))

    async def _driver_log(self) -> str:
        return f"the driver says: {last_lines(self._process.log, 3) or 'nothing'} (log: {self._process.log})"

    async def _pod_reason(self, name: str) -> str:
        pod = await self._client.get(PODS, name, NAMESPACE, into=Pod)
        unmet = [f"{c.reason}: {c.message}" for c in pod.status.conditions if c.status == "False"]
        waiting = [str(status.get("state")) for status in pod.status.container_statuses]
        said = "; ".join([pod.status.message, *unmet, *waiting]).strip("; ")
        return f"phase {pod.status.phase}; {said}; {await self._driver_log()}"


def _is_ready(node: Node) -> bool:
    return any(c.type == "Ready" and c.status == "True" for c in node.status.conditions)


def _manifests() -> list[dict[str, Any]]:
    folder = files("dradriver_loop") / "manifests"
    texts = [(folder / name).read_text(encoding="utf-8") for name in ("class.yaml", "pods.yaml")]
    return [body for text in texts for body in yaml.safe_load_all(text)]


def _namespace(resource: Resource) -> str:
    return NAMESPACE if resource.namespaced else ""


def _claim_name(pod: Pod) -> str | None:
    return pod.claim_name(pod.spec.resource_claims[0])


def decode_meta(body: dict[str, Any]) -> ObjectMeta:
    """The metadata of a plain object."""
    return decode(ObjectMeta, msgspec.json.encode(body["metadata"]))


def _named(meta: ObjectMeta) -> str:
    name = f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name
    return f"{name} (resourceVersion {meta.resource_version})"
