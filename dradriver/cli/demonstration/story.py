"""The steps of a demonstration.

Each step causes an event, waits until the cluster shows it, and then prints it.
"""

import asyncio
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml

from dradriver.allocator import Inventory
from dradriver.cli.demonstration.failure import load_fault_planner
from dradriver.cli.demonstration.hotplug import Hotplug, load_card_plugger
from dradriver.cli.demonstration.pod_story import NAMESPACE, PodStory, Report, format_id
from dradriver.cli.demonstration.shows import Show
from dradriver.cli.demonstration.waiting import deadline, wait_for_deletion, wait_for_object
from dradriver.cli.manifests import manifest_folder, package_of
from dradriver.cli.supervision import DriverProcess
from dradriver.errors import DraError
from dradriver.kube import CLAIMS, CLASSES, NODES, PODS, SLICES, TEMPLATES, Client, Resource
from dradriver.model.core.meta import ObjectMeta
from dradriver.model.core.workload import Node
from dradriver.model.encoding.codec import decode
from dradriver.model.resource.claim import ResourceClaim
from dradriver.model.resource.slices import ResourceSlice
from dradriver.overview import counter_set_uses, draw_counter_sets

__all__ = ["Story"]

_NAMES: Final = 8
"""Maximum number of devices that are printed by name."""
_START_SECONDS: Final = 20.0
_DELETE_SECONDS: Final = 30.0
_KINDS: Final = {each.kind: each for each in (CLASSES, TEMPLATES, PODS)}


