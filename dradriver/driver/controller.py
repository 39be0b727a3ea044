"""`ControllerDriver`: a driver whose controller allocates claims, instead of the scheduler (KEP-3063)."""

from abc import abstractmethod
from collections.abc import Awaitable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from dradriver.driver.configuration.config import Config
from dradriver.driver.driver_base import DriverBase
from dradriver.errors import DriverError
from dradriver.model.core.node_selector import NodeSelector

__all__ = [
    "AllocationError",
    "ControllerAllocationResult",
    "ControllerDevice",
    "ControllerDriver",
    "PendingClaim",
    "PendingPod",
    "PendingRequest",
    "RecordedClaim",
]


class AllocationError(DriverError):
    """A claim cannot be allocated now; the message is shown to the user in an Event of the claim.

    The SDK asks `unsuitable_nodes` again, and retries with backoff.
    """


@dataclass(frozen=True, slots=True)
class PendingPod:
    """A pod whose claims are not allocated yet.

    Attributes:
        uid: identifies the pod permanently. Names are reused.
        namespace, name: the key of the pod in the API server.
        labels: the pod's labels.
    """

    uid: str
    namespace: str
    name: str
    labels: Mapping[str, str] = field(default_factory=dict, compare=False)

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class PendingRequest:
    """One request of a claim.

    Attributes:
        name: the request's name.
        device_class: the name of its class.
        count: the number of devices that the user asks for.
        class_parameters: the result of `class_parameters`.
        claim_parameters: the result of `claim_parameters`.
    """

    name: str
    device_class: str
    count: int = 1
    class_parameters: object = None
    claim_parameters: object = None


@dataclass(frozen=True, slots=True)
class PendingClaim:
    """A claim that the controller must allocate, or for which it checks nodes (KEP-3063).

    Attributes:
        uid: identifies the claim permanently. Names are reused. Keep it with the hardware: it identifies the
            owner of the allocation.
        namespace, name: the key of the claim in the API server.
        pod_claim: the name of the claim in the pod's `spec.resourceClaims`; empty for a claim that is allocated
            immediately.
        requests: the requests of the claim, in order.
    """

    uid: str
    namespace: str
    name: str
    pod_claim: str = ""
    requests: tuple[PendingRequest, ...] = ()

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name} (UID {self.uid})"


@dataclass(frozen=True, slots=True)
class RecordedClaim:
    """A claim for which an allocation was begun: the input of `deallocate`.

    Attributes:
        uid: identifies the claim permanently.
        namespace, name: the key that the claim has, or had.
        node: the node for which it was allocated, or the only node to which an immediate allocation is
            restricted; empty if there is no such node, or if only the hardware knows the allocation.
    """

    uid: str
    namespace: str = ""
    name: str = ""
    node: str = ""

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name} (UID {self.uid})"


@dataclass(frozen=True, slots=True)
class ControllerDevice:
    """One device of an allocation. It needs no ResourceSlice.

    Attributes:
        request: the request of the claim that it serves.
        driver: the kubelet plugin that prepares the device. One allocation may have several plugins.
        pool: the name of its pool, such as `controller.example.com/fabric-1`.
        name: its name in the pool, a DNS label.
    """

    request: str
    driver: str
    pool: str
    name: str


@dataclass(frozen=True, slots=True)
class ControllerAllocationResult:
    """How one claim was allocated.

    Attributes:
        devices: the devices. The kubelet calls only the plugins of these devices. Empty: no plugin is called.
        handles: data for kubelet plugins, by driver, at most 16 KiB each. The driver's `prepare` gets it as
            `AllocatedDevice.handle`.
        node_selector: the nodes that can use the claim. None: the selected node if there is one, otherwise all
            nodes.
        on_any_node: whether all nodes can use the claim, also if a node was selected.
        shareable: whether several pods may use the claim at the same time. A device may be in several claims
            only if each of them is shareable: otherwise the node prepares it for one claim only.
    """

    devices: Sequence[ControllerDevice] = ()
    handles: Mapping[str, bytes] = field(default_factory=dict)
    node_selector: NodeSelector | None = None
    on_any_node: bool = False
    shareable: bool = False


