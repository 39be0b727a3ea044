"""Recognizes the records that a later version of the driver wrote.

After a downgrade, a record can have fields whose meaning is unknown. This version must not change such a
record, or the hardware that it describes.
"""

import msgspec

__all__ = ["find_later_version"]


def find_later_version(fields: dict[str, object], known: type[msgspec.Struct], version: int) -> str:
    """Return why a record is of a later version of the driver; "" if it is not.

    Args:
        fields: the fields of the record. A record without a version is of version 1.
        known: the type of the records that this version writes.
        version: the version of the records that this version writes.
    """
    written = fields.get("version", 1)
    if not isinstance(written, int) or written > version:
        return f"its version is {written}"
    if unknown := sorted(fields.keys() - set(known.__struct_encode_fields__)):
        return f"it has the unknown fields {', '.join(unknown)}"
    return ""
