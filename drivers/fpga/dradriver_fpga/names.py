"""Names that the operator gives to interfaces and functions. Pure.

Intel's device plugin has the CRDs `FpgaRegion` and `AcceleratorFunction` for this.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from dradriver_fpga.card import normalize_id

__all__ = ["NO_NAMES", "FriendlyNames", "UnknownNameError", "is_id", "is_name"]

_ID: Final = re.compile(r"[0-9a-f]{32}")
_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


class UnknownNameError(ValueError):
    """The settings do not have a name that is used. The message lists the names that they have."""


def is_id(text: str) -> bool:
    """Return whether a text is an interface ID or AFU ID, with or without dashes."""
    return _ID.fullmatch(normalize_id(text)) is not None


def is_name(text: str) -> bool:
    """Return whether a text can be a friendly name: a DNS label that is not an ID."""
    return _NAME.fullmatch(text) is not None and not is_id(text)


class FriendlyNames(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Names that the operator gives to IDs.

    Attributes:
        interfaces: interface ID by name.
        functions: AFU ID (for XRT, the UUID of the xclbin) by name.

    Raises:
        ValueError: a name is not a DNS label or is itself an ID, an ID is not one, or an ID has two names.
    """

    interfaces: dict[str, str] = {}
    functions: dict[str, str] = {}

    def __post_init__(self) -> None:
        for field, names in (("interfaces", self.interfaces), ("functions", self.functions)):
            _check(f"names.{field}", names)

    def resolve_interface(self, text: str) -> str:
        """Return the interface ID for a name. An ID, and "", are returned as they are.

        Args:
            text: a name or an ID.

        Raises:
            UnknownNameError: the settings do not have this name.
        """
        if not text or is_id(text):
            return text
        if text in self.interfaces:
            return normalize_id(self.interfaces[text])
        known = ", ".join(sorted(self.interfaces)) or "(none)"
        raise UnknownNameError(f"interfaceID: {text!r} is not in names.interfaces, which has {known}")

    def find_interface(self, ids: Iterable[str]) -> str:
        """Return the name of the first interface that has one; "" if none has."""
        return next((name for each in ids if (name := _find(self.interfaces, each))), "")

    def find_function(self, afu_id: str) -> str:
        """Return the name of a function; "" if it has none."""
        return _find(self.functions, afu_id)


def _find(names: Mapping[str, str], wanted: str) -> str:
    return next((name for name, each in names.items() if normalize_id(each) == wanted), "") if wanted else ""


def _check(field: str, names: Mapping[str, str]) -> None:
    seen: dict[str, str] = {}
    for name, each in names.items():
        if not is_name(name):
            raise ValueError(f"{field}: {name!r} must be lower-case letters, digits and dashes, and not an ID")
        if not is_id(each):
            raise ValueError(f"{field}.{name}: must be 32 hex digits, with or without dashes")
        other = seen.setdefault(normalize_id(each), name)
        if other != name:
            raise ValueError(f"{field}: {other} and {name} have the same ID")


NO_NAMES: Final = FriendlyNames()
