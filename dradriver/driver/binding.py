"""`class BindingDriver`: what an author of devices that take their time to get ready writes (KEP-5007)."""

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
    """A device did not get ready; the message is shown to the user.

    Args:
        message: why, for people.
        reason: the same as one CamelCase word, for programs.
        condition: which of the device's binding failure conditions becomes True; the first unless said.
        device_is_bad: taint the device, so that it is not picked again for a while. False where the claim is
            at fault.
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
    """The claim is not allocated any more as it was when the work for it began."""


@dataclass(frozen=True, slots=True, order=True)
class Attachment:
    """One device in one allocation of one claim; what `detach` needs when the allocation is gone.

    Attributes:
        claim_uid: of the claim. Keep it with the hardware: it tells whose the attachment is.
        pool, device, share_id: which device.
        node: the node that the claim was allocated for; empty if it is good for several.
        allocated: when (RFC 3339). A claim can be allocated the same device twice.
    """

    claim_uid: str
    pool: str
    device: str
    share_id: str = ""
    node: str = ""
    allocated: str = ""


class ClaimConditions(Protocol):
    """Tells in a claim's status how far its devices are."""

    async def set(
        self,
        device: AllocatedDevice,
        kind: str,
        status: Literal["True", "False", "Unknown"] | bool,  # noqa: FBT001 - what it is called with
        reason: str = "",
        message: str = "",
    ) -> None:
        """Sets one condition of one device; returns when it is stored.

        What others say of the device stays. A write that others came before is decided on anew, and given up
        when the claim is not any more allocated as it was: another node, another time, another device.

        Args:
            device: one of the claim's devices.
            kind: the condition's type.
            status: True and False are accepted too.
            reason: one CamelCase word for programs; "Reported" if there is none.
            message: for people.

        Raises:
            AllocationGone: nothing was written, the allocation is not there any more.
            DraError: it could not be written; a device has at most eight conditions.
        """
        ...


@dataclass(frozen=True, slots=True)
class BindingClaim:
    """An allocated claim whose pod waits for its devices.

    Attributes:
        uid: identifies the claim for all time; names are used again.
        namespace, name: where it is found.
        node: the node that it was allocated for, if that is exactly one (`binds_to_node`, or a device of a
            node); empty otherwise.
        allocated: when it was allocated; the pod is given up ten minutes later unless the cluster says
            otherwise.
        devices: the devices of this driver, in the allocation's order.
        conditions: tells how far they are, while `attach` runs.
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
    """Gets devices ready while pods wait for them; see `BindingDriver` and `NodeBindingDriver`.

    The devices have `binding_conditions` and `binding_failure_conditions`. A device that fails is tainted
    (`DRIVER/attach-failed`, NoSchedule) before the claim says so: the pod's next try takes another one.

    Attributes:
        configs: classes of opaque configuration that claims and device classes may carry for this driver.
        own_conditions: the binding conditions that become True with `attach`; empty: all. Name them where
            somebody else, such as a program on the node, sets the others.
        attach_timeout_seconds: how long `attach` of one device may take, and `detach`: the "controller-side
            timeout" of KEP-5007 (Handling attachment failures). An `attach` that takes longer has failed, with
            the reason `AttachTimeout`. By default the five minutes that the KEP expects, half of what a
            scheduler waits.
        hold_off_seconds: how long a device that failed is kept from new claims; an `attach` that succeeds
            ends it early.
    """

    configs: ClassVar[Sequence[type[Config]]] = ()
    own_conditions: ClassVar[Collection[str]] = ()
    attach_timeout_seconds: ClassVar[float] = 300.0
    hold_off_seconds: ClassVar[float] = 300.0

    @abstractmethod
    def attach(self, claim: BindingClaim, device: AllocatedDevice) -> Awaitable[None] | None:
        """Makes a device usable on `claim.node`; returns when it is.

        All its binding conditions (`own_conditions`) become True then. Where they mean several steps,
        `claim.conditions.set` tells of each as it is done. Until then they are False, with the reason
        `Attaching`. Devices to which a claim has admin access are not attached for it: their conditions become
        True at once, with the reason `AdminAccess`.

        Must be idempotent: after a crash it is called again for the same allocation, maybe by another process,
        until it has returned once. When the claim is not needed any more (its pod was deleted, it took too
        long), or `attach_timeout_seconds` are over, an `async def` is cancelled.

        Raises:
            AttachError: the device can't be made ready. Any other exception means the same, but those of
                `conditions.set` for an API server that does not answer: then `attach` is called again.
        """


class BindingDriver(Attaching, PoolDriver):
    """Publishes devices that have to be attached, programmed or the like before a pod can be bound (KEP-5007).

    It runs once in the cluster, as every `PoolDriver`. Its devices mostly have `binds_to_node` too. When a
    claim is allocated such a device, the SDK calls `attach` while the pod waits, and says in the claim's status
    what came of it; when the allocation is gone, or `attach` was cancelled, it calls `detach`. What has been
    begun stands in the claim, with a finalizer, before `attach` is called: a process that dies anywhere is
    continued by the next one, and nothing stays attached.

    `attach` and `detach` of different devices run side by side. A device is never attached for one claim
    before it was detached for the last.
    """

    @abstractmethod
    def detach(self, attachment: Attachment) -> Awaitable[None] | None:
        """Takes back what `attach` did, or half of it, or nothing.

        Must be idempotent. The claim may be deleted next, allocated again, or both; nothing that is needed here
        may stand in its status, which the API server clears together with the allocation. Compare
        `attachment.claim_uid` with what the hardware says: users can write their claims' metadata. An exception
        is logged and told in an event of the claim, and it is tried again until it works: the claim stays as
        long, and the device is tainted (`DRIVER/detach-failed`, NoSchedule) as long.
        """

    def attachments(self) -> Collection[Attachment] | Awaitable[Collection[Attachment] | None] | None:
        """What the hardware itself knows to be attached; None if it keeps no record.

        Asked once at start: what no claim speaks of any more is detached.
        """
        return None


class NodeBindingDriver(Attaching, Driver):
    """A `Driver` whose node's own devices take their time to get ready, such as an FPGA that is programmed.

    It runs beside the kubelet, as every `Driver`. When a claim is allocated a device of the node that has
    binding conditions, the SDK calls `attach` while the pod waits, and says in the claim's status what came of
    it; `prepare` follows when the pod is bound. There is no `detach`: what is done to a device stays on the
    node, and no claim waits for a node that is gone. Undo in `unprepare` or by the next `attach` what must be.

    `attach` is never called for a device that is prepared for another claim, nor for one that shares a counter
    set with such and would overdraw it. Of two processes in a rolling update one attaches, that which
    publishes. Where the cluster knows no binding conditions `fallback` gives the devices without, and `prepare`
    does the work.
    """
