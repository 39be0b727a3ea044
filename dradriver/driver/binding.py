"""`BindingDriver` and `NodeBindingDriver`: drivers of devices that need time to get ready (KEP-5007)."""

from abc import abstractmethod
from collections.abc import Awaitable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import ClassVar, Literal, Protocol

from dradriver.driver.base import Driver
from dradriver.driver.claim import AllocatedDevice
from dradriver.driver.configuration.config import Config
from dradriver.driver.health import NodeReport
from dradriver.driver.pools import PoolDriver
from dradriver.driver.source import DeviceSource
from dradriver.errors import DraError, DriverError

__all__ = [
    "AllocationGone",
    "AttachError",
    "Attaching",
    "Attachment",
    "BindingClaim",
    "BindingDriver",
    "ClaimConditions",
    "NodeBindingDriver",
]


class AttachError(DriverError):
    """A device could not be made ready; the message is shown to the user.

    Args:
        message: the reason, as text for users.
        reason: the reason as one CamelCase word, for programs.
        condition: which of the device's binding failure conditions is set to True. Default: the first one.
        device_is_bad: True: taint the device, so that it is not allocated again for a while. False: the claim
            is the cause.
    """

    def __init__(
        self,
        message: str,
        *,
        reason: str = "AttachFailed",
        condition: str = "",
        device_is_bad: bool = True,
    ) -> None:
        self.reason = reason
        self.condition = condition
        self.device_is_bad = device_is_bad
        super().__init__(message)


class AllocationGone(DraError):  # noqa: N818 - not an error of the driver or the user
    """The claim no longer has the allocation for which the work began."""


@dataclass(frozen=True, slots=True, order=True)
class Attachment:
    """One device in one allocation of one claim: the input of `detach` after the allocation is gone.

    Attributes:
        claim_uid: UID of the claim. Keep it with the hardware: it identifies the owner of the attachment.
        pool, device, share_id: identify the device.
        node: the node that the claim was allocated for. Empty if the allocation is valid for several nodes.
        allocated: the time of the allocation (RFC 3339). It distinguishes two allocations of one device for one
            claim.
    """

    claim_uid: str
    pool: str
    device: str
    share_id: str = ""
    node: str = ""
    allocated: str = ""


class ClaimConditions(Protocol):
    """Sets conditions and data of devices in a claim's status, to report progress."""

    async def set(
        self,
        device: AllocatedDevice,
        kind: str,
        status: Literal["True", "False", "Unknown"] | bool,  # noqa: FBT001 - the condition's own value
        reason: str = "",
        message: str = "",
    ) -> None:
        """Set one condition of one device, and return when it is stored.

        Conditions of other writers stay. After a write conflict, the change is computed again from the current
        claim. The write is abandoned if the claim no longer has the same allocation (node, time and device).

        Args:
            device: one of the claim's devices.
            kind: the condition's type.
            status: the condition's status. True and False are accepted too.
            reason: one CamelCase word for programs. Default: "Reported".
            message: text for users.

        Raises:
            AllocationGone: nothing was written, because the allocation no longer exists.
            DraError: the condition could not be written. A device has at most eight conditions.
        """
        ...

    async def set_data(self, device: AllocatedDevice, data: Mapping[str, object]) -> None:
        """Set the data of one device for its node, and return when it is stored.

        The node's driver gets it as `AllocatedDevice.data` in `attach` and `prepare`. The data is written as a
        whole to `status.devices[].data`; conditions stay. Only a `BindingDriver` may write it. The `prepare` of
        the node's driver must not return `PreparedDevice.data`, because that is written to the same field.
        Conflicts and a changed allocation have the same results as in `set`. The API server clears the data
        together with the allocation.

        Args:
            device: one of the claim's devices.
            data: a JSON object, at most 10 KiB as the API server stores it. It replaces earlier data.

        Raises:
            AllocationGone: nothing was written, because the allocation no longer exists.
            DraError: the caller is a `NodeBindingDriver`, the data is too large or has no JSON form, or the
                data could not be written.

        Source: `AllocatedDeviceStatus.data`, `resource.k8s.io/v1`.
        """
        ...


@dataclass(frozen=True, slots=True)
class BindingClaim:
    """An allocated claim whose pod waits for its devices.

    Attributes:
        uid: identifies the claim permanently. Names are reused.
        namespace, name: the key of the claim in the API server.
        node: the node that the claim was allocated for, if it is exactly one (`binds_to_node`, or a device of a
            node). Otherwise empty.
        allocated: the time of the allocation. The scheduler gives up ten minutes later by default.
        devices: the devices of this driver, in the order of the allocation.
        conditions: sets conditions and data of these devices while `attach` runs.
    """

    uid: str
    namespace: str
    name: str
    node: str
    allocated: datetime | None
    devices: tuple[AllocatedDevice, ...]
    conditions: ClaimConditions = field(compare=False, repr=False)

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name} (UID {self.uid})"


