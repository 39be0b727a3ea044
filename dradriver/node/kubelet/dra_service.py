"""The DRAPlugin service, v1 and v1beta1: translate, look claims up, prepare, answer for each claim.

Both versions have the same content, except that v1beta1 has no share IDs.
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
from dradriver.node.files.cdi import usable_uid
from dradriver.node.files.claim_files import DeviceAnswer
from dradriver.node.kubelet.in_flight import Traffic
from dradriver.node.kubelet.server import CallError, Method, methods_of
from dradriver.node.reporting.claim_outcomes import Outcomes
from dradriver.node.reporting.log_context import now_about, now_for
from dradriver.node.reporting.metrics import NodeMetrics
from dradriver.node.state.records import ClaimRef
from dradriver.wire import dra_v1, dra_v1beta1

__all__ = ["ClaimService", "MalformedRequestError", "claim_methods"]

_log = logging.getLogger(__name__)

T = TypeVar("T")

_MAX_ERROR: Final = 8192
_MAX_ERRORS: Final = 2**20
"""Characters. A longer answer could exceed gRPC's limit, and all claims' answers would be lost."""

_MOST_CLAIMS: Final = 512
"""A call has the claims of one pod, which are far fewer."""


class MalformedRequestError(DraError):
    """The whole request is rejected: its claims cannot be distinguished, or there are too many."""


class ClaimService:
    """Prepares and unprepares the claims of a request concurrently; an invalid claim fails alone.

    Args:
        client: looks claims up.
        context: the parts of the node that do the work.
        metrics: counts calls and their outcomes.
        outcomes: reports them in logs and events.
        deadline: seconds within which a request is answered, including lookups.
        on_conflict: called when a claim was rejected because of another prepared one.
        traffic: counts the calls in flight.
    """

    def __init__(
        self,
        client: Getter,
        context: ClaimContext,
        metrics: NodeMetrics,
        outcomes: Outcomes,
        deadline: float,
        on_conflict: Callable[[], None],
        traffic: Traffic,
    ) -> None:
        self._lookup = ClaimLookup(client)
        self._context = context
        self._metrics = metrics
        self._outcomes = outcomes
        self._deadline = deadline
        self._on_conflict = on_conflict
        self._traffic = traffic
        self._requests = itertools.count(1)

    async def prepare(self, refs: Sequence[ClaimRef]) -> dict[str, list[DeviceAnswer] | str]:
        """Prepare claims, and return the devices or the error of each, by UID.

        Too many claims are rejected with one error: the kubelet fails the whole pod with the first error that
        it finds, and an error for each claim could exceed gRPC's limit.

        Raises:
            MalformedRequestError: a claim has no UID, two have the same, or there are more than 512.
        """
        if len(refs) > _MOST_CLAIMS:
            told = f"claims: {len(refs)} in one call, at most {_MOST_CLAIMS} are prepared together"
            _log.warning("prepare: %s", told)
            raise MalformedRequestError(told)
        return await self._each("prepare", refs, self._prepare)

    async def unprepare(self, refs: Sequence[ClaimRef]) -> dict[str, str | None]:
        """Unprepare claims, and return the error of each, or None, by UID.

        The number of claims is not limited: the kubelet also unprepares those of a pod that it could not
        prepare, and a pod ends only when that has succeeded. As many as can be prepared together are processed
        at once.

        Raises:
            MalformedRequestError: a claim has no UID, or two have the same.
        """
        return await self._each("unprepare", refs, self._unprepare)

    async def _prepare(self, ref: ClaimRef) -> list[DeviceAnswer]:
        clock = asyncio.get_running_loop().time
        until = clock() + self._deadline
        try:
            async with asyncio.timeout_at(until):
                claim = await self._lookup.meant(ref)
        except TimeoutError:
            raise ClaimError(f"claim {ref} can't be looked up: the API server does not answer") from None
        now_for(claim.status.reserved_for)
        return await prepare(self._context, claim, max(until - clock(), 0.1))

    async def _unprepare(self, ref: ClaimRef) -> None:
        await unprepare(self._context, ref, self._deadline)

    async def _each(
        self, operation: str, refs: Sequence[ClaimRef], work: Callable[[ClaimRef], Awaitable[T]]
    ) -> dict[str, T | str]:
        call = _Call(f"{operation}-{next(self._requests)}", refs)
        try:
            _check_told_apart(refs)
            with self._traffic.call():
                outcomes = await self._all(operation, refs, work, call)
        except MalformedRequestError as error:
            call.log(f"refused: {error}")
            raise
        except asyncio.CancelledError:
            call.log("the caller has left")
            raise
        call.log("answered")
        return dict(zip((ref.uid for ref in refs), outcomes, strict=True))

    async def _all(
        self, operation: str, refs: Sequence[ClaimRef], work: Callable[[ClaimRef], Awaitable[T]], call: "_Call"
    ) -> Sequence[T | str]:
        if len(refs) == 1:  # the usual case: a separate task would only cost time
            return [await self._one(operation, refs[0], work, call)]
        outcomes: list[T | str] = []
        for first in range(0, len(refs), _MOST_CLAIMS):
            some = refs[first : first + _MOST_CLAIMS]
            outcomes += await asyncio.gather(*(self._one(operation, ref, work, call) for ref in some))
        return outcomes

    async def _one(
        self, operation: str, ref: ClaimRef, work: Callable[[ClaimRef], Awaitable[T]], call: "_Call"
    ) -> T | str:
        """Return one claim's outcome or its error: an exception never affects other claims or the server."""
        now_about(call.id, ref)
        began = time.perf_counter()
        try:
            with self._metrics.observed(operation):
                _check(ref)
                outcome = await work(ref)
        except Exception as error:
            self._outcomes.failed(operation, ref, time.perf_counter() - began, error)
            return self._answer(operation, ref, error, call)
        call.results[ref.uid] = "ok"
        # In the loop's next iteration: the kubelet is answered first, and the log is written meanwhile.
        told = partial(self._outcomes.succeeded, operation, ref, time.perf_counter() - began)
        asyncio.get_running_loop().call_soon(told)
        return outcome

    def _answer(self, operation: str, ref: ClaimRef, error: Exception, call: "_Call") -> str:
        """Return the error text for the kubelet, without the text of a defect, which may quote secrets."""
        if not isinstance(error, DraError):
            call.results[ref.uid] = "internal error"
            self._metrics.background_error(operation)
            told = f"{type(error).__name__}; the driver's log says where"
            return f"{operation} of claim {ref}: internal error: {told}"[: call.longest_error]
        call.results[ref.uid] = "in progress" if isinstance(error, InProgressError) else "error"
        if isinstance(error, DeviceInUseError | IncompleteStateError):
            self._on_conflict()
        return str(error)[: call.longest_error] or type(error).__name__


