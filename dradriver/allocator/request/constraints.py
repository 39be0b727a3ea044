"""Evaluates matchAttribute and distinctAttribute over a partial choice of devices.

The values of a constraint's attribute are numbered in the order in which they are met. A device's value is an
integer in which the bit of that number is set. A list-typed attribute sets several bits. Both constraints are
then bit arithmetic:

- matchAttribute keeps the values that all devices so far have in common. Its state starts as all ones. A device
  may join while at least one value remains.
- distinctAttribute keeps the values taken so far. Its state starts as zero. A device may join if it has none of
  them.

A device without the attribute has the value 0 and never satisfies either constraint. Values of different types
are different values, as in Kubernetes.

While DRAListTypeAttributes is off, Kubernetes does not compare lists. A device with a list may then only be the
first device of its constraint, and matchAttribute lets no other device join it. Two reserved bits represent
this.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from dradriver.allocator.explain.refusal import Reason, Refusal
from dradriver.allocator.features import Features
from dradriver.allocator.request.subrequests import Subrequest
from dradriver.allocator.supply.pools import PooledDevice
from dradriver.model.resource.claim import ResourceClaim
from dradriver.model.resource.device import AttributeValue

__all__ = ["LIST", "Constraint", "constraints_of"]

LIST: Final = 1
"""Value of a list while lists are off. distinctAttribute also sets this bit once it has a first device."""
_NOBODY: Final = 2
"""State of matchAttribute after such a list: no device may join."""
_RESERVED: Final = 2
"""Number of reserved bits."""


@dataclass(frozen=True, slots=True, eq=False)
class Constraint:
    """One constraint of one claim.

    Attributes:
        claim: index of the claim among the claims to allocate.
        attribute: the fully qualified name.
        distinct: True for distinctAttribute, False for matchAttribute.
        requests: the requests that it covers; empty means all requests of the claim.
        lists: whether list-typed attributes are compared (DRAListTypeAttributes).
    """

    claim: int
    attribute: str
    distinct: bool
    requests: tuple[str, ...]
    lists: bool
    _numbers: dict[tuple[type, object], int] = field(default_factory=dict)

    @property
    def start(self) -> int:
        """Return the state before any device is chosen."""
        return 0 if self.distinct else -1

    def covers(self, ask: Subrequest) -> bool:
        """Return whether the constraint covers this request."""
        if ask.claim != self.claim:
            return False
        return not self.requests or ask.name in self.requests or ask.name.partition("/")[0] in self.requests

    def published(self, device: PooledDevice) -> int:
        """Return the value that the device publishes, as bits; 0 if it has none."""
        return self.bits(device.device.attribute(self.attribute, device.id.driver))

    def bits(self, value: AttributeValue | None) -> int:
        """Return a value of the attribute as bits."""
        if value is None:
            return 0
        if isinstance(value, tuple) and not self.lists:
            return LIST
        bits = 0
        for scalar in _scalars(value):
            number = self._numbers.setdefault((type(scalar), scalar), len(self._numbers))
            bits |= 1 << (number + _RESERVED)
        return bits

    def joined(self, state: int, value: int) -> int | None:
        """Return the state after a device with this value joins; None if it may not join."""
        if self.distinct:
            return state | value | LIST if value and not state & value else None
        if value == LIST:
            return _NOBODY if state == self.start else None
        return state & value or None

    def clashes(self, value: int, other: int) -> bool:
        """Return whether devices with these two values exclude each other, whatever the others have."""
        if self.distinct:
            return bool(value & other)
        return value == LIST or not value & other

    def obstacle(self, value: int) -> str:
        """Return the reason why a device with this value may not join, for messages."""
        name = "distinctAttribute" if self.distinct else "matchAttribute"
        if not value:
            return f"{name} {self.attribute}: the device has no such attribute"
        differs = "another device has the same value" if self.distinct else "the devices chosen before differ"
        return f"{name} {self.attribute}: {differs}"


def _scalars(value: AttributeValue) -> tuple[object, ...]:
    return value if isinstance(value, tuple) else (value,)


def constraints_of(claims: Sequence[ResourceClaim], features: Features) -> list[Constraint]:
    """Return the constraints of all claims.

    Raises:
        Refusal: of kind `claim`, for a constraint of an unknown type.
    """
    found = []
    for index, claim in enumerate(claims):
        for number, constraint in enumerate(claim.spec.devices.constraints, 1):
            attribute = constraint.match_attribute or constraint.distinct_attribute
            if not attribute:
                raise Refusal(
                    "claim",
                    f"claim {claim.ref}, constraint {number}: empty constraint (unsupported constraint type?)",
                    claim=claim.ref,
                    reasons=[
                        Reason(
                            "unsupported",
                            f"constraint {number} has neither matchAttribute nor distinctAttribute",
                        )
                    ],
                )
            found.append(
                Constraint(
                    claim=index,
                    attribute=attribute,
                    distinct=not constraint.match_attribute,
                    requests=tuple(constraint.requests),
                    lists=features.list_type_attributes,
                )
            )
    return found