class Attaching(DeviceSource):
    """The common base of `BindingDriver` and `NodeBindingDriver`: makes devices ready while pods wait for them.

    The devices have `binding_conditions` and `binding_failure_conditions`. A device that fails is tainted
    (`DRIVER/attach-failed`, NoSchedule) before the failure is written to the claim, so the pod's next attempt
    uses another device.

    Attributes:
        configs: classes of opaque configuration that claims and device classes may carry for this driver.
        own_conditions: the binding conditions that the SDK sets to True when `attach` returns. Empty: all. List
            them if another component, such as a program on the node, sets the other conditions.
        attach_timeout_seconds: time limit for `attach` of one device, and for `detach`: the "controller-side
            timeout" of KEP-5007 (Handling attachment failures). An `attach` that takes longer fails with the
            reason `AttachTimeout`. The default is the five minutes that the KEP expects, half of a scheduler's
            limit.
        quarantine_seconds: how long a failed device is tainted. A successful `attach` ends the taint early.
        node_releases: whether a device is detached only after its node has released it. Both drivers of one
            name must have the same value; see `BindingDriver` and `NodeBindingDriver`.
    """

    configs: ClassVar[Sequence[type[Config]]] = ()
    own_conditions: ClassVar[Collection[str]] = ()
    attach_timeout_seconds: ClassVar[float] = 300.0
    quarantine_seconds: ClassVar[float] = 300.0
    node_releases: ClassVar[bool] = False

    @abstractmethod
    def attach(self, claim: BindingClaim, device: AllocatedDevice) -> Awaitable[None] | None:
        """Make a device usable on `claim.node`, and return when it is usable.

        When it returns, the SDK sets all binding conditions of the device (or those in `own_conditions`) to
        True. Until then they are False with the reason `Attaching`. If the conditions stand for separate steps,
        set each with `claim.conditions.set` when its step is done. A device that a claim has with admin access
        is not attached for this claim: its conditions become True immediately, with the reason `AdminAccess`.

        The method must be idempotent. After a crash it is called again for the same allocation, possibly by
        another process, until it has returned once. An `async def` is canceled when the device is no longer
        needed (the pod was deleted, or the scheduler gave up the allocation), or when `attach_timeout_seconds`
        are over.

        Args:
            claim: the allocated claim, with its node and all its devices of this driver.
            device: the device to attach, one of `claim.devices`.

        Returns:
            Nothing: the return means that the device is usable.

        Raises:
            AttachError: the device cannot be made ready. Any other exception has the same meaning, except for
                those that `conditions.set` raises when the API server does not answer: `attach` is then called
                again.
        """