class ControllerDriver(DriverBase):
    """Allocates claims in the control plane: `allocate` decides, instead of the scheduler (KEP-3063).

    One process of the driver acts in the cluster at a time: the holder of the Lease with the driver's name. It
    runs as a Deployment, without a kubelet. The `Driver` of the name in `ControllerDevice.driver` prepares the
    devices on the nodes; it publishes no slices for them.

    Use it if the scheduler cannot decide from ResourceSlices: for a fabric manager or a license server that
    decides itself. A cluster autoscaler does not understand such claims.

    Before the SDK calls `allocate`, it adds a finalizer to the claim, and records the allocation in a
    `ControllerAllocation`. If the process dies before the allocation is written, the next process calls
    `deallocate`, and then `allocate` if the claim is still wanted. Both methods must be idempotent: a call is
    repeated after an error with backoff, and after a crash.

    A driver that hands out the same hardware in both ways is also a `BindingDriver`:
    `class MyDriver(dra.BindingDriver, dra.ControllerDriver)`. Both run in one process, under one Lease.

    Any method may be `async def` or plain `def`. A plain method runs in a worker thread, so it may block.

    Attributes:
        name: the controller's name in the cluster (`ControllerClass.controllerName`).
        class_configs: classes of the parameters that device classes may have for this controller.
        claim_configs: classes of the parameters that claims may have for this controller.
        node_releases: whether `deallocate` is called only after the node has released the claim: after its
            `unprepare`, or when the node is deleted or out of service. The node's driver must be a
            `NodeBindingDriver` of the same name with the same value. Only a driver that is also a
            `BindingDriver` may set it.
        check_nodes_seconds: seconds between calls of `unsuitable_nodes` for a pod, until a node is selected.
        check_allocations_seconds: seconds between calls of `allocations()`.
    """

    class_configs: ClassVar[Sequence[type[Config]]] = ()
    claim_configs: ClassVar[Sequence[type[Config]]] = ()
    node_releases: ClassVar[bool] = False
    check_nodes_seconds: ClassVar[float] = 30.0
    check_allocations_seconds: ClassVar[float] = 600.0

    def class_parameters(self, device_class: str, parameters: Config | None) -> object | Awaitable[object]:  # noqa: ARG002
        """Return the parameters of a class, as the other methods need them; the default returns `parameters`.

        Args:
            device_class: the name of the class.
            parameters: the decoded parameters, one of `class_configs`. None if the class has none.

        Raises:
            AllocationError: the parameters are wrong.
        """
        return parameters

    def claim_parameters(
        self,
        claim: str,  # noqa: ARG002
        parameters: Config | None,
        class_parameters: object,  # noqa: ARG002
    ) -> object | Awaitable[object]:
        """Return the parameters of a claim, as the other methods need them; the default returns `parameters`.

        Args:
            claim: `namespace/name` of the claim.
            parameters: the decoded parameters, one of `claim_configs`. None if the claim has none.
            class_parameters: the result of `class_parameters`.

        Raises:
            AllocationError: the parameters are wrong.
        """
        return parameters

    @abstractmethod
    def allocate(
        self, claims: Sequence[PendingClaim], node: str | None
    ) -> (
        Mapping[str, ControllerAllocationResult | AllocationError]
        | Awaitable[Mapping[str, ControllerAllocationResult | AllocationError]]
    ):
        """Allocate claims: all pending claims of one pod for a node, or one claim immediately.

        Args:
            claims: the claims. After an error, some of them may be allocated in the hardware already: return
                the same result then.
            node: the selected node. None: the claim is allocated immediately, for any node.

        Returns:
            For each claim, by UID, how it was allocated, or why not. A claim that is missing was not allocated.

        Raises:
            AllocationError: no claim was allocated.
        """

    @abstractmethod
    def deallocate(self, claim: RecordedClaim) -> Awaitable[None] | None:
        """Release what was allocated for a claim, whether `allocate` was complete, partly done or not begun.

        Before the call, the SDK clears the allocation in the claim, in a write that fails if a pod has reserved
        the claim. So no pod can use the claim any more. If the call raises, the error is reported in an Event
        of the claim, and the call is repeated with backoff. Until it returns, the claim is neither deleted nor
        allocated again.

        Args:
            claim: the claim. It may be deleted already.

        Returns:
            Nothing: the return means that the claim has nothing any more.
        """

    @abstractmethod
    def unsuitable_nodes(
        self, pod: PendingPod, claims: Sequence[PendingClaim], nodes: Sequence[str]
    ) -> Mapping[str, Collection[str]] | Awaitable[Mapping[str, Collection[str]]]:
        """Return for which nodes the claims of a pod cannot be allocated now.

        Consider all claims together: if only one of two claims fits on a node, the node is unsuitable.

        Args:
            pod: the pod.
            claims: the pending claims of the pod that this controller allocates.
            nodes: the nodes to check: those that the scheduler lists, and those that were unsuitable before.

        Returns:
            The unsuitable nodes of each claim, by UID. A claim that is missing has none.
        """

    def allocations(self) -> Collection[str] | Awaitable[Collection[str] | None] | None:
        """Return the UIDs of the claims for which the hardware holds something; None if it keeps no record.

        The SDK calls it at start and every `check_allocations_seconds`, and deallocates each claim that exists
        no longer or has no allocation. The result may show the hardware at any time during the call.
        """
        return None