class Story:
    """Two pods, each with its own device, from their creation to their end.

    Args:
        client: client of the embedded API server.
        show: the demonstration of the driver.
        processes: processes of the driver, one for each node.
        report: prints a line.
        folder: folder that all processes of the driver share.
    """

    def __init__(
        self,
        client: Client,
        show: Show,
        processes: Sequence[DriverProcess],
        report: Report,
        folder: Path = Path(),
    ) -> None:
        self._client = client
        self._show = show
        self._processes = {process.node: process for process in processes}
        self._folder = folder
        self._report = report
        self._pods: list[ObjectMeta] = []
        self._claims: list[ResourceClaim] = []
        self._pod_story = PodStory(client, show, self._processes, report)
        self._hotplug: Hotplug | None = None
        self._failing_pod: dict[str, Any] | None = None
        if show.hotplug:
            from dradriver.node.config import DRIVER_DIR  # noqa: PLC0415 - slow to import (gRPC)

            (process,) = processes
            simulated = process.directory / "plugins" / show.driver / DRIVER_DIR
            self._hotplug = Hotplug(
                client,
                show.driver,
                load_card_plugger(f"{package_of(show.entry)}.{show.hotplug}", simulated),
                report,
            )

    async def wait_for_node(self) -> None:
        """Wait until the nodes are ready."""
        for name in self._processes:
            async with deadline(f"readiness of node {name}", _START_SECONDS):
                node = await wait_for_object(
                    self._client,
                    NODES,
                    Node,
                    partial(_is_ready, name),
                )
            self._report("node", f"Node {format_id(node.metadata)} is ready")

    async def wait_for_devices(self) -> None:
        """Wait for the driver's slices.

        Raises:
            DraError: the slices do not appear in time, or do not have enough devices.
        """
        driver = self._show.driver

        def published(candidate: ResourceSlice) -> bool:
            spec = candidate.spec
            nodes = {""} if self._show.pools else self._processes.keys()
            return spec.driver == driver and (spec.node_name or "") in nodes and not spec.shared_counters

        async with deadline("publication of devices", _START_SECONDS, self._pod_story.read_driver_log):
            source = await wait_for_object(self._client, SLICES, ResourceSlice, published)
        spec = source.spec
        names = [device.name for device in spec.devices]
        more = f" and {len(names) - _NAMES} more" if len(names) > _NAMES else ""
        listed = f"{', '.join(names[:_NAMES]) or 'none'}{more}"
        self._report(
            "publish",
            f"ResourceSlice {format_id(source.metadata)}: pool {spec.pool.name}, "
            f"generation {spec.pool.generation}, {len(names)} devices: {listed}",
        )
        if shortage := self._show.shortage(spec.devices):
            raise DraError(shortage)

    async def plug_card(self) -> None:
        """Plug in a card. No-op if the show has no hotplug."""
        if self._hotplug is not None:
            await self._hotplug.plug_card()

    async def pull_card(self) -> None:
        """Pull the card of the first pod, and wait for its effects. No-op if the show has no hotplug."""
        if self._hotplug is not None:
            device = self._claims[0].results[0].device
            await self._hotplug.pull_card(device, [pod.name for pod in self._pods], NAMESPACE)
            self._pods = []

    async def create_objects(self) -> None:
        """Create the driver's example manifests, except for a pod whose device will fail."""
        manifests = _manifests(self._show)
        if self._show.fault:
            self._failing_pod = manifests.pop()
        for manifest in manifests:
            await self._create(manifest)

    async def follow_pods(self) -> None:
        """Follow each pod until its container shows its device, and then the planned failure of a device."""
        for pod in list(self._pods):
            self._claims.append(await self._pod_story.follow(pod))
        if self._failing_pod is not None:
            planner = load_fault_planner(f"{package_of(self._show.entry)}.{self._show.fault}")
            self._report("fault", await asyncio.to_thread(planner, self._folder))
            await self._create(self._failing_pod)
            self._claims.append(await self._pod_story.follow(self._pods[-1]))

    async def _create(self, manifest: dict[str, Any]) -> None:
        resource = _KINDS[manifest["kind"]]
        created: Any = await self._client.create(resource, manifest, _namespace(resource), into=dict)
        meta = decode_meta(created)
        self._report("create", f"{resource.kind} {format_id(meta)} created")
        if resource is PODS:
            self._pods.append(meta)

    async def draw_partitions(self) -> None:
        """Draw the counter sets that allocated partitions use. No-op if no claim has a partition."""
        slices = (await self._client.list(SLICES, into=ResourceSlice)).items
        claims = (await self._client.list(CLAIMS, NAMESPACE, into=ResourceClaim)).items
        own = [each for each in slices if each.spec.driver == self._show.driver]
        uses = counter_set_uses(Inventory.of(own), claims, None)
        for line in draw_counter_sets([use for use in uses if use.holders]):
            self._report("", line)

    async def delete_pods(self) -> None:
        """Delete the pods, and wait until they and their claims are deleted."""
        for pod in self._pods:
            await self._client.delete(PODS, pod.name, NAMESPACE)
        for pod in self._pods:
            async with deadline(f"deletion of pod {pod.name}", _DELETE_SECONDS):
                await wait_for_deletion(self._client, PODS, pod.name, NAMESPACE)
            self._report("delete", f"Pod {NAMESPACE}/{pod.name} is gone")
        for claim in self._claims:
            async with deadline(f"deletion of claim {claim.ref}", _DELETE_SECONDS):
                await wait_for_deletion(self._client, CLAIMS, claim.metadata.name, NAMESPACE)
            self._report("delete", f"ResourceClaim {claim.ref} is gone")

    def check_nothing_left(self) -> None:
        """Check that unprepare has removed all CDI specs and prepared claims.

        Raises:
            DraError: a CDI spec or a prepared claim is left.
        """
        from dradriver.node import node_status  # noqa: PLC0415 - slow to import (gRPC)

        for process in self._processes.values():
            folder, data = process.directory / "cdi", process.directory / "plugins" / self._show.driver
            specs = sorted(path.name for path in folder.iterdir())
            claims = [str(row.record.ref) for row in node_status(data).claims]
            if specs or claims:
                raise DraError(
                    f"unprepare left CDI specs {specs or 'none'}, prepared claims {claims or 'none'}"
                )
            self._report("unprepare", f"no CDI spec in {folder}, no prepared claim in {data}")


def _is_ready(name: str, node: Node) -> bool:
    return node.metadata.name == name and any(
        c.type == "Ready" and c.status == "True" for c in node.status.conditions
    )


def _manifests(show: Show) -> list[dict[str, Any]]:
    folder = manifest_folder(package_of(show.entry))
    texts = [(folder / name).read_text(encoding="utf-8") for name in show.manifests]
    return [body for text in texts for body in yaml.safe_load_all(text)]


def _namespace(resource: Resource) -> str:
    return NAMESPACE if resource.namespaced else ""


def decode_meta(body: dict[str, Any]) -> ObjectMeta:
    """Return the metadata of an object.

    Args:
        body: the object as a dictionary.
    """
    return decode(ObjectMeta, msgspec.json.encode(body["metadata"]))
