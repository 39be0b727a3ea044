"""`class Driver`: the class that an author of a node driver subclasses."""

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
from dradriver.driver.configuration.config import Config
from dradriver.driver.context import MetadataUpdate
from dradriver.driver.health import DeviceHealth
from dradriver.driver.prepared import PreparedDevice
from dradriver.driver.source import DeviceSource, Discovered
from dradriver.driver.source_locations import find_caller, format_location
from dradriver.errors import DriverError
from dradriver.model.cdi import ContainerEdits

__all__ = ["Driver", "Preparation"]

Preparation: TypeAlias = Mapping[AllocatedDevice, PreparedDevice | ContainerEdits]
"""Result of `prepare()`: an entry for every device of the claim."""


class Driver(DeviceSource):
    """Base class of a DRA node driver: set `name`, and implement `discover` and `prepare`.

    Any method may be `async def` or plain `def`. A plain method runs in a worker thread, so it may block. The
    SDK calls `prepare` and `unprepare` for different claims concurrently. It never runs two such calls for one
    claim at the same time, not even from two processes during a rolling update. Other methods may run at the
    same time as these.

    One instance lives as long as its process. State that must outlive the process belongs in the hardware or in
    files in `data_dir`. The SDK records which claims are prepared, and with which devices.

    Attributes:
        name: the driver's name in the cluster, a DNS subdomain of at most 63 characters.
        configs: classes of opaque configuration that claims and device classes may carry for this driver.
        rescan_seconds: seconds between calls of `discover()`. None: `discover()` runs only at start and after
            `rediscover()`.
        shutdown_seconds: minimum time for `shutdown()`, even if calls in flight have used up the grace period.
            A driver that must not be stopped in the middle of a write sets a longer time. The pod's
            `terminationGracePeriodSeconds` must be longer by 30 s.
        context: the node, the data folder and the services of the SDK. The SDK sets it before the first call.
        node_name: the node that the process runs on (`context.node_name`).
        data_dir: a folder for the driver's own files, kept over restarts and reboots (`context.data_dir`). The
            SDK creates it before the first call. Two processes share it during a rolling update.
    """

    configs: ClassVar[Sequence[type[Config]]] = ()
    shutdown_seconds: ClassVar[float] = 1.0

    @property
    def node_name(self) -> str:
        """Return the name of the node that the process runs on.

        Raises:
            DriverError: the SDK has not started the driver yet, for example in `__init__`.
        """
        return self.context.node_name

    @property
    def data_dir(self) -> Path:
        """Return the folder for the driver's own files.

        Raises:
            DriverError: the SDK has not started the driver yet, for example in `__init__`.
        """
        return self.context.data_dir

    @abstractmethod
    def discover(self) -> Discovered | Awaitable[Discovered]:
        """Return the devices that exist now.

        The SDK calls it at start, every `rescan_seconds`, and after `rediscover()`. It checks the result,
        divides it into ResourceSlices and publishes them. If the call raises, the published devices stay and
        the SDK retries.

        Device names must be stable over restarts, because claims refer to them. A device that is missing from
        the result is withdrawn even while it is in use. Its claim keeps it until the claim is unprepared.

        Devices that span nodes are published by a `PoolDriver`, and devices that a `ControllerDriver` allocates
        are in no slice. A driver that has no other devices returns an empty list.

        Returns:
            Pools, or the devices of one pool that is named after the node.
        """

    @abstractmethod
    def prepare(self, claim: Claim) -> Preparation | Awaitable[Preparation]:
        """Make the claim's devices ready, and return what a container needs to use them.

        The SDK has checked before the call that:

        - the claim exists with this UID and is allocated on this node
        - its opaque configuration is valid
        - none of its devices is prepared for another claim (except for admin access, shared capacity, and
          devices that a controller shares between claims)
        - no counter set is overdrawn, and the rules of compatibility groups are kept

        The method must be idempotent. After a crash it is called again for the same claim, possibly by another
        process, and must reach the same result. If it raises, the claim counts as partly prepared: the SDK
        reports the error to the pod, and calls either `prepare` again or `unprepare`. The call may take longer
        than the kubelet waits (45 s). The SDK then answers the kubelet that work is in progress, and returns
        the result when the kubelet calls again.

        Args:
            claim: the claim, with its devices of this driver and their configuration.

        Returns:
            An entry for every device in `claim.devices`.

        Source: `NodePrepareResources`, kubelet API `dra/v1`.
        """

    def unprepare(self, claim: Claim) -> Awaitable[None] | None:
        """Revert `prepare`; the default does nothing.

        The method must be idempotent. It must accept a claim that is partly prepared, and a claim that the
        driver does not know. The claim may be deleted in the API server. `claim.devices` has the values that
        were recorded when the claim was prepared. An exception is reported to the kubelet, which retries.

        Args:
            claim: the claim, with the devices that were recorded when it was prepared.

        Returns:
            Nothing: the return means that the devices are released.

        Source: `NodeUnprepareResources`, kubelet API `dra/v1`.
        """

    def health(self) -> AsyncIterator[Iterable[DeviceHealth]] | Iterator[Iterable[DeviceHealth]]:
        """Yield the health of all devices, or of the changed ones, whenever it changes.

        The kubelet shows the health in the pod's status. It shows a device as Unknown when the last report is
        older than the device's `check_timeout`, so yield again in time. A plain generator may block between two
        reports; when the driver stops, the generator is closed at its next report. A driver that does not
        report health does not override this method.
        """
        raise NotImplementedError

    def prepared_claims(self) -> Collection[str] | Awaitable[Collection[str] | None] | None:
        """Return the UIDs of the claims that the hardware records as prepared; None if it keeps no record.

        The SDK uses them to rebuild lost state and to find leftovers.
        """
        return None

    def restart(self, reason: str) -> None:
        """Ask the SDK to end this process as failed, so that its supervisor restarts it.

        It can be called from any thread. Use it when the process cannot recover by itself, for example after a
        vendor's library was replaced. Calls in flight may finish, claims stay prepared, and the reason is
        logged.

        Args:
            reason: one sentence for users.
        """
        if self._context is not None:
            self._context.restart(reason)

    def warn(self, claim: Claim, message: str) -> None:
        """Write a warning Event of a claim, which `kubectl describe resourceclaim` shows.

        Use it for something that the containers of a claim do without, although `prepare` succeeds: for
        example, an optional library that the node lacks. An error that must stop the pod is an exception of
        `prepare` instead. It can be called from any thread or task. Events are best effort, and repeats are
        aggregated, so a retried `prepare` may warn again. Without the SDK the call is a no-op.

        Args:
            claim: the claim that is prepared.
            message: one sentence for users. It must not contain secrets.

        Source: the Event has the reason `DriverWarning`.
        """
        if self._context is not None:
            self._context.warn(claim, message)

    async def read_config_map(self, namespace: str, name: str) -> Mapping[str, bytes]:
        """Return the content of a ConfigMap by key, from both `data` and `binaryData`.

        It is meant for user data that is too large for an opaque configuration. Kubernetes limits a ConfigMap
        to 1 MiB. Call it from a task of the SDK's loop. Read only ConfigMaps in the claim's own namespace: a
        user who may create claims there may not be allowed to read other namespaces.

        Args:
            namespace: the namespace of the claim.
            name: the name of the ConfigMap.

        Raises:
            DraError: the ConfigMap does not exist, the driver may not read it (the chart's `readConfigMaps`
                lists the namespaces), or the driver does not run.
        """
        return await self.context.read_config_map(namespace, name)

    async def update_metadata(self, claim_uid: str, devices: MetadataUpdate) -> None:
        """Replace the metadata that containers read about devices of a prepared claim.

        Use it for values that become known after `prepare`, such as an address. Call it from any task; from a
        thread, call `asyncio.run(self.update_metadata(...))`. It returns when the metadata is recorded and on
        disk. The files of each affected request are replaced in one step, with the next `metadata.generation`,
        and are written again if they are lost. Containers that start later read the new file. A running
        container keeps the file that it started with. Addresses are also written to the claim's status.

        Do not call it inside `prepare` or `unprepare` of the same claim: `prepare` returns the metadata that it
        knows.

        Args:
            claim_uid: the UID of the claim.
            devices: the new metadata, by device.

        Raises:
            DraError: the claim is not prepared on this node, or another operation on it is in progress; a
                device does not belong to the claim; `prepare` returned neither `metadata` nor `network` for any
                device of its request, so that no container reads a file; a value is not a valid attribute; or
                the disk is full.
        """
        context = self.context
        try:
            await context.update_metadata(claim_uid, devices)
        except DriverError as error:
            raise DriverError(f"{error}{format_location(find_caller(type(self)))}") from error
