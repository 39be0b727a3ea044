"""Tests devices against the selectors of claims. This is cheaper than an attempt on each node."""

from collections.abc import Hashable, Mapping, Sequence

from dradriver.allocator.features import Features
from dradriver.allocator.request.cel_selectors import CelSelectors
from dradriver.allocator.request.selectors import SelectorProvider
from dradriver.allocator.request.subrequests import Subrequest, requests_of
from dradriver.allocator.supply.pools import PooledDevice
from dradriver.cel.evaluate.errors import EvaluationError
from dradriver.model.resource.claim import ResourceClaim
from dradriver.model.resource.deviceclass import DeviceClass

__all__ = ["WantedDevices"]


class WantedDevices:
    """The selectors of the requests of some claims.

    Args:
        claims: the claims.
        classes: all device classes by name.
        features: the enabled features.
        selectors: evaluates selectors; None means CEL.

    Attributes:
        kind: equal for claims that the same devices match.

    Raises:
        Refusal: of kind `claim`, if no node can ever serve a request.
    """

    def __init__(
        self,
        claims: Sequence[ResourceClaim],
        classes: Mapping[str, DeviceClass],
        features: Features,
        selectors: SelectorProvider | None = None,
    ) -> None:
        requests = requests_of(claims, classes, features, selectors or CelSelectors())
        self._asks = [ask for request in requests for ask in request.alternatives]
        self.kind: Hashable = tuple(ask.kind for ask in self._asks)

    def matches(self, device: PooledDevice) -> bool:
        """Return whether the device matches the selectors of a request, even if a claim holds the device."""
        return any(_matches(ask, device) for ask in self._asks)


def _matches(ask: Subrequest, device: PooledDevice) -> bool:
    try:
        return all(selection.matches(device) for selection in ask.selections)
    except EvaluationError:
        return False
