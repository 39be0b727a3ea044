"""`class Driver`: what an author writes."""

from abc import abstractmethod
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from pathlib import Path
from typing import ClassVar, TypeAlias

from dradriver.driver.claim import AllocatedDevice, Claim
from dradriver.driver.code_places import at, called_at
from dradriver.driver.config import Config
from dradriver.driver.context import MetadataUpdate
from dradriver.driver.health import DeviceHealth
from dradriver.driver.prepared import PreparedDevice
from dradriver.driver.source import DeviceSource, Discovered
from dradriver.errors import DriverError
from dradriver.model.cdi import ContainerEdits

__all__ = ["Driver", "Preparation"]

Preparation: TypeAlias = Mapping[AllocatedDevice, PreparedDevice | ContainerEdits]
"""What `prepare()` returns: an answer for every device of the claim."""


class Driver(DeviceSource):
    """A DRA node driver: subclass it, name it, and say what to discover and how to prepare.

    Any method may be `async def` or plain `def`; a plain one runs in a worker thread, so it may block. The SDK
    calls `prepare` and `unprepare` for different claims side by side, and never twice at once for one claim,
    not even from two processes during a rolling update. Other methods may run at the same time as these.

    One instance lives as long as its process. State that must outlive the process belongs to the hardware or
    to files in `data_dir`; which claims are prepared, with which devices, is kept by the SDK.

    Attributes:
        name: the driver's name in the cluster, a DNS subdomain of at most 63 characters.
        configs: classes of opaque configuration that claims and device classes may carry for this driver.
        rescan_seconds: how often `discover()` is called without being asked; None: only when asked.
        context: where the driver runs, and what it may ask of the SDK; set by the SDK before the first call.
        node_name: the node that the process runs on (`context.node_name`).
        data_dir: a folder for files of the driver's own, kept over restarts and reboots (`context.data_dir`).
            The SDK makes it before the first call. Two processes share it during a rolling update.
    """

    configs: ClassVar[Sequence[type[Config]]] = ()

    @property
    def node_name(self) -> str:
        """The node that the process runs on.

        Raises:
            DriverError: the SDK has not started the driver yet, as in `__init__`.
        """
        return self.context.node_name

    @property
    def data_dir(self) -> Path:
        """A folder for files of the driver's own.

        Raises:
            DriverError: the SDK has not started the driver yet, as in `__init__`.
        """
        return self.context.data_dir

    @abstractmethod
    def discover(self) -> Discovered | Awaitable[Discovered]:
        """The devices that exist now; called at start, every `rescan_seconds`, and after `rediscover()`.

        Names must be stable over restarts, because claims refer to them. An exception keeps what is published
        and is retried. A device that is in use and not returned any more is withdrawn all the same: its claim
        keeps it until it is unprepared. The SDK checks the result, cuts it into ResourceSlices and publishes.

        Devices that span nodes are a `PoolDriver`'s to publish; a driver that has no others returns an empty
        list.
        """

    @abstractmethod
    def prepare(self, claim: Claim) -> Preparation | Awaitable[Preparation]:
        """Makes the claim's devices ready and says what a container needs to use them.

        The SDK has checked before: the claim exists with this UID and is allocated on this node, its opaque
        configuration is valid, and none of its devices is prepared for another claim (except for admin access
        and shared capacity), no counter set is overdrawn, and compatibility groups are kept.

        Must be idempotent: after a crash in the middle it is called again for the same claim, maybe by another
        process, and must come to the same end. If it raises, the claim counts as half made: the SDK reports the
        error to the pod, and either calls `prepare` again or `unprepare`. It may take longer than the kubelet
        waits (45 s): the kubelet is then told that work is in progress, and gets the result when it asks again.

        Returns:
            An answer for every device in `claim.devices`.
        """

    def unprepare(self, claim: Claim) -> Awaitable[None] | None:
        """Takes back what `prepare` did; the default does nothing.

        Must be idempotent and must accept a claim that is half prepared, or of which nothing is known any more;
        the claim may be deleted in the API server. `claim.devices` is what was recorded when it was prepared.
        An exception is reported to the kubelet, which tries again.
        """

    def health(self) -> AsyncIterator[Iterable[DeviceHealth]] | Iterator[Iterable[DeviceHealth]]:
        """Yields the health of all devices, or of those that changed, whenever there is news.

        The kubelet shows it in the pod's status. A device is Unknown there when its report is older than its
        `check_timeout`, so yield again in time. A plain generator may block between two reports, and is closed
        at the next one once the driver stops. Drivers without health leave this method alone.
        """
        raise NotImplementedError

    def prepared_claims(self) -> Collection[str] | Awaitable[Collection[str] | None] | None:
        """UIDs of the claims that the hardware itself knows as prepared; None if it keeps no record.

        Used to rebuild lost state and to find what was left behind.
        """
        return None

    def restart(self, reason: str) -> None:
        """Asks the SDK to end this process as failed, for whoever runs it to start it again; from any thread.

        For what a process can't get over by itself, such as a vendor's library that was replaced under it.
        Calls in flight may end, claims stay prepared, and the log says why.

        Args:
            reason: one sentence for people.
        """
        if self._context is not None:
            self._context.restart(reason)

    async def read_config_map(self, namespace: str, name: str) -> Mapping[str, bytes]:
        """What a ConfigMap holds, by key: both `data` and `binaryData`.

        For what users keep beside their claims and is too large for an opaque configuration; Kubernetes lets a
        ConfigMap be 1 MiB. From a task of the SDK's loop. Read those of the claim's own namespace only: who may
        make a claim there may not read other namespaces.

        Args:
            namespace: the claim's.
            name: of the ConfigMap.

        Raises:
            DraError: it is not there, it must not be read (the chart's `readConfigMaps` lists the
                namespaces), or the driver does not run.
        """
        return await self.context.read_config_map(namespace, name)

    async def update_metadata(self, claim_uid: str, devices: MetadataUpdate) -> None:
        """Tells containers more about devices of a prepared claim, such as an address that came later.

        From any task; a thread says `asyncio.run(self.update_metadata(...))`. Returns when it is recorded and
        on disk: the files of the requests concerned are replaced in one step, with the next
        `metadata.generation`, and written again if they get lost. Containers that start from now on see it; one
        that runs already keeps the file that it started with. Addresses also go to the claim's status.

        Not from inside `prepare` or `unprepare` of the same claim: what is known there belongs into its answer.

        Args:
            claim_uid: the claim.
            devices: what is to be told, by device.

        Raises:
            DraError: the claim is not prepared on this node, or it is being worked on; a device is not one of
                its devices, or `prepare` answered neither `metadata` nor `network` for any device of its
                request, so that no container reads a file; a value is no attribute; the disk is full.
        """
        context = self.context
        try:
            await context.update_metadata(claim_uid, devices)
        except DriverError as error:
            raise DriverError(f"{error}{at(called_at(type(self)))}") from error
