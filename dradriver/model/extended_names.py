"""Find which resource names of a container can be served by devices."""

import re
from typing import Final

__all__ = ["IMPLICIT_PREFIX", "find_name_problem", "implicit_name", "is_extended"]

IMPLICIT_PREFIX: Final = "deviceclass.resource.kubernetes.io/"
"""The prefix of implicit names: every DeviceClass can be requested with the prefix and the class's name."""

_QUOTA_PREFIX: Final = "requests."
_NATIVE: Final = "kubernetes.io/"
_MAX_NAME_LENGTH: Final = 63
_MAX_DOMAIN_LENGTH: Final = 253
_NAME: Final = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_DOMAIN: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


def implicit_name(class_name: str) -> str:
    """Return the extended resource name with which pods can request devices of a class.

    Args:
        class_name: name of a DeviceClass.
    """
    return IMPLICIT_PREFIX + class_name


def is_extended(name: str) -> bool:
    """Return whether device plugins or devices can serve a resource of a container.

    Args:
        name: a resource name, as in a container's `resources.requests`.

    Source: `IsExtendedResourceName` and `IsDRAExtendedResourceName` of Kubernetes 1.37.
    """
    if name.startswith(IMPLICIT_PREFIX):
        return True
    if "/" not in name or _NATIVE in name or name.startswith(_QUOTA_PREFIX):
        return False
    return find_name_problem(_QUOTA_PREFIX + name) is None


def find_name_problem(name: str) -> str | None:
    """Return why a text is not a qualified name, as a resource's name must be; None if it is valid."""
    domain, _, base = name.rpartition("/")
    if len(base) > _MAX_NAME_LENGTH:
        return f"the part after the slash must be at most {_MAX_NAME_LENGTH} characters, has {len(base)}"
    if not _NAME.fullmatch(base):
        return "the part after the slash must be letters, digits, '-', '_' and '.', alphanumeric at both ends"
    if len(domain) > _MAX_DOMAIN_LENGTH or not _DOMAIN.fullmatch(domain):
        return "the part before the slash must be a DNS subdomain"
    return None
