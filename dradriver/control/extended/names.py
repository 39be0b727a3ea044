"""Which resource names of a container may be served by devices.

Source: `IsExtendedResourceName` and `IsDRAExtendedResourceName` of Kubernetes 1.37.
"""

import re
from typing import Final

__all__ = ["IMPLICIT_PREFIX", "implicit_name", "is_extended", "name_problem"]

IMPLICIT_PREFIX: Final = "deviceclass.resource.kubernetes.io/"
"""Every DeviceClass can be requested by this prefix and its name, whatever its `extendedResourceName`."""

_QUOTA_PREFIX: Final = "requests."
_NATIVE: Final = "kubernetes.io/"
_LONGEST_NAME: Final = 63
_LONGEST_DOMAIN: Final = 253
_NAME: Final = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_DOMAIN: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


def implicit_name(class_name: str) -> str:
    """Return the extended resource name with which pods may ask for devices of a class."""
    return IMPLICIT_PREFIX + class_name


def is_extended(name: str) -> bool:
    """Return whether device plugins or devices may serve a resource of a container."""
    if name.startswith(IMPLICIT_PREFIX):
        return True
    if "/" not in name or _NATIVE in name or name.startswith(_QUOTA_PREFIX):
        return False
    return name_problem(_QUOTA_PREFIX + name) is None


def name_problem(name: str) -> str | None:
    """Return why a text is not a qualified name, which a resource's name must be; None if it is one."""
    domain, _, base = name.rpartition("/")
    if len(base) > _LONGEST_NAME:
        return f"the name after the slash has {len(base)} characters, at most {_LONGEST_NAME} are allowed"
    if not _NAME.fullmatch(base):
        return (
            "the name after the slash must be letters, digits, '-', '_' and '.', a letter or digit at both ends"
        )
    if len(domain) > _LONGEST_DOMAIN or not _DOMAIN.fullmatch(domain):
        return "the part before the slash must be a DNS subdomain"
    return None
