"""Which device class serves which extended resource."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Self

from dradriver.control.extended.names import implicit_name
from dradriver.model.resource.deviceclass import DeviceClass

__all__ = ["ClassesByResource"]


@dataclass(frozen=True)
class ClassesByResource:
    """The device classes by the names with which pods ask for them.

    A function of the classes alone. If several classes have one `extendedResourceName`, the one that was
    created last counts; among those created in the same second, the first by name (KEP-5004, Device Class API).
    So a class can be replaced without disruption: create the new one, then remove the name from the old one.

    Attributes:
        by_name: extended resource names, explicit and implicit.
    """

    by_name: Mapping[str, DeviceClass] = field(default_factory=dict)

    @classmethod
    def of(cls, classes: Iterable[DeviceClass]) -> Self:
        """Return the names of these classes."""
        found: dict[str, DeviceClass] = {}
        # The later entry wins, so older classes come first, and among equally old ones the higher name.
        for each in sorted(sorted(classes, key=_name, reverse=True), key=_age):
            found[implicit_name(each.metadata.name)] = each
            if each.spec.extended_resource_name:
                found[each.spec.extended_resource_name] = each
        return cls(found)

    def class_name(self, resource: str) -> str | None:
        """Return the name of the class that serves a resource; None when no class does."""
        found = self.by_name.get(resource)
        return found.metadata.name if found else None


_NEVER: Final = 0.0


def _name(each: DeviceClass) -> str:
    return each.metadata.name


def _age(each: DeviceClass) -> float:
    created = each.metadata.creation_timestamp
    return created.timestamp() if created is not None else _NEVER
