"""The DRAPlugin service, v1 and v1beta1: look up the claims of a call, prepare or unprepare them, and answer.

Both API versions are equal, except that v1beta1 has no share IDs.
"""

import asyncio
import itertools
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from types import ModuleType
from typing import Any, Final, TypeVar

import grpc

from dradriver.errors import DraError
from dradriver.node.api import Getter
from dradriver.node.claims.context import ClaimContext
from dradriver.node.claims.lookup import ClaimLookup
from dradriver.node.claims.prepare import prepare
from dradriver.node.claims.unprepare import unprepare
from dradriver.node.errors import ClaimError, DeviceInUseError, IncompleteStateError, InProgressError
from dradriver.node.files.cdi import is_usable_uid
from dradriver.node.files.claim_files import DeviceAnswer
from dradriver.node.kubelet.in_flight import CallsInFlight
from dradriver.node.kubelet.server import CallError, Method, methods_of
from dradriver.node.reporting.claim_outcomes import ClaimOutcomes
from dradriver.node.reporting.log_context import bind_claim, bind_pods
from dradriver.node.reporting.metrics import NodeMetrics
from dradriver.node.state.records import ClaimRef
from dradriver.wire import dra_v1, dra_v1beta1

__all__ = ["ClaimService", "MalformedRequestError", "claim_methods"]

_log = logging.getLogger(__name__)

T = TypeVar("T")

_MAX_ERROR_LENGTH: Final = 8192
_MAX_ERRORS_LENGTH: Final = 2**20
"""Maximum length of all errors in an answer, in characters. A larger answer could exceed gRPC's limit."""

_MAX_CLAIMS: Final = 512
"""Maximum number of claims that are processed at once; a pod, whose claims a call contains, has far fewer."""


class MalformedRequestError(DraError):
    """The whole request is rejected: its claims have no distinct UIDs, or there are too many claims."""


