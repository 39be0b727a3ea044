"""Check the return values of a binding driver."""

from collections.abc import Iterable, Mapping

from dradriver.driver import Attachment
from dradriver.driver.code_places import at
from dradriver.errors import DriverError

__all__ = ["listed_attachments"]


def listed_attachments(driver: str, returned: object, place: str = "") -> list[Attachment]:
    """Return the attachments that `attachments()` returned, in order.

    Args:
        driver: the driver's name.
        returned: the result. None: no attachments.
        place: file and line of the method, for messages.

    Raises:
        DriverError: the result is not a list of attachments. The message has the index of the wrong item.
    """
    if returned is None:
        return []
    told = f"driver {driver}: attachments() returned"
    if isinstance(returned, str | Mapping) or not isinstance(returned, Iterable):
        raise DriverError(f"{told} {type(returned).__name__}, a list of attachments is wanted{at(place)}")
    found = list(returned)
    for index, each in enumerate(found):
        if not isinstance(each, Attachment):
            raise DriverError(f"{told} {each!r} at index {index}, which is no Attachment{at(place)}")
    return sorted(found)
