"""`BindingDriver` and `NodeBindingDriver`: drivers of devices that need time to get ready (KEP-5007)."""

from abc import abstractmethod
from collections.abc import Awaitable, Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import ClassVar, Literal, Protocol

from dradriver.driver.base import Driver
from dradriver.driver.claim import AllocatedDevice
from dradriver.driver.config import Config
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
        message: the reason, for people.
        reason: the reason as one CamelCase word, for programs.
        condition: the binding failure condition of the device that becomes True. Default: the first one.
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


class AllocationGone(DraError):  # noqa: N818 - a finding, nobody's mistake
    """The claim no longer has the allocation for which the work began."""


@dataclass(frozen=True, slots=True, order=True)
class Attachment:
    """One device in one allocation of one claim: the input of `detach` after the allocation is gone.

    Attributes:
        claim_uid: UID of the claim. Keep it with the hardware: it identifies the owner of the attachment.
        pool, device, share_id: identify the device.
        node: the node that the claim was allocated for. Empty if the allocation is valid for several nodes.
        allocated: the time of the allocation (RFC 3339). A claim can be allocated the same device twice.
    """

    claim_uid: str
    pool: str
    device: str
    share_id: str = ""
    node: str = ""
    allocated: str = ""


class ClaimConditions(Protocol):
    """Sets conditions of devices in a claim's status, to report progress."""

    async def set(
        self,
        device: AllocatedDevice,
        kind: str,
        status: Literal["True", "False", "Unknown"] | bool,  # noqa: FBT001 - what it is called with
        reason: str = "",
        message: str = "",
    ) -> None:
        """Set one condition of one device, and return when it is stored.

        Conditions of other writers stay. After a write conflict the change is computed again from the new
        object. The write is abandoned if the claim no longer has the same allocation (node, time and device).

        Args:
            device: one of the claim's devices.
            kind: the condition's type.
            status: the condition's status. True and False are accepted too.
            reason: one CamelCase word for programs. Default: "Reported".
            message: text for people.

        Raises:
            AllocationGone: nothing was written, because the allocation no longer exists.
            DraError: the condition could not be written. A device has at most eight conditions.
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
        conditions: sets conditions of these devices while `attach` runs.
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
    """Makes devices ready while pods wait for them; see `BindingDriver` and `NodeBindingDriver`.

    The devices have `binding_conditions` and `binding_failure_conditions`. A device that fails is tainted
    (`DRIVER/attach-failed`, NoSchedule) before the failure is written to the claim, so the pod's next attempt
    uses another device.

    Attributes:
        configs: classes of opaque configuration that claims and device classes may carry for this driver.
        own_conditions: the binding conditions that become True with `attach`. Empty: all. Set it if another
            component, such as a program on the node, sets the other conditions.
        attach_timeout_seconds: time limit for `attach` of one device, and for `detach`: the "controller-side
            timeout" of KEP-5007 (Handling attachment failures). An `attach` that takes longer fails with the
            reason `AttachTimeout`. The default is the five minutes that the KEP expects, half of a scheduler's
            limit.
        hold_off_seconds: how long a failed device is tainted. A successful `attach` ends the taint early.
    """

    configs: ClassVar[Sequence[type[Config]]] = ()
    own_conditions: ClassVar[Collection[str]] = ()
    attach_timeout_seconds: ClassVar[float] = 300.0
    hold_off_seconds: ClassVar[float] = 300.0

    @abstractmethod
    def attach(self, claim: BindingClaim, device: AllocatedDevice) -> Awaitable[None] | None:
        """Make a device usable on `claim.node`, and return when it is usable.

        After that, all its binding conditions (`own_conditions`) become True. If they stand for several steps,
        report each step with `claim.conditions.set` when it is done. Until then they are False with the reason
        `Attaching`. A device that a claim has with admin access is not attached for this claim: its conditions
        become True immediately, with the reason `AdminAccess`.

        The method must be idempotent. After a crash it is called again for the same allocation, possibly by
        another process, until it has returned once. An `async def` is canceled when the claim is no longer
        needed (its pod was deleted, or it took too long) or when `attach_timeout_seconds` are over.

        Raises:
            AttachError: the device cannot be made ready. Any other exception has the same meaning, except for
                those that `conditions.set` raises when the API server does not answer: `attach` is then called
                again.
        """


class BindingDriver(Attaching, PoolDriver):
    """Publishes devices that must be attached or programmed before a pod can be bound (KEP-5007).

    One process of it acts in the cluster, as for every `PoolDriver`. Its devices usually have `binds_to_node`
    too. When a claim is allocated such a device, the SDK calls `attach` while the pod waits, and writes the
    result to the claim's status. When the allocation is gone, or `attach` was canceled, the SDK calls `detach`.
    Each attachment is recorded in the claim, with a finalizer, before `attach` is called. If the process dies
    at any point, the next process continues, and no device stays attached.

    `attach` and `detach` of different devices run concurrently. A device is never attached for one claim before
    it is detached for the previous one.
    """

    @abstractmethod
    def detach(self, attachment: Attachment) -> Awaitable[None] | None:
        """Revert `attach`, whether it is complete, partly done or not begun.

        The method must be idempotent. The claim may be deleted or allocated again before the call ends. Do not
        keep data that this method needs in the claim's status: the API server clears it together with the
        allocation. Compare `attachment.claim_uid` with the hardware's own record, because users can write the
        metadata of their claims. An exception is logged and reported in an event of the claim, and the call is
        repeated until it succeeds. Until then the claim is not deleted and the device is tainted
        (`DRIVER/detach-failed`, NoSchedule).
        """

    def attachments(self) -> Collection[Attachment] | Awaitable[Collection[Attachment] | None] | None:
        """Return the attachments that the hardware itself records; None if it keeps no record.

        The SDK calls it once at start, and detaches each attachment that no claim records.
        """
        return None


class NodeBindingDriver(Attaching, Driver):
    """A `Driver` whose node's own devices need time to get ready, such as an FPGA that is programmed.

    It runs beside the kubelet, as every `Driver`. When a claim is allocated a device of the node that has
    binding conditions, the SDK calls `attach` while the pod waits, and writes the result to the claim's status.
    `prepare` follows when the pod is bound. There is no `detach`: the changes to a device stay on the node, so
    no claim waits for a node that is gone. Revert them in `unprepare` or in the next `attach` where that is
    necessary.

    `attach` is never called for a device that is prepared for another claim, nor for a device that would
    overdraw a counter set together with a prepared one. During a rolling update only the process that publishes
    attaches. If the cluster does not support binding conditions, `fallback` returns the devices without them,
    and `prepare` does the work.
    """
