"""The rules for names. Each rule is a function that returns the problem of a text, or None.

Source: apimachinery `validation` and `pkg/apis/resource/validation`, Kubernetes 1.37.
"""

import re
from typing import Final

__all__ = [
    "DNS_LABEL_MAX",
    "DNS_SUBDOMAIN_MAX",
    "DRIVER_NAME_MAX",
    "POOL_NAME_MAX",
    "base_request",
    "dns_label",
    "dns_subdomain",
    "driver_name",
    "is_semver",
    "label_key",
    "label_value",
    "pool_name",
    "qualified_name",
    "qualify",
]

DNS_LABEL_MAX: Final = 63
DNS_SUBDOMAIN_MAX: Final = 253
DRIVER_NAME_MAX: Final = 63
POOL_NAME_MAX: Final = 253
_DOMAIN_MAX: Final = 63
_ID_MAX: Final = 32

_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_SUBDOMAIN: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LABEL_NAME: Final = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")
_NUMERIC = r"(0|[1-9][0-9]*)"
_PRERELEASE = r"(0|[1-9][0-9]*|[0-9]*[A-Za-z-][0-9A-Za-z-]*)"
_SEMVER: Final = re.compile(
    rf"{_NUMERIC}\.{_NUMERIC}\.{_NUMERIC}(-{_PRERELEASE}(\.{_PRERELEASE})*)?(\+[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?"
)
_C_IDENTIFIER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def dns_label(text: str) -> str | None:
    """Check the name of a device, counter, counter set, request or compatibility group (RFC 1123 label)."""
    if len(text) > DNS_LABEL_MAX or not _LABEL.fullmatch(text):
        return (
            f"{text!r} is not a DNS label: lower-case letters, digits and '-', "
            f"starting and ending with a letter or digit, at most {DNS_LABEL_MAX} characters"
        )
    return None


def dns_subdomain(text: str, maximum: int = DNS_SUBDOMAIN_MAX) -> str | None:
    """Check the name of most objects (RFC 1123 subdomain)."""
    if len(text) > maximum or not _SUBDOMAIN.fullmatch(text):
        return (
            f"{text!r} is not a DNS subdomain: lower-case letters, digits, '-' and '.', "
            f"each part starting and ending with a letter or digit, at most {maximum} characters"
        )
    return None


def driver_name(text: str) -> str | None:
    """Check a driver name: a DNS subdomain of at most 63 characters, like `gpu.example.com`."""
    return dns_subdomain(text, DRIVER_NAME_MAX)


def pool_name(text: str) -> str | None:
    """Check a pool name: DNS subdomains joined by `/`, with at most 253 characters in total."""
    if len(text) > POOL_NAME_MAX:
        return f"{text!r} must be at most {POOL_NAME_MAX} characters"
    return next((rule for part in text.split("/") if (rule := dns_subdomain(part))), None)


def qualified_name(text: str) -> str | None:
    """Check an attribute or capacity name: `name` or `domain/name`.

    `name` is a C identifier of at most 32 characters.
    """
    domain, slash, identifier = text.rpartition("/")
    if slash and (rule := dns_subdomain(domain, _DOMAIN_MAX)):
        return rule
    if len(identifier) > _ID_MAX or not _C_IDENTIFIER.fullmatch(identifier):
        return (
            f"{text!r} is not a qualified name: the part after '/' must be letters, digits and '_', "
            f"not starting with a digit, at most {_ID_MAX} characters"
        )
    return None


def label_key(text: str) -> str | None:
    """Check a label key, taint key or condition type.

    A key is a name of at most 63 characters with an optional prefix: a DNS subdomain followed by `/`.
    """
    prefix, slash, name = text.rpartition("/")
    if slash and (rule := dns_subdomain(prefix)):
        return rule
    if len(name) > DNS_LABEL_MAX or not _LABEL_NAME.fullmatch(name):
        return (
            f"{text!r} is not a label key: the name must be letters, digits, '-', '_' and '.', "
            f"starting and ending with a letter or digit, at most {DNS_LABEL_MAX} characters"
        )
    return None


def label_value(text: str) -> str | None:
    """Check a label or taint value. It may be empty, or have the syntax of the name in a label key."""
    if text and (len(text) > DNS_LABEL_MAX or not _LABEL_NAME.fullmatch(text)):
        return (
            f"{text!r} is not a label value: letters, digits, '-', '_' and '.', "
            f"starting and ending with a letter or digit, at most {DNS_LABEL_MAX} characters"
        )
    return None


def is_semver(text: str) -> bool:
    """Return whether the text is a semantic version (semver.org 2.0.0)."""
    return _SEMVER.fullmatch(text) is not None


def qualify(name: str, domain: str) -> str:
    """Return the name with its domain: `uuid` of driver `gpu.example.com` is `gpu.example.com/uuid`."""
    return name if "/" in name else f"{domain}/{name}"


def base_request(name: str) -> str:
    """Return the request to which a name in a result belongs: `gpu` for the subrequest `gpu/large`."""
    return name.partition("/")[0]