class BindingDriver(Attaching, PoolDriver):
    """Publishes devices that must be attached or programmed before a pod can be bound (KEP-5007).

    Only one process of the driver acts in the cluster at a time, as for every `PoolDriver`. Its devices usually
    have `binds_to_node` too. When a claim is allocated such a device, the SDK calls `attach` while the pod
    waits, and writes the result to the claim's status. When the allocation is gone, or `attach` was canceled,
    the SDK calls `detach`. Each attachment is recorded in the claim, with a finalizer, before `attach` is
    called. If the process dies at any point, the next process continues, and no device stays attached.

    `attach` and `detach` of different devices run concurrently. A device is never attached for one claim before
    it is detached for the previous one.

    If a `NodeBindingDriver` of the same name cannot attach one of the devices on a node, the SDK on that node
    sets the condition `DRIVER/node-attach-failed` in the claim. The SDK in this driver's process then taints
    the device, and sets one of its failure conditions with the node's reason and message.

    If the API server drops binding conditions, `fallback` can return the devices without them, under the same
    names. Their pods are bound at once. The SDK attaches a device on allocation if `discover()` declares
    conditions for it, and writes the conditions to the claim. On the node, `prepare` is answered with "in
    progress" until all of them are True. A failure is returned by `prepare`, and stays until the user deletes
    the pod. Devices with `binds_to_node` are withdrawn, because the node would be unknown.

    Attributes:
        node_failure_condition: the binding failure condition that is set to True when a node cannot attach the
            device. If it is empty, or the device does not have it, the device's first failure condition is set.
        check_attachments_seconds: seconds between calls of `attachments()`.
    """

    node_failure_condition: ClassVar[str] = ""
    check_attachments_seconds: ClassVar[float] = 600.0

    @abstractmethod
    def detach(self, attachment: Attachment) -> Awaitable[None] | None:
        """Revert `attach`, whether it is complete, partly done or not begun.

        The method must be idempotent. The claim may be deleted or allocated again before the call ends. Do not
        keep data that this method needs in the claim's status: the API server clears it together with the
        allocation. Compare `attachment.claim_uid` with the hardware's own record, because users can write the
        metadata of their claims. If `detach` raises, the error is logged and reported in an event of the claim,
        and the call is repeated until it succeeds. Until then the claim is not deleted and the device is
        tainted (`DRIVER/detach-failed`, NoSchedule).

        Args:
            attachment: the device, the claim by UID and the node, as they were recorded before `attach`.

        Returns:
            Nothing: the return means that the device is detached.
        """

    def attachments(self) -> Collection[Attachment] | Awaitable[Collection[Attachment] | None] | None:
        """Return the attachments that the hardware itself records; None if it keeps no record.

        The SDK calls this method at start and every `check_attachments_seconds`. It detaches each attachment
        that is neither in a claim's allocation nor in the record in the claim. The result may
        show the hardware at any time during the call: the SDK reads the claims only after the call returned.

        Returns:
            The attachments. Claim, pool, device and share are compared. If an attachment has the time of its
            allocation, it is compared too: an attachment of an earlier allocation is detached, although the
            claim has the same device again. Return the time only if `attach` updates it for each allocation,
            and if `detach` compares it. With `node_releases`, the node is required too: an attachment without a
            node is never detached.
        """
        return None

    async def node_reports(self) -> Mapping[str, NodeReport]:
        """Return the reports of the nodes, by node, as the API server has them now.

        A node whose report is missing or unreadable is omitted. Call it from a task of the SDK's loop, such as
        an `async def` method of the driver.

        Raises:
            DraError: the API server did not answer, the driver may not list ConfigMaps in its namespace, or the
                driver does not run with `node_releases`.
        """
        return await self.context.node_reports()


class NodeBindingDriver(Attaching, Driver):
    """A `Driver` whose node's own devices need time to get ready, such as an FPGA that is programmed.

    It runs beside the kubelet, as every `Driver`. When a claim is allocated a device of the node that has
    binding conditions, the SDK calls `attach` while the pod waits, and writes the result to the claim's status.
    `prepare` follows when the pod is bound. There is no `detach`: the changes to a device stay on the node, so
    no claim waits for a node that is gone. Revert them in `unprepare` or in the next `attach` where that is
    necessary.

    `attach` is never called for a device that is prepared for another claim, nor for a device that would
    overdraw a counter set together with a prepared one. During a rolling update, only the process that
    publishes the devices calls `attach`. If the cluster does not support binding conditions, `fallback` returns
    the devices without them, and `prepare` does the work.

    `attach` is also called for devices of a pool that a `BindingDriver` of the same name publishes. Only that
    driver can taint them. When `attach` fails and the device is bad, the SDK sets the condition
    `DRIVER/node-attach-failed` with the reason and the message. The `BindingDriver` then taints the device and
    sets its failure condition (`node_failure_condition`). Do not list `DRIVER/node-attach-failed` among the
    conditions of a device. After it is set, the SDK does not call `attach` again for this allocation.

    If the API server drops binding conditions, `attach` is called for devices of the `BindingDriver` that
    declare conditions in `own_conditions`, in the same order. The SDK delays `prepare` until all is attached.

    With `node_releases`, the SDK lists each attachment of such a pool in the node's usage note before
    `attach`, or before a `prepare` without an `attach`. It removes the attachment from the note after
    `unprepare`. If the allocation is gone after `attach` was called, and no `prepare` follows, the SDK calls
    `unprepare(claim)`. It does so after a restart, too. Devices of the node's own pools have neither.

    Attributes:
        attach_after: binding conditions that must be True before `attach` is called, such as those that the
            `BindingDriver` sets. Data that the `BindingDriver` has stored before (`set_data`) is in
            `AllocatedDevice.data`. If a device does not have one of the conditions, its `attach` does not wait
            for this condition. The time limit of `attach` begins with the call.
    """

    attach_after: ClassVar[Collection[str]] = ()

    def report(self) -> NodeReport | Awaitable[NodeReport]:
        """Return the state of the node, for the `BindingDriver` of the same name; by default, no problem.

        The SDK calls it at start and after each `discover()`, and writes the result into the node's usage
        note. It is called only with `node_releases`. If it raises, the exception becomes the report's problem.
        """
        return NodeReport()
