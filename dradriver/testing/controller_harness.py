"""Call a controller driver under test as the SDK does: without an API server, a scheduler and a kubelet."""

import asyncio
import uuid
from collections.abc import Callable, Coroutine, Mapping, Sequence
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Final, Self

import msgspec

from dradriver.classic.results import build_allocation, check_allocated, check_uids, check_unsuitable
from dradriver.driver import (
    AllocationError,
    Config,
    ControllerAllocationResult,
    ControllerDriver,
    PendingClaim,
    PendingPod,
    PendingRequest,
    RecordedClaim,
)
from dradriver.driver.configuration.config import decode_config
from dradriver.model.classic.controlled_claims import ControlledClaim, ControlledRequest
from dradriver.model.classic.names import finalizer
from dradriver.model.classic.parameters import ControllerClass
from dradriver.model.core.meta import ObjectMeta
from dradriver.model.encoding.codec import builtins, canonical
from dradriver.model.resource.claim import (
    ClaimSpec,
    ClaimStatus,
    DeviceRequest,
    DeviceRequests,
    ExactDeviceRequest,
    ResourceClaim,
)
from dradriver.node.driver_calls import Calls
from dradriver.node.driver_context import ContextRequests, ProcessContext

__all__ = ["ControllerHarness"]

_CLASS: Final = "class-1"


class ControllerHarness:
    """Runs a controller driver in the test's process: `with ControllerHarness(MyController) as harness`.

    The results of the driver are checked as in production. Claims have the namespace `default`.

    Args:
        make_driver: returns a new driver, as a new process would create it. The simulated hardware must outlive
            the driver.

    Attributes:
        driver: the driver of the current process.
    """

    driver: ControllerDriver

    def __init__(self, make_driver: Callable[[], ControllerDriver]) -> None:
        self._make_driver = make_driver
        self._runner = asyncio.Runner()
        self._count = 0

    def __enter__(self) -> Self:
        self._start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._calls.close()
        self._runner.close()

    def restart(self) -> None:
        """Kill the process of the driver, and start the next one."""
        self._calls.close()
        self._start()

    def claim(
        self,
        *requests: str,
        class_config: Config | None = None,
        claim_config: Config | None = None,
        count: int = 1,
    ) -> PendingClaim:
        """Return a new claim, with its parameters as the driver's own methods return them.

        Args:
            requests: the names of its requests. Default: one request `request`.
            class_config: the parameters of the class. They are encoded and decoded again.
            claim_config: the parameters of the claim, for all requests.
            count: the number of devices of each request.

        Raises:
            DraError: the parameters are wrong.
        """
        self._count += 1
        name, uid = f"claim-{self._count}", str(uuid.uuid4())
        driver = self.driver
        of_class = self._call(
            driver.class_parameters, _CLASS, _decode(class_config, driver.class_configs, _CLASS)
        )
        subject = f"default/{name}"
        of_claim = self._call(
            driver.claim_parameters, subject, _decode(claim_config, driver.claim_configs, subject), of_class
        )
        pending = tuple(
            PendingRequest(request, _CLASS, count, of_class, of_claim) for request in requests or ("request",)
        )
        return PendingClaim(uid, "default", name, f"pod-{name}", pending)

    def allocate(self, *claims: PendingClaim, node: str | None) -> dict[str, ControllerAllocationResult]:
        """Allocate claims for a node, or immediately if it is None.

        Returns:
            The result of each claim, by UID.

        Raises:
            AllocationError: at least one claim was not allocated. The others may be allocated.
            DriverError: the driver raised another error, or returned something else.
            InvalidObjectError: the API server would not accept a result.
        """
        results = self.try_allocate(*claims, node=node)
        for result in results.values():
            if isinstance(result, AllocationError):
                raise result
        return {uid: each for uid, each in results.items() if isinstance(each, ControllerAllocationResult)}

    def try_allocate(
        self, *claims: PendingClaim, node: str | None
    ) -> Mapping[str, ControllerAllocationResult | AllocationError]:
        """Allocate claims like `allocate`, but return the error of each claim that was not allocated."""
        try:
            returned = self._call(self.driver.allocate, claims, node)
        except AllocationError as error:  # no claim was allocated
            return {claim.uid: error for claim in claims}
        results = check_allocated(self.driver.name, returned, claims)
        for claim in claims:
            result = results[claim.uid]
            if isinstance(result, ControllerAllocationResult):
                self.written(claim, result, node)
        return results

    def written(
        self, claim: PendingClaim, result: ControllerAllocationResult, node: str | None
    ) -> ResourceClaim:
        """Return the claim with the allocation that the SDK writes for a result.

        Args:
            claim: the claim.
            result: the result of `allocate`.
            node: the selected node; None if there is none.

        Raises:
            InvalidObjectError: the API server would not accept the allocation.
        """
        controlled = _controlled(claim, self.driver.name)
        allocation = build_allocation(controlled, result, node, datetime.now(UTC).replace(microsecond=0), {})
        return msgspec.structs.replace(controlled.claim, status=ClaimStatus(allocation=allocation))

    def deallocate(self, claim: PendingClaim, node: str | None = None) -> None:
        """Deallocate a claim, whether it is allocated or not."""
        self._call(self.driver.deallocate, RecordedClaim(claim.uid, claim.namespace, claim.name, node or ""))

    def unsuitable_nodes(self, *claims: PendingClaim, nodes: Sequence[str]) -> dict[str, list[str]]:
        """Return for which nodes the claims of one pod cannot be allocated now, by UID of the claim."""
        pod = PendingPod(str(uuid.uuid4()), "default", "pod-1")
        returned = self._call(self.driver.unsuitable_nodes, pod, claims, nodes)
        return check_unsuitable(self.driver.name, returned, claims, nodes)

    def allocations(self) -> set[str] | None:
        """Return the UIDs of the claims for which the hardware holds something; None if it keeps no record."""
        returned = self._call(self.driver.allocations)
        return None if returned is None else check_uids(self.driver.name, returned)

    def _start(self) -> None:
        self.driver = self._make_driver()
        self.driver.set_context(ProcessContext(ContextRequests()))
        self._calls = Calls(self.driver)

    def _call(self, method: Callable[..., Any], *arguments: object) -> object:
        work: Coroutine[Any, Any, object] = self._calls.call(method, *arguments)
        return self._runner.run(work)


def _decode(config: Config | None, known: Sequence[type[Config]], subject: str) -> Config | None:
    """Return the parameters as the SDK decodes them from what a user writes."""
    if config is None:
        return None
    fields = {"apiVersion": config.api_version, "kind": config.kind} | builtins(config)
    return decode_config(canonical(fields), known, subject, strict=True)


def _controlled(claim: PendingClaim, controller: str) -> ControlledClaim:
    requests = [
        DeviceRequest(each.name, ExactDeviceRequest(device_class_name=each.device_class, count=each.count))
        for each in claim.requests
    ]
    resource = ResourceClaim(
        api_version="resource.k8s.io/v1",
        kind="ResourceClaim",
        metadata=ObjectMeta(
            name=claim.name, namespace=claim.namespace, uid=claim.uid, finalizers=[finalizer(controller)]
        ),
        spec=ClaimSpec(DeviceRequests(requests=requests)),
    )
    entry = ControllerClass(controller_name=controller)
    controlled = tuple(
        ControlledRequest(each.name, each.device_class, each.count, entry, None) for each in claim.requests
    )
    return ControlledClaim(resource, controller, "WaitForFirstConsumer", controlled)