class _Call:
    """One call of the kubelet for the log: its claims and its outcome, without the claims' content."""

    def __init__(self, identifier: str, refs: Sequence[ClaimRef]) -> None:
        self.id = identifier
        self.results: dict[str, str] = {}
        self.longest_error = min(_MAX_ERROR, _MAX_ERRORS // max(1, len(refs)))
        self._refs = refs
        self._began = time.perf_counter()

    def log(self, end: str) -> None:
        """Log one line at level debug."""
        if _log.isEnabledFor(logging.DEBUG):
            claims = ", ".join(f"{ref}: {self.results.get(ref.uid, 'no answer')}" for ref in self._refs)
            seconds = time.perf_counter() - self._began
            _log.debug("%s: %s after %.3f s: %s", self.id, end, seconds, claims or "no claims")


def _check_told_apart(refs: Sequence[ClaimRef]) -> None:
    seen: set[str] = set()
    for place, ref in enumerate(refs):
        if not ref.uid:
            raise MalformedRequestError(f"claims[{place}].uid: a UID is required")
        if ref.uid in seen:
            raise MalformedRequestError(f"claims: UID {ref.uid} stands there twice")
        seen.add(ref.uid)


def _check(ref: ClaimRef) -> None:
    for field, text in (("namespace", ref.namespace), ("name", ref.name)):
        if not text or "/" in text:
            raise ClaimError(f"claim with UID {ref.uid}: {field} {text!r} is no name of an object")
    if not usable_uid(ref.uid):
        raise ClaimError(f"claim {ref.namespace}/{ref.name}: {ref.uid!r} is no UID")


class _Servicer:
    """One version of the service; `messages` is its generated module."""

    def __init__(self, service: ClaimService, messages: ModuleType) -> None:
        self._service = service
        self._messages = messages
        self._shares = "share_id" in messages.Device.DESCRIPTOR.fields_by_name

    async def NodePrepareResources(self, request: Any) -> Any:  # noqa: N802, ANN401 - generated messages of two versions
        outcomes = await _well_formed(self._service.prepare(_refs(request)))
        response = self._messages.NodePrepareResourcesResponse()
        for uid, outcome in outcomes.items():
            answer = response.claims[uid]
            if isinstance(outcome, str):
                answer.error = outcome
            else:
                answer.devices.extend(map(self._device, outcome))
        return response

    async def NodeUnprepareResources(self, request: Any) -> Any:  # noqa: N802, ANN401 - generated messages of two versions
        outcomes = await _well_formed(self._service.unprepare(_refs(request)))
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


async def _well_formed(answer: Awaitable[T]) -> T:
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
