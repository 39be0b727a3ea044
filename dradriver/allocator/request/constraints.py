"""Evaluates matchAttribute and distinctAttribute over a partial choice of devices.

The values of a constraint's attribute are numbered in the order in which they are first read. A device's value
is represented by an integer in which the bit with the value's number is set. A list-typed attribute sets
several bits. Both constraints can then be evaluated with bit arithmetic:

- The state of matchAttribute contains the values that all devices chosen so far have in common. It starts as
  all ones. A device may join if at least one common value remains.
- The state of distinctAttribute contains the values of all devices chosen so far. It starts as zero. A device
  may join if it has none of these values.

A device without the attribute has the value 0 and never satisfies either constraint. Values of different types
are different values, as in Kubernetes.

While DRAListTypeAttributes is off, Kubernetes does not compare lists. A device with a list may then only be the
first device of a constraint. After that device, matchAttribute lets no other device join. Two reserved bits
represent these cases.
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

__all__ = ["LIST", "Constraint", "parse_constraints"]

LIST: Final = 1
"""Value of a list while lists are off. distinctAttribute also sets this bit for its first device."""
_NO_DEVICE: Final = 2
"""State of matchAttribute after a list joined while lists are off: no other device may join."""
_RESERVED: Final = 2
"""Number of bits that do not represent a value."""


@dataclass(frozen=True, slots=True, eq=False)
class Constraint:
    """One constraint of one claim.

    Attributes:
        claim: index of the claim among the claims to allocate.
        attribute: the fully qualified name.
        distinct: True for distinctAttribute, False for matchAttribute.
        requests: the requests that the constraint covers; empty means all requests of the claim.
        compares_lists: whether list-typed attributes are compared (DRAListTypeAttributes).
    """

    claim: int
    attribute: str
    distinct: bool
    requests: tuple[str, ...]
    compares_lists: bool
    _numbers: dict[tuple[type, object], int] = field(default_factory=dict)

    @property
    def start(self) -> int:
        """Return the state before any device is chosen."""
        return 0 if self.distinct else -1

    def covers(self, subrequest: Subrequest) -> bool:
        """Return whether the constraint covers this request."""
        if subrequest.claim != self.claim:
            return False
        names = {subrequest.name, subrequest.name.partition("/")[0]}
        return not self.requests or not names.isdisjoint(self.requests)

    def published_value(self, device: PooledDevice) -> int:
        """Return, as bits, the value of the attribute that the device publishes; 0 if it publishes none."""
        return self.value_bits(device.device.attribute(self.attribute, device.id.driver))

    def value_bits(self, value: AttributeValue | None) -> int:
        """Return a value of the attribute as bits."""
        if value is None:
            return 0
        if isinstance(value, tuple) and not self.compares_lists:
            return LIST
        bits = 0
        for scalar in _scalars(value):
            number = self._numbers.setdefault((type(scalar), scalar), len(self._numbers))
            bits |= 1 << (number + _RESERVED)
        return bits

    def join(self, state: int, value: int) -> int | None:
        """Return the new state after a device with this value joins; None if the device may not join."""
        if self.distinct:
            return state | value | LIST if value and not state & value else None
        if value == LIST:
            return _NO_DEVICE if state == self.start else None
        return state & value or None

    def clashes(self, value: int, other: int) -> bool:
        """Return whether two devices with these values exclude each other, regardless of other devices."""
        if self.distinct:
            return bool(value & other)
        return value == LIST or not value & other

    def describe_conflict(self, value: int) -> str:
        """Return the reason why a device with this value may not join, for messages."""
        name = "distinctAttribute" if self.distinct else "matchAttribute"
        if not value:
            return f"{name} {self.attribute}: the device has no such attribute"
        differs = "another device has the same value" if self.distinct else "the devices chosen before differ"
        return f"{name} {self.attribute}: {differs}"


def _scalars(value: AttributeValue) -> tuple[object, ...]:
    return value if isinstance(value, tuple) else (value,)


def parse_constraints(claims: Sequence[ResourceClaim], features: Features) -> list[Constraint]:
    """Return the constraints of all claims.

    Raises:
        Refusal: a constraint has an unknown type. The kind is `claim`.
    """
    parsed = []
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
            parsed.append(
                Constraint(
                    claim=index,
                    attribute=attribute,
                    distinct=not constraint.match_attribute,
                    requests=tuple(constraint.requests),
                    compares_lists=features.list_type_attributes,
                )
            )
    return parsed
