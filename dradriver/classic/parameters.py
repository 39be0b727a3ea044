"""Turn a claim into the `PendingClaim` that the driver gets: read, decode and check its parameters.

Parameters are JSON in the class or claim, or an object that it refers to (`parametersRef`). From an object, the
driver's `Config` gets the fields of `spec`. If the object has no `spec`, like a ConfigMap, it gets all fields
but `metadata` and `status`. Nothing is kept: an object may change at any time.
"""

from collections.abc import Sequence
from typing import Any, Final

from dradriver.driver import Config, ControllerDriver, PendingClaim, PendingRequest
from dradriver.driver.configuration.config import decode_config
from dradriver.errors import DraError, InvalidObjectError, NotFoundError, Problem
from dradriver.kube import Client, NotFound
from dradriver.model.classic.controlled_claims import ControlledClaim, ControlledRequest
from dradriver.model.classic.parameters import ControllerClaim, ControllerClass, ParametersReference
from dradriver.model.encoding.codec import canonical
from dradriver.node.driver_calls import Calls

__all__ = ["ClaimParameters"]

_NO_PARAMETERS: Final = frozenset({"metadata", "status", "immutable"})
"""Fields of an object without `spec` that are not parameters. `immutable` is a field of ConfigMaps."""


class ClaimParameters:
    """Reads the parameters of claims.

    Args:
        driver: the author's driver.
        client: the API server. It needs `get` on the objects to which classes and claims refer.
        calls: calls the driver.
    """

    def __init__(self, driver: ControllerDriver, client: Client, calls: Calls) -> None:
        self._driver = driver
        self._client = client
        self._calls = calls

    async def read(self, controlled: ControlledClaim, pod_claim: str = "") -> PendingClaim:
        """Return a claim as the methods of the driver get it.

        Args:
            controlled: the claim.
            pod_claim: the name of the claim in the pod; empty for an immediate claim.

        Raises:
            DraError: parameters are wrong, or an object with parameters cannot be read. The message names the
                claim or the class.
        """
        meta = controlled.claim.metadata
        of_class: dict[str, object] = {}
        requests = []
        for request in controlled.requests:
            name = request.device_class
            if name not in of_class:
                of_class[name] = await self._read_class(request)
            requests.append(
                PendingRequest(
                    request.name,
                    name,
                    request.count,
                    of_class[name],
                    await self._read_claim(controlled, request, of_class[name]),
                )
            )
        return PendingClaim(meta.uid, meta.namespace, meta.name, pod_claim, tuple(requests))

    async def _read_class(self, request: ControlledRequest) -> object:
        driver, entry = self._driver, request.class_parameters
        subject = f"DeviceClass {request.device_class}: parameters of {driver.name}"
        reference = entry.parameters_ref
        config = await self._decode(
            entry, reference.namespace if reference else "", driver.class_configs, subject
        )
        about = f" of class {request.device_class}"
        return await self._calls.call(driver.class_parameters, request.device_class, config, about=about)

    async def _read_claim(
        self, controlled: ControlledClaim, request: ControlledRequest, of_class: object
    ) -> object:
        driver, claim = self._driver, controlled.claim
        subject = f"claim {claim.ref}: parameters of {driver.name} for request {request.name}"
        entry = request.claim_parameters or ControllerClaim()
        config = await self._decode(entry, claim.metadata.namespace, driver.claim_configs, subject)
        about = f" of claim {claim.ref}"
        return await self._calls.call(driver.claim_parameters, claim.ref, config, of_class, about=about)

    async def _decode(
        self,
        entry: ControllerClass | ControllerClaim,
        namespace: str,
        known: Sequence[type[Config]],
        subject: str,
    ) -> Config | None:
        is_inline = bytes(entry.parameters) != b"null"
        if entry.parameters_ref is None:
            return decode_config(bytes(entry.parameters), known, subject, strict=True) if is_inline else None
        if is_inline:
            raise InvalidObjectError(subject, [Problem("parameters", "must not be set beside parametersRef")])
        data = await self._read_object(entry.parameters_ref, namespace, subject)
        return decode_config(data, known, subject, strict=True)

    async def _read_object(self, reference: ParametersReference, namespace: str, subject: str) -> bytes:
        kind = f"{reference.kind} of {reference.api_group}" if reference.api_group else reference.kind
        resource = await self._client.find_resource(reference.api_group, reference.kind)
        if resource is None:
            raise NotFoundError(f"{subject}: parametersRef: the API server has no kind {kind}")
        if resource.namespaced and not namespace:
            rule = f"is required, because a {reference.kind} belongs to a namespace"
            raise InvalidObjectError(subject, [Problem("parametersRef.namespace", rule)])
        key = f"{namespace}/{reference.name}" if resource.namespaced else reference.name
        try:
            body = await self._client.get(
                resource, reference.name, namespace if resource.namespaced else "", into=dict[str, Any]
            )
        except NotFound as error:
            raise NotFoundError(f"{subject}: parametersRef: there is no {kind} {key}") from error
        except DraError as error:
            raise DraError(f"{subject}: parametersRef: {kind} {key} cannot be read: {error}") from error
        return _parameters_of(body)


def _parameters_of(body: dict[str, Any]) -> bytes:
    """Return the parameters that an object has, as JSON with its type."""
    spec = body.get("spec")
    fields = spec if isinstance(spec, dict) else {k: v for k, v in body.items() if k not in _NO_PARAMETERS}
    head = {"apiVersion": body.get("apiVersion", ""), "kind": body.get("kind", "")}
    return canonical({**fields, **head})