class ClaimService:
    """Prepares and unprepares the claims of a request concurrently; one claim's error affects no other claim.

    Args:
        client: the API server, in which claims are looked up.
        context: prepares and unprepares the claims.
        metrics: counts calls and their outcomes.
        outcomes: reports the outcomes of calls in logs and events.
        deadline: seconds within which a request is answered, including lookups.
        on_conflict: called when a claim was rejected because it conflicts with a recorded claim, or because the
            state is incomplete.
        calls_in_flight: counts the kubelet's calls that have no answer yet.
    """

    def __init__(
        self,
        client: Getter,
        context: ClaimContext,
        metrics: NodeMetrics,
        outcomes: ClaimOutcomes,
        deadline: float,
        on_conflict: Callable[[], None],
        calls_in_flight: CallsInFlight,
    ) -> None:
        self._lookup = ClaimLookup(client)
        self._context = context
        self._metrics = metrics
        self._outcomes = outcomes
        self._deadline = deadline
        self._on_conflict = on_conflict
        self._calls_in_flight = calls_in_flight
        self._requests = itertools.count(1)

    async def prepare(self, refs: Sequence[ClaimRef]) -> dict[str, list[DeviceAnswer] | str]:
        """Prepare claims, and return the devices or the error of each claim, by UID.

        If there are too many claims, the whole request is rejected with one error: the kubelet fails the pod
        with the first error that it finds, and an error for each claim could exceed gRPC's size limit.

        Raises:
            MalformedRequestError: a claim has no UID, two claims have the same UID, or there are more than 512
                claims.
        """
        if len(refs) > _MAX_CLAIMS:
            message = f"claims: must have at most {_MAX_CLAIMS} items, has {len(refs)}"
            _log.warning("prepare: %s", message)
            raise MalformedRequestError(message)
        return await self._process("prepare", refs, self._prepare)

    async def unprepare(self, refs: Sequence[ClaimRef]) -> dict[str, str | None]:
        """Unprepare claims, and return the error of each claim, or None, by UID.

        The number of claims is not limited as in `prepare`: the kubelet also unprepares a pod whose claims were
        too many to prepare, and the pod cannot end before that succeeds. At most 512 claims are processed at
        once.

        Raises:
            MalformedRequestError: a claim has no UID, or two claims have the same UID.
        """
        return await self._process("unprepare", refs, self._unprepare)

    async def _prepare(self, ref: ClaimRef) -> list[DeviceAnswer]:
        clock = asyncio.get_running_loop().time
        until = clock() + self._deadline
        try:
            async with asyncio.timeout_at(until):
                claim = await self._lookup.get_by_uid(ref)
        except TimeoutError:
            raise ClaimError(f"claim {ref} cannot be looked up: the API server does not answer") from None
        bind_pods(claim.status.reserved_for)
        return await prepare(self._context, claim, max(until - clock(), 0.1))

    async def _unprepare(self, ref: ClaimRef) -> None:
        await unprepare(self._context, ref, self._deadline)

    async def _process(
        self, operation: str, refs: Sequence[ClaimRef], work: Callable[[ClaimRef], Awaitable[T]]
    ) -> dict[str, T | str]:
        call = _Call(f"{operation}-{next(self._requests)}", refs)
        try:
            _check_uids(refs)
            with self._calls_in_flight.call():
                outcomes = await self._process_all(operation, refs, work, call)
        except MalformedRequestError as error:
            call.log(f"rejected: {error}")
            raise
        except asyncio.CancelledError:
            call.log("canceled by the caller")
            raise
        call.log("answered")
        return dict(zip((ref.uid for ref in refs), outcomes, strict=True))

    async def _process_all(
        self, operation: str, refs: Sequence[ClaimRef], work: Callable[[ClaimRef], Awaitable[T]], call: "_Call"
    ) -> Sequence[T | str]:
        if len(refs) == 1:  # the usual case: a separate task would only cost time
            return [await self._process_one(operation, refs[0], work, call)]
        outcomes: list[T | str] = []
        for first in range(0, len(refs), _MAX_CLAIMS):
            chunk = refs[first : first + _MAX_CLAIMS]
            outcomes += await asyncio.gather(*(self._process_one(operation, ref, work, call) for ref in chunk))
        return outcomes

    async def _process_one(
        self, operation: str, ref: ClaimRef, work: Callable[[ClaimRef], Awaitable[T]], call: "_Call"
    ) -> T | str:
        """Return one claim's outcome or its error: an exception never affects other claims or the server."""
        bind_claim(call.id, ref)
        began = time.perf_counter()
        try:
            with self._metrics.observe(operation):
                _check_ref(ref)
                outcome = await work(ref)
        except Exception as error:
            self._outcomes.failed(operation, ref, time.perf_counter() - began, error)
            return self._format_error(operation, ref, error, call)
        call.results[ref.uid] = "ok"
        # The log is written in the next iteration of the event loop, so that the kubelet is answered first.
        report = partial(self._outcomes.succeeded, operation, ref, time.perf_counter() - began)
        asyncio.get_running_loop().call_soon(report)
        return outcome

    def _format_error(self, operation: str, ref: ClaimRef, error: Exception, call: "_Call") -> str:
        """Return the error text for the kubelet.

        The message of an unexpected exception is omitted, because it may quote secrets.
        """
        if not isinstance(error, DraError):
            call.results[ref.uid] = "internal error"
            self._metrics.background_error(operation)
            text = f"{type(error).__name__}; the driver's log has the location"
            return f"{operation} of claim {ref}: internal error: {text}"[: call.longest_error]
        call.results[ref.uid] = "in progress" if isinstance(error, InProgressError) else "error"
        if isinstance(error, DeviceInUseError | IncompleteStateError):
            self._on_conflict()
        return str(error)[: call.longest_error] or type(error).__name__


