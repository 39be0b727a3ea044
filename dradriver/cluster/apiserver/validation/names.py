"""The kinds of names in Kubernetes: the allowed characters of each, and the messages for invalid names."""

import re
from collections.abc import Callable
from dataclasses import replace

from dradriver.cluster.apiserver.validation.field import Causes, invalid, required, too_long

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_QUALIFIED = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_IDENTIFIER = "[A-Za-z_][A-Za-z0-9_]*"
_LABEL_VALUE = "(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?"
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")

LABEL_MESSAGE = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or "
    "'-', and must start and end with "
    f"an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '{_LABEL}')"
)
SUBDOMAIN_MESSAGE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, "
    "'-' or '.', and must start and "
    f"end with an alphanumeric character (e.g. 'example.com', regex used for validation is '{_SUBDOMAIN}')"
)
QUALIFIED_MESSAGE = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start "
    "and end with an alphanumeric "
    f"character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '{_QUALIFIED}')"
)
LABEL_VALUE_MESSAGE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', "
    "'_' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', "
    "regex used for validation is "
    f"'{_LABEL_VALUE}')"
)
ANY_CASE_MESSAGE = (
    "an RFC 1123 subdomain must consist of alphanumeric characters, '-' or '.', and must start and end with "
    f"an alphanumeric character (e.g. 'Example.com', regex used for validation is '{_SUBDOMAIN}')"
)
IDENTIFIER_MESSAGE = (
    "a valid C identifier must start with alphabetic character or '_', followed by a "
    "string of alphanumeric characters "
    f"or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName', regex used for validation is '{_IDENTIFIER}')"
)

Check = Callable[[str], list[str]]


def _matches(pattern: str, value: str) -> bool:
    return re.fullmatch(pattern, value) is not None


def check_label(value: str) -> list[str]:
    """Check a DNS label."""
    problems = ["must be no more than 63 bytes"] if len(value) > 63 else []
    if _matches(_LABEL, value):
        return problems
    return [*problems, "must not contain dots" if _matches(_SUBDOMAIN, value) else LABEL_MESSAGE]


def check_subdomain(value: str) -> list[str]:
    """Check a DNS subdomain."""
    problems = ["must be no more than 253 bytes"] if len(value) > 253 else []
    return problems if _matches(_SUBDOMAIN, value) else [*problems, SUBDOMAIN_MESSAGE]


