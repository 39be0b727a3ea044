"""Find the device class that serves an extended resource."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Self

from dradriver.model.extended_names import implicit_name
from dradriver.model.resource.deviceclass import DeviceClass

__all__ = ["ClassesByResource"]


@dataclass(frozen=True)
class ClassesByResource:
    """The device classes, by the extended resource names with which pods request their devices.

    If several classes have one `extendedResourceName`, the class that was created last is used. If several of
    them were created in the same second, the first class by name is used (KEP-5004, Device Class API). So a
    class can be replaced without disruption: create the new class, and then remove the `extendedResourceName`
    from the old class.

    Attributes:
        by_name: the class for each extended resource name, explicit or implicit.
    """

    by_name: Mapping[str, DeviceClass] = field(default_factory=dict)

    @classmethod
    def of(cls, classes: Iterable[DeviceClass]) -> Self:
        """Return the classes by name.

        Args:
            classes: all device classes, in any order.
        """
        by_name: dict[str, DeviceClass] = {}
        # A later entry replaces an earlier entry. So older classes come first, and equally old classes are in
        # reverse order of their names.
        for each in sorted(sorted(classes, key=_name, reverse=True), key=_age):
            by_name[implicit_name(each.metadata.name)] = each
            if each.spec.extended_resource_name:
                by_name[each.spec.extended_resource_name] = each
        return cls(by_name)

    def class_name(self, resource: str) -> str | None:
        """Return the name of the class that serves a resource; None if no class does.

        Args:
            resource: an extended resource name, explicit or implicit.
        """
        device_class = self.by_name.get(resource)
        return device_class.metadata.name if device_class else None


_NEVER: Final = 0.0


def _name(each: DeviceClass) -> str:
    return each.metadata.name


def _age(each: DeviceClass) -> float:
    created = each.metadata.creation_timestamp
    return created.timestamp() if created is not None else _NEVER
