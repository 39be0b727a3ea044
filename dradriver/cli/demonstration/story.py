"""The steps of a demonstration.

Each step causes an event, waits until the cluster shows it, and then prints it.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml

from dradriver.allocator import Inventory
from dradriver.cli.demonstration.hotplug import Hotplug, hand_of
from dradriver.cli.demonstration.packages import manifest_folder, package_of
from dradriver.cli.demonstration.shows import Show
from dradriver.cli.demonstration.waiting import deadline, object_gone, object_with, text_of
from dradriver.cli.partitions import counter_set_uses, drawing
from dradriver.cli.supervisor import DriverProcess, last_lines
from dradriver.errors import DraError
from dradriver.kube import CLAIMS, CLASSES, NODES, PODS, SLICES, TEMPLATES, Client, Resource
from dradriver.model.cdi import CdiSpec
from dradriver.model.core.conditions import is_true
from dradriver.model.core.meta import ObjectMeta
from dradriver.model.core.workload import Node, Pod
from dradriver.model.encoding.codec import decode
from dradriver.model.resource.claim import ResourceClaim
from dradriver.model.resource.slices import ResourceSlice

__all__ = ["Story"]

NAMESPACE: Final = "default"
_NAMES: Final = 8
"""Largest number of devices that are printed by name."""
_START_SECONDS: Final = 20.0
_POD_SECONDS: Final = 30.0
_KINDS: Final = {each.kind: each for each in (CLASSES, TEMPLATES, PODS)}

Say = Callable[[str, str], None]
"""Prints one line from its heading and its text."""


class Story:
    """Two pods, each with its own device, from their creation to their end.

    Args:
        client: client of the embedded API server.
        show: data of the driver.
        process: process of the driver, and its node.
        say: prints a line.
    """

    def __init__(self, client: Client, show: Show, process: DriverProcess, say: Say) -> None:
        self._client = client
        self._show = show
        self._process = process
        self._say = say
        self._pods: list[Pod] = []
        self._claims: list[ResourceClaim] = []
        self._hotplug: Hotplug | None = None
        if show.hand:
            from dradriver.node.config import DRIVER_DIR  # noqa: PLC0415 - slow to import (gRPC)

            folder = process.directory / "plugins" / show.driver / DRIVER_DIR
            self._hotplug = Hotplug(
                client, show.driver, hand_of(f"{package_of(show.entry)}.{show.hand}", folder), say
            )

    async def node_is_there(self) -> None:
        """Wait for the node and print it."""
        async with deadline(f"node {self._process.node} becoming ready", _START_SECONDS):
            node = await object_with(self._client, NODES, Node, _is_ready)
        self._say("node", f"Node {_named(node.metadata)} is ready")

    async def devices_are_published(self) -> None:
        """Wait for the driver's slices. At least two devices are needed."""
        driver = self._show.driver

        def published(candidate: ResourceSlice) -> bool:
            spec = candidate.spec
            return spec.driver == driver and spec.node_name == self._process.node and not spec.shared_counters

        async with deadline("the publication of devices", _START_SECONDS, self._driver_log):
            found = await object_with(self._client, SLICES, ResourceSlice, published)
        spec = found.spec
        names = [device.name for device in spec.devices]
        more = f" and {len(names) - _NAMES} more" if len(names) > _NAMES else ""
        told = f"{', '.join(names[:_NAMES]) or 'none'}{more}"
        self._say(
            "publish",
            f"ResourceSlice {_named(found.metadata)}: pool {spec.pool.name}, "
            f"generation {spec.pool.generation}, {len(names)} devices: {told}",
        )
        if missing := self._show.missing(spec.devices):
            raise DraError(missing)

    async def a_card_appears(self) -> None:
        """Plug in a card. This does nothing if the show has no hotplug."""
        if self._hotplug is not None:
            await self._hotplug.a_card_appears()

    async def the_card_is_pulled(self) -> None:
        """Pull the card of the first pod, and follow its pods. This does nothing if the show has no hotplug."""
        if self._hotplug is not None:
            device = self._claims[0].results[0].device
            await self._hotplug.the_card_is_pulled(device, [pod.metadata.name for pod in self._pods], NAMESPACE)
            self._pods = []

    async def objects_are_created(self) -> None:
        """Create the driver's example manifests."""
        for manifest in _manifests(self._show):
            resource = _KINDS[manifest["kind"]]
            created: Any = await self._client.create(resource, manifest, _namespace(resource), into=dict)
            self._say("create", f"{resource.kind} {_named(decode_meta(created))} created")
            if resource is PODS:
                self._pods.append(msgspec.convert({"metadata": {"name": manifest["metadata"]["name"]}}, Pod))

    async def pods_run(self) -> None:
        """Follow each pod until its container has shown its device."""
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
        if result.binding_conditions:
            self._say("wait", f"Pod {name} waits for {', '.join(result.binding_conditions)} of {result.device}")
            async with deadline(f"the conditions of the claim of pod {name}", _POD_SECONDS, why):
                claim = await self._claim(_claim_name(pod), _is_ready_to_bind)
            self._say(
                "ready",
                f"ResourceClaim {_named(claim.metadata)}: {', '.join(result.binding_conditions)} is True",
            )
        async with deadline(f"the start of pod {name}", _POD_SECONDS, why):
            pod = await self._pod(name, lambda pod: pod.status.phase == "Running")
        path, spec = self._spec(claim)
        edits = spec.devices[0].container_edits
        nodes = ", ".join(node.path for node in edits.device_nodes)
        self._say("prepare", f"CDI spec {path} gives {nodes} to containers of pod {name}")
        self._say("run", f"Pod {_named(pod.metadata)} runs on node {pod.spec.node_name}")
        async with deadline(f"the output that shows the device of pod {name}", _POD_SECONDS, why):
            text = await text_of(self._client, name, NAMESPACE, lambda text: self._show.seen(text, edits))
        for line in text.strip().splitlines():
            self._say("", f"{name} | {line}")

    async def partitions_are_drawn(self) -> None:
        """Draw the parts that claims have of partitioned devices. This does nothing if there are none."""
        slices = (await self._client.list(SLICES, into=ResourceSlice)).items
        claims = (await self._client.list(CLAIMS, NAMESPACE, into=ResourceClaim)).items
        own = [each for each in slices if each.spec.driver == self._show.driver]
        uses = counter_set_uses(Inventory.of(own), claims, None)
        for line in drawing([use for use in uses if use.holders]):
            self._say("", line)

    async def pods_are_deleted(self) -> None:
        """Delete the pods, and wait until they and their claims are gone."""
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
        """Check that unprepare has removed all CDI specs and prepared claims."""
        from dradriver.node import node_status  # noqa: PLC0415 - slow to import (gRPC)

        folder, data = self._process.directory / "cdi", self._process.directory / "plugins" / self._show.driver
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


def _is_ready_to_bind(claim: ResourceClaim) -> bool:
    return all(
        any(entry.id == result.id and is_true(entry.conditions, kind) for entry in claim.status.devices)
        for result in claim.results
        for kind in result.binding_conditions
    )


def _is_ready(node: Node) -> bool:
    return any(c.type == "Ready" and c.status == "True" for c in node.status.conditions)


def _manifests(show: Show) -> list[dict[str, Any]]:
    folder = manifest_folder(package_of(show.entry))
    texts = [(folder / name).read_text(encoding="utf-8") for name in show.manifests]
    return [body for text in texts for body in yaml.safe_load_all(text)]


def _namespace(resource: Resource) -> str:
    return NAMESPACE if resource.namespaced else ""


def _claim_name(pod: Pod) -> str | None:
    return pod.claim_name(pod.spec.resource_claims[0])


def decode_meta(body: dict[str, Any]) -> ObjectMeta:
    """Return the metadata of an object that is a plain dictionary."""
    return decode(ObjectMeta, msgspec.json.encode(body["metadata"]))


def _named(meta: ObjectMeta) -> str:
    name = f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name
    return f"{name} (resourceVersion {meta.resource_version})"