def check_qualified(value: str) -> list[str]:
    """Check a label key: an optional domain, a slash, a name."""
    prefix, slash, name = value.rpartition("/")
    if "/" in prefix:
        return [
            f"a valid label key {QUALIFIED_MESSAGE.removeprefix('name part ')} with an "
            "optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        ]
    problems: list[str] = []
    if slash:
        problems = (
            [f"prefix part {problem}" for problem in check_subdomain(prefix)]
            if prefix
            else ["prefix part must be non-empty"]
        )
    if not name:
        problems.append("name part must be non-empty")
    elif len(name) > 63:
        problems.append("name part must be no more than 63 bytes")
    return problems if _matches(_QUALIFIED, name) else [*problems, QUALIFIED_MESSAGE]


def check_label_value(value: str) -> list[str]:
    """Check a label's value."""
    problems = ["must be no more than 63 bytes"] if len(value) > 63 else []
    return problems if _matches(_LABEL_VALUE, value) else [*problems, LABEL_VALUE_MESSAGE]


def to_causes(check: Check, value: str, path: str) -> Causes:
    """Return the problems that a check finds, as causes at a path."""
    return [invalid(path, value, problem) for problem in check(value)]


def check_dns_label(value: str, path: str) -> Causes:
    """Check the name of a device, counter set or request, which must be a DNS label."""
    return to_causes(check_label, value, path)


def check_required_label(value: str, path: str) -> Causes:
    """Check a required DNS label."""
    return check_dns_label(value, path) if value else [required(path)]


def check_label_name(value: str, path: str) -> Causes:
    """Check a taint key or the name of a condition, which must have the form of a label key."""
    return to_causes(check_qualified, value, path)


def check_driver_name(value: str, path: str) -> Causes:
    """Check a driver's name: a DNS subdomain of at most 63 bytes. Upper case is accepted."""
    if not value:
        return [required(path)]
    causes = [too_long(path, 63)] if len(value) > 63 else []
    return causes + [invalid(path, value, problem) for problem in check_subdomain(value.lower())]


def check_driver_of_claim(value: str, path: str) -> Causes:
    """Check a driver's name, with the messages for claims and classes."""
    causes = check_driver_name(value, path)
    message = f": {SUBDOMAIN_MESSAGE}"
    return [replace(each, message=each.message.replace(message, f": {ANY_CASE_MESSAGE}")) for each in causes]


def check_pool_of_result(value: str, path: str) -> Causes:
    """Check a pool's name, with the messages for allocation results."""
    if not value:
        return [required(path)]
    causes = [too_long(path, 253)] if len(value) > 253 else []
    for index, part in enumerate(value.split("/")):
        if not part:
            causes.append(invalid(path, value, f"segment {index}: must not be empty"))
            continue
        causes += [invalid(path, part, f"segment {index}: {problem}") for problem in check_subdomain(part)]
    return causes


def check_pool_name(value: str, path: str) -> Causes:
    """Check a pool's name: DNS subdomains separated by slashes, at most 253 bytes."""
    if not value:
        return [required(path)]
    causes = [too_long(path, 253)] if len(value) > 253 else []
    return causes + [cause for part in value.split("/") for cause in to_causes(check_subdomain, part, path)]


def check_identifier(value: str, path: str) -> Causes:
    """Check a C identifier of at most 32 bytes."""
    causes = [too_long(path, 32)] if len(value) > 32 else []
    return causes if _matches(_IDENTIFIER, value) else [*causes, invalid(path, value, IDENTIFIER_MESSAGE)]


def check_qualified_name(value: str, path: str) -> Causes:
    """Check the name of an attribute or capacity: an optional domain, a slash, a C identifier."""
    parts = value.split("/")
    if len(parts) == 1:
        return check_identifier(value, path)
    if len(parts) > 2:
        return []  # the real server does not reject it either
    domain = (
        check_driver_name(parts[0], path) if parts[0] else [invalid(path, "", "the domain must not be empty")]
    )
    name = check_identifier(parts[1], path) if parts[1] else [invalid(path, "", "the name must not be empty")]
    return domain + name


def check_fully_qualified_name(value: str, path: str) -> Causes:
    """Check a qualified name whose domain is required. The messages differ from `check_qualified_name`."""
    domain, slash, name = value.partition("/")
    if not slash:
        detail = "a fully qualified name must be a domain and a name separated by a slash"
        return [*check_identifier(value, path), invalid(path, value, detail)]
    if "/" in name:
        return []  # the real server does not reject it either
    causes = [too_long(path, 63)] if len(domain) > 63 else []
    if domain:
        causes += [invalid(path, domain, f"prefix: {problem}") for problem in check_subdomain(domain)]
    else:
        causes.append(invalid(path, "", "prefix must not be empty"))
    return causes + (check_identifier(name, path) if name else [invalid(path, "", "name must not be empty")])


def check_uuid(value: str, path: str) -> Causes:
    """Check a UUID in lower case with dashes."""
    if _UUID.fullmatch(value):
        return []
    return [invalid(path, value, "must be a lowercase UUID in 8-4-4-4-12 format")]


def check_extended_resource_name(value: str, path: str) -> Causes:
    """Check the name of an extended resource, which must also fit into quotas.

    The name must have a domain that is not Kubernetes' own, a slash, and a name.
    """
    problems = []
    if "/" not in value:
        problems.append("a name must be a domain-prefixed path, such as 'example.com/my-prop'")
    elif "kubernetes.io/" in value:
        problems.append('must not have "kubernetes.io/" domain')
    if value.startswith("requests."):
        problems.append('must not have "requests." prefix')
    problems += check_qualified(f"requests.{value}")
    return [invalid(path, value, problem) for problem in problems]
