"""Both drivers of a fabric in their processes, on simulated hardware, with two nodes in any cluster."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeAlias

from dradriver.kube import CLAIMS, CONFIG_MAPS, NODES, PODS, PatchKind
from dradriver.model.core.conditions import is_true
from dradriver.model.core.config_map import ConfigMap
from dradriver.model.core.workload import Pod
from dradriver.model.resource.claim import ResourceClaim
from dradriver.node.usage.note import decode_note, note_name
from dradriver.testing import builders
from dradriver.wire import dra_v1
from dradriver.wire.stubs import dra_v1_grpc
from dradriver_fabric_cxl.fabric import FabricPace
from dradriver_fabric_cxl.names import DRIVER
from tests.caches import until_current
from tests.drivers.fabric_cxl.both_halves.processes_of_halves import ProcessesOfHalves
from tests.unit.conditions.fabric import Lab
from tests.unit.node.plugin_world import dial, prepare, request

Json: TypeAlias = dict[str, Any]

CLASSES_FILE: Final = Path(__file__).parents[4] / "drivers/fabric_cxl/manifests/classes.yaml"
MEMORY: Final = "cxl-memory.example.com"
ACCELERATOR: Final = "cxl-accelerator.example.com"
PACE: Final = FabricPace(attach=120, poll=0.05, look=0.05, appear=0.5)
_ROOM: Final = {"pods": "20", "cpu": "8", "memory": "8Gi"}
_LOOK_SECONDS: Final = 0.05


class Halves(ProcessesOfHalves):
    """Two nodes with the node's driver, and the pool driver. Each process can be replaced.

    Args:
        lab: the cluster.
        folder: for the simulation and the folders of the nodes.
        name: the first part of the names of the nodes and of the pod.
        seconds: maximum time of each wait.
        prepare_deadline: seconds after which a prepare is answered even if its work continues.

    Attributes:
        profile: the profile of a scheduler that schedules the pods; "": the default one.
        history: the true conditions of the pod's claim in each version of the claim, oldest first.
    """

    def __init__(
        self, lab: Lab, folder: Path, name: str, seconds: float, *, prepare_deadline: float = 40
    ) -> None:
        super().__init__(lab, folder, name, seconds, prepare_deadline=prepare_deadline)
        self.profile = ""
        self.history: list[frozenset[str]] = []

    # The work of users and kubelets.

    async def create_pod(self, device_class: str, name: str = "") -> None:
        """Create a pod for both nodes, and a claim of its name for one device."""
        claim = builders.claim(builders.device_request(device_class))
        await self.create_pod_with(claim.spec, name)

    async def create_pod_with(self, spec: object, name: str = "") -> None:
        """Create a pod for both nodes, and a claim of its name with a spec."""
        name = name or self.name
        await self.client.create(CLAIMS, {"metadata": {"name": name}, "spec": spec}, "default", into=dict)
        container = {"name": "main", "image": "busybox", "resources": {"claims": [{"name": "device"}]}}
        pod = {
            "containers": [container],
            "schedulerName": self.profile or "default-scheduler",
            "nodeSelector": {"case": self.name},
            "resourceClaims": [{"name": "device", "resourceClaimName": name}],
        }
        await self.client.create(PODS, {"metadata": {"name": name}, "spec": pod}, "default", into=dict)

    async def delete_pod(self, name: str = "") -> None:
        """Delete the pod as its user does, after its containers have ended."""
        await self.client.delete(PODS, name or self.name, "default", grace_seconds=0)

    async def delete_claim(self, name: str = "") -> None:
        """Delete the claim, and wait until it is gone."""
        name = name or self.name
        await self.client.delete(CLAIMS, name, "default")
        await self.until(lambda: f"default/{name}" not in self.lab.seen.claims.items)

    async def cordon(self, node: str) -> None:
        """Keep new pods away from a node."""
        body = {"spec": {"unschedulable": True}}
        await self.client.patch(NODES, node, "", body, PatchKind.MERGE, into=dict)

    async def prepare(self, name: str = "", uid: str = "first") -> str:
        """Prepare the pod's claim on its node, once, as the kubelet does; return the error."""
        claim, node = self.claim(name), self.node_of(name)
        answer = (await prepare(self.plugins[f"{node}/{uid}"], claim))[claim.metadata.uid]
        return str(answer.error)

    async def unprepare(self, claim: ResourceClaim, node: str, uid: str = "first") -> None:
        """Unprepare a claim, as the kubelet does after the end of the pod."""
        async with dial(self.plugins[f"{node}/{uid}"].sockets.service) as channel:
            call = dra_v1.NodeUnprepareResourcesRequest(claims=request(claim).claims)
            answer = await dra_v1_grpc.DRAPluginStub(channel).NodeUnprepareResources(call)
        assert not answer.claims[claim.metadata.uid].error

    # What can be seen.

    def claim(self, name: str = "") -> ResourceClaim:
        return self.lab.seen.claims.items[f"default/{name or self.name}"]

    def is_allocated(self, name: str = "") -> bool:
        claim = self.lab.seen.claims.items.get(f"default/{name or self.name}")
        return claim is not None and claim.allocation is not None

    def nominated(self) -> str:
        """Return the node that the claim is allocated for."""
        allocation = self.claim().allocation
        if allocation is None or allocation.node_selector is None:
            return ""
        (term,) = allocation.node_selector.node_selector_terms
        return term.match_fields[0].values[0]

    def offered_to(self, node: str) -> set[str]:
        """Return the names of the published devices of a node."""
        return {name for name, device in self.lab.devices().items() if device.node_name == node}

    async def is_noted(self) -> bool:
        """Return whether the claim's node has noted that it uses the claim's device."""
        name = note_name(DRIVER, self.nominated())
        note = decode_note(await self.client.get(CONFIG_MAPS, name, "default", into=ConfigMap))
        return self.claim().metadata.uid in {each.claim_uid for each in note.entries}

    def pod(self, name: str = "") -> Pod | None:
        return self.lab.seen.pods.items.get(f"default/{name or self.name}")

    def node_of(self, name: str = "") -> str:
        """Return the node of the pod; "" if it waits."""
        pod = self.pod(name)
        return (pod.spec.node_name or "") if pod else ""

    async def bound(self, name: str = "") -> str:
        """Wait until the pod has a node, and no claim is seen late; return the node."""
        await self.until(lambda: bool(self.node_of(name)))
        await until_current(self.client, self.lab.seen.claims)
        return self.node_of(name)

    def edits(self, node: str) -> list[Json]:
        """Return the container edits of all devices in the CDI specs of a node."""
        specs = [json.loads(path.read_text()) for path in (self.folder / node / "cdi").glob("*.json")]
        return [device["containerEdits"] for spec in specs for device in spec["devices"]]

    def record(self) -> Callable[[], None]:
        """Record the history of the pod's claim from now on; return a function that ends this."""
        return self.lab.seen.claims.subscribe(lambda *_: self._note())

    def _note(self) -> None:
        claim = self.lab.seen.claims.items.get(f"default/{self.name}")
        entries = claim.status.devices if claim else ()
        self.history.append(
            frozenset(c.type for e in entries for c in e.conditions if is_true(e.conditions, c.type))
        )
