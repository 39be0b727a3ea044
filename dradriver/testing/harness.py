"""Run a driver under test in one process: discover, allocate, prepare, restart and unprepare.

The state file, locks, CDI specs and the allocator are real. The kubelet, the API server and gRPC are missing.
"""

import asyncio
import tempfile
import uuid
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from pathlib import Path
from types import TracebackType
from typing import Final, Self, TypeVar

import msgspec

from dradriver.allocator import AllocationNode, Features, InUse, Inventory, Refusal, allocate
from dradriver.driver import Config, Driver
from dradriver.model.cdi import CdiSpec, ContainerEdits
from dradriver.model.core.meta import ObjectMeta
from dradriver.model.encoding.codec import canonical, decode
from dradriver.model.resource.claim import (
    AllocatedDeviceStatus,
    ClaimStatus,
    DeviceConstraint,
    DeviceRequest,
    DeviceResult,
    ResourceClaim,
)
from dradriver.model.resource.deviceclass import DeviceClass
from dradriver.model.resource.pool import Pool
from dradriver.model.resource.slices import ResourceSlice
from dradriver.node.crash_points import CrashPoint
from dradriver.node.files.claim_files import DeviceAnswer
from dradriver.node.state.records import ClaimRef
from dradriver.publish.layout import layout
from dradriver.testing import builders
from dradriver.testing.process import NodeProcess, Paths, ProcessDiedError

__all__ = ["Harness", "PreparedClaim"]

T = TypeVar("T")

_FEATURES: Final = Features(compatibility_groups=True, list_type_attributes=True)
"""All features are on, because the driver's devices are under test, and not the feature gates of a cluster."""


@dataclass(frozen=True, slots=True)
class PreparedClaim:
    """The result of a prepare.

    Attributes:
        devices: the answer to the kubelet for each device.
        spec: the CDI spec on disk. None if the claim adds nothing to containers.
        edits: the driver's own edits of all devices, combined.
    """

    devices: tuple[DeviceAnswer, ...]
    spec: CdiSpec | None
    edits: ContainerEdits


