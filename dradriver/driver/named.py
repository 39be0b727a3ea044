"""The name of a driver, read from its class."""

from dradriver.driver.source import DeviceSource
from dradriver.errors import DriverError
from dradriver.model import names

__all__ = ["name_of"]


def name_of(driver: type[DeviceSource]) -> str:
    """The driver's name in the cluster, known without an instance.

    Raises:
        DriverError: the class has none, or one that no driver may have.
    """
    name: object = getattr(driver, "name", None)
    if not isinstance(name, str):
        raise DriverError(f'{driver.__name__} has no name: set `name = "kind.example.com"` in the class')
    if rule := names.driver_name(name):
        raise DriverError(f"{driver.__name__}.name: {rule}")
    return name