class _Call:
    """The log entry of one call of the kubelet: the names and outcomes of its claims, without their content."""

    def __init__(self, identifier: str, refs: Sequence[ClaimRef]) -> None:
        self.id = identifier
        self.results: dict[str, str] = {}
        self.longest_error = min(_MAX_ERROR_LENGTH, _MAX_ERRORS_LENGTH // max(1, len(refs)))
        self._refs = refs
        self._began = time.perf_counter()

    def log(self, end: str) -> None:
        """Log one line at level debug."""
        if _log.isEnabledFor(logging.DEBUG):
            claims = ", ".join(f"{ref}: {self.results.get(ref.uid, 'no answer')}" for ref in self._refs)
            seconds = time.perf_counter() - self._began
            _log.debug("%s: %s after %.3f s: %s", self.id, end, seconds, claims or "no claims")


def _check_uids(refs: Sequence[ClaimRef]) -> None:
    seen: set[str] = set()
    for index, ref in enumerate(refs):
        if not ref.uid:
            raise MalformedRequestError(f"claims[{index}].uid: a UID is required")
        if ref.uid in seen:
            raise MalformedRequestError(f"claims: UID {ref.uid} occurs twice")
        seen.add(ref.uid)


def _check_ref(ref: ClaimRef) -> None:
    for field, text in (("namespace", ref.namespace), ("name", ref.name)):
        if not text or "/" in text:
            raise ClaimError(f"claim UID {ref.uid}: {field} {text!r}: must be the name of an object")
    if not is_usable_uid(ref.uid):
        raise ClaimError(f"claim {ref.namespace}/{ref.name}: uid {ref.uid!r}: must be a UID")


class _Servicer:
    """One version of the service; `messages` is its generated module."""

    def __init__(self, service: ClaimService, messages: ModuleType) -> None:
        self._service = service
        self._messages = messages
        self._shares = "share_id" in messages.Device.DESCRIPTOR.fields_by_name

    async def NodePrepareResources(self, request: Any) -> Any:  # noqa: N802, ANN401 - generated messages of two versions
        outcomes = await _reject_malformed(self._service.prepare(_refs(request)))
        response = self._messages.NodePrepareResourcesResponse()
        for uid, outcome in outcomes.items():
            answer = response.claims[uid]
            if isinstance(outcome, str):
                answer.error = outcome
            else:
                answer.devices.extend(map(self._device, outcome))
        return response

    async def NodeUnprepareResources(self, request: Any) -> Any:  # noqa: N802, ANN401 - generated messages of two versions
        outcomes = await _reject_malformed(self._service.unprepare(_refs(request)))
        response = self._messages.NodeUnprepareResourcesResponse()
        for uid, outcome in outcomes.items():
            response.claims[uid].error = outcome or ""
        return response

    def _device(self, answer: DeviceAnswer) -> Any:  # noqa: ANN401 - a generated message of two versions
        device = self._messages.Device(
            request_names=answer.requests,
            pool_name=answer.pool,
            device_name=answer.device,
            cdi_device_ids=answer.cdi_ids,
        )
        if self._shares and answer.share_id:
            device.share_id = answer.share_id
        return device


def _refs(request: Any) -> list[ClaimRef]:  # noqa: ANN401 - a generated message of two versions
    return [ClaimRef(claim.uid, claim.namespace, claim.name) for claim in request.claims]


async def _reject_malformed(answer: Awaitable[T]) -> T:
    try:
        return await answer
    except MalformedRequestError as error:
        raise CallError(grpc.StatusCode.INVALID_ARGUMENT, str(error)) from error


def claim_methods(service: ClaimService) -> dict[str, Method]:
    """Return the methods of both versions of the DRAPlugin API."""
    return {
        path: method
        for messages in (dra_v1, dra_v1beta1)
        for path, method in methods_of(
            messages.DESCRIPTOR.services_by_name["DRAPlugin"], _Servicer(service, messages)
        ).items()
    }