class Harness:
    """Runs one driver: `with Harness(MyDriver) as harness`; must not be used inside a running event loop.

    Args:
        make: creates the driver, once for each simulated process. It may be a class whose constructor needs no
            arguments.
        directory: the parent of the driver's folders. Default: a temporary folder.
        node: the node's name.
        classes: additional device classes. The class with the driver's name, which selects all its devices,
            always exists.
        pools: pools that a `PoolDriver` of the same name publishes. Claims can be allocated their devices.
        data: the data that a `BindingDriver` of the same name has set for devices of these pools, by device.
            Each allocated claim has it.
    """

    def __init__(
        self,
        make: Callable[[], Driver],
        directory: Path | None = None,
        *,
        node: str = builders.NODE,
        classes: Iterable[DeviceClass] = (),
        pools: Iterable[Pool] = (),
        data: Mapping[str, Mapping[str, object]] | None = None,
    ) -> None:
        self._make = make
        self._temporary = tempfile.TemporaryDirectory(prefix="dradriver-") if directory is None else None
        self._directory = directory or Path(self._temporary.name if self._temporary else "")
        self._node = AllocationNode(node)
        self._classes = {each.metadata.name: each for each in classes}
        self._pools = list(pools)
        self._data = data or {}
        self._runner = asyncio.Runner()
        self._boot = str(uuid.uuid4())
        self._process: NodeProcess | None = None
        self._claims: list[ResourceClaim] = []

    def __enter__(self) -> Self:
        name = self._make().name
        self.paths = Paths.under(self._directory, name)
        self._classes.setdefault(name, builders.device_class(name))
        self._start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if self._process is not None:
                self._runner.run(self._process.stop())
        finally:
            self._runner.close()
            if self._temporary is not None:
                self._temporary.cleanup()

    def _start(self) -> None:
        starting = NodeProcess.start(self._make, self._node.name, self.paths, self._boot, self._pools)
        self._process = self._runner.run(starting)

    @property
    def _running(self) -> NodeProcess:
        if self._process is None:
            raise RuntimeError("Harness must be used in a with statement")
        return self._process

    @property
    def driver(self) -> Driver:
        """Return the driver of the current simulated process."""
        return self._running.driver

    def discover(self) -> list[Pool]:
        """Return the devices that the driver offers now, as pools with names, and the harness's `pools`."""
        return [*self._runner.run(self._running.discover()), *self._pools]

    def slices(self) -> list[ResourceSlice]:
        """Return the ResourceSlices that would be published.

        Raises:
            InvalidObjectError: a pool cannot be published. The error lists every broken rule.
        """
        name = self.driver.name
        slices: list[ResourceSlice] = []
        for pool in self.discover():
            node = None if pool in self._pools else self._node.name
            for index, spec in enumerate(layout(pool, name, node)):
                reference = msgspec.structs.replace(spec.pool, generation=1)
                slices.append(
                    ResourceSlice(
                        api_version="resource.k8s.io/v1",
                        kind="ResourceSlice",
                        metadata=ObjectMeta(name=f"{len(slices):03}-{index:03}-{name}"),
                        spec=msgspec.structs.replace(spec, pool=reference),
                    )
                )
        return slices

    def allocate(
        self,
        *requests: DeviceRequest,
        name: str = "",
        config: Config | Sequence[Config] = (),
        constraints: Iterable[DeviceConstraint] = (),
    ) -> ResourceClaim:
        """Allocate a claim with the real allocator, which considers all other claims of this harness.

        Args:
            requests: the requests. Default: one device of the driver's own class.
            name: the claim's name.
            config: the driver's opaque configuration, for all requests.
            constraints: constraints over the claim's devices.

        Raises:
            Refusal: the requested devices are not available. `Refusal.text()` returns the reasons, and a failed
                test prints them as a note below the message.
        """
        claim = self._claim(requests, name, config, constraints)
        inventory, in_use = Inventory.of(self.slices()), InUse.of(self._claims)
        try:
            allocations = allocate([claim], inventory, self._classes, in_use, self._node, features=_FEATURES)
        except Refusal as refusal:
            refusal.add_note(refusal.text())
            raise
        return self._add_claim(
            msgspec.structs.replace(claim, status=ClaimStatus(allocation=allocations[claim.metadata.uid]))
        )

    def allocate_blindly(
        self,
        *devices: tuple[str, str],
        name: str = "",
        config: Config | Sequence[Config] = (),
        handle: bytes | None = None,
        shareable: bool = False,
    ) -> ResourceClaim:
        """Return a claim with these devices, allocated without a check.

        Args:
            devices: pairs of pool and name.
            name: the claim's name.
            config: the driver's opaque configuration, for all requests.
            handle: the data that a `ControllerDriver` gives to the driver. None: the claim has no handle.
            shareable: whether several claims may use these devices of a controller.
        """
        claim = self._claim((), name, config, ())
        request = claim.spec.devices.requests[0].name
        results = [
            DeviceResult(request=request, driver=self.driver.name, pool=pool, device=device)
            for pool, device in devices
        ]
        handles = {} if handle is None else {self.driver.name: handle}
        return self._add_claim(
            builders.allocated(claim, *results, node_name=self._node.name, handles=handles, shareable=shareable)
        )

    def prepare(self, claim: ResourceClaim, *, die_at: CrashPoint | None = None) -> PreparedClaim:
        """Prepare the claim as the kubelet would.

        Args:
            claim: an allocated claim.
            die_at: the step at which the simulated process is killed. The next process starts immediately.

        Raises:
            ProcessDiedError: the process died at `die_at`.
            DraError: the prepare was rejected or failed.
        """
        answers = self._run_until(lambda process: process.prepare(claim), die_at)
        spec = self.spec(claim)
        return PreparedClaim(tuple(answers), spec, self._edits(claim, spec))

    def unprepare(self, claim: ResourceClaim | str, *, die_at: CrashPoint | None = None) -> None:
        """Unprepare a claim.

        Args:
            claim: the claim, or only its UID.
            die_at: the step at which the simulated process is killed. The next process starts immediately.

        Raises:
            ProcessDiedError: the process died at `die_at`.
            DraError: the unprepare failed.
        """
        ref = (
            ClaimRef(claim, "default", "unknown")
            if isinstance(claim, str)
            else ClaimRef(claim.metadata.uid, claim.metadata.namespace, claim.metadata.name)
        )
        self._run_until(lambda process: process.unprepare(ref), die_at)

    def restart(self) -> None:
        """Kill the simulated process, and start another process with a new driver and the old files."""
        self._runner.run(self._running.end())
        self._start()

    def reboot(self) -> None:
        """Restart as after a reboot: the folder of CDI specs is empty, and the prepared state is kept."""
        self._runner.run(self._running.end())
        for path in self.paths.cdi.iterdir():
            path.unlink()
        self._boot = str(uuid.uuid4())
        self._start()

    def lose_state(self) -> None:
        """Restart without the state file, as if it was lost."""
        self._runner.run(self._running.end())
        for path in self.paths.data.glob(f"{self.paths.state.name}*"):
            path.unlink()
        self._start()

    def prepared(self) -> dict[str, str]:
        """Return the state of every recorded claim, by UID: `preparing`, `prepared` or `unpreparing`."""
        return {row.uid: str(row.state) for row in self._runner.run(self._running.records())}

    def spec(self, claim: ResourceClaim) -> CdiSpec | None:
        """Return the claim's CDI spec on disk; None if the claim has no spec."""
        path = self.paths.cdi / self._running.names.file(claim.metadata.uid)
        return decode(CdiSpec, path.read_bytes(), str(path)) if path.exists() else None

    def spec_files(self) -> list[str]:
        """Return the names of all files in the folder of CDI specs, including temporary files."""
        return sorted(path.name for path in self.paths.cdi.iterdir())

    def _claim(
        self,
        requests: Sequence[DeviceRequest],
        name: str,
        config: Config | Sequence[Config],
        constraints: Iterable[DeviceConstraint],
    ) -> ResourceClaim:
        driver = self.driver.name
        configs = [config] if isinstance(config, Config) else config
        return builders.claim(
            *(requests or (builders.device_request(driver),)),
            name=name or f"claim-{len(self._claims) + 1}",
            constraints=constraints,
            configs=[builders.opaque(driver, each) for each in configs],
        )

    def _add_claim(self, claim: ResourceClaim) -> ResourceClaim:
        entries = [
            AllocatedDeviceStatus(
                driver=each.driver,
                pool=each.pool,
                device=each.device,
                share_id=each.share_id,
                data=msgspec.Raw(canonical(self._data[each.device])),
            )
            for each in claim.results
            if each.device in self._data
        ]
        claim = msgspec.structs.replace(claim, status=msgspec.structs.replace(claim.status, devices=entries))
        self._claims.append(claim)
        return claim

    def _edits(self, claim: ResourceClaim, spec: CdiSpec | None) -> ContainerEdits:
        uid, names = claim.metadata.uid, self._running.names
        by_name = {device.name: device.container_edits for device in spec.devices} if spec else {}
        own_edits = (by_name.get(names.device(uid, index)) for index in range(len(claim.results)))
        return reduce(or_, (edits for edits in own_edits if edits is not None), ContainerEdits())

    def _run_until(
        self, work: Callable[[NodeProcess], Coroutine[object, object, T]], die_at: CrashPoint | None
    ) -> T:
        process = self._running
        process.die_at = die_at
        try:
            return self._runner.run(work(process))
        except ProcessDiedError:
            self.restart()
            raise
        finally:
            process.die_at = None
