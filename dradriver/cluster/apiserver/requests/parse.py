"""Parses a request: verb, resource, user and options.

`parse_target` is pure. It converts a method and a path to a `Target`, as the real server's request info
resolver does.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from dradriver.cluster.apiserver.access.identity import Identity
from dradriver.cluster.apiserver.kinds.resources import Registry, ServedResource
from dradriver.cluster.apiserver.status import (
    Cause,
    StatusError,
    Subject,
    bad_request,
    invalid,
    method_not_allowed,
    no_such_path,
)
from dradriver.cluster.apiserver.validation.field import invalid as field_error
from dradriver.cluster.apiserver.validation.field import not_supported, too_long

_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete", "GET": "get", "HEAD": "get"}
_CLUSTER_SUBRESOURCES = frozenset({"status", "finalize"})
_MIN_PARTS = {"api": 3, "apis": 4}
_CREATED = frozenset({"binding", "token"})
_MAX_MANAGER_BYTES = 128
_NUMBER = re.compile("[+-]?[0-9]+")
_MAX_DIGITS, _INT64 = 100, 1 << 63
FIELD_VALIDATIONS = ("Ignore", "Strict", "Warn")


@dataclass(frozen=True, slots=True)
class Target:
    """The meaning of a path and method."""

    verb: str
    resource: ServedResource
    namespace: str = ""
    name: str = ""
    subresource: str = ""

    @property
    def resource_path(self) -> str:
        """The name of the resource in rules and faults, such as `resourceclaims/status`."""
        return f"{self.resource.plural}/{self.subresource}" if self.subresource else self.resource.plural


@dataclass(frozen=True, slots=True)
class ApiRequest:
    """One authenticated request on a resource."""

    target: Target
    query: Mapping[str, str]
    user: Identity
    body: bytes = b""
    content_type: str = "application/json"
    accept: str = "application/json"
    user_agent: str = ""

    def read_flag(self, name: str) -> bool:
        """Return a boolean query parameter."""
        return self.query.get(name, "").lower() in {"1", "true"}

    def read_number(self, name: str) -> int:
        """Return a whole number in the query; 0 if the parameter is missing.

        Raises:
            StatusError: 400 if the text is not a number.
        """
        text = self.query.get(name) or "0"
        if not _NUMBER.fullmatch(text):
            raise bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax')
        if len(text) > _MAX_DIGITS or not -_INT64 <= int(text) < _INT64:
            raise bad_request(f'strconv.ParseInt: parsing "{text}": value out of range')
        return int(text)

    @property
    def dry_run(self) -> bool:
        """Whether the request is a dry run, which must not store anything."""
        value = self.query.get("dryRun", "")
        if value not in {"", "All"}:
            raise self._option_error(not_supported("dryRun", [value], ("All",)))
        return bool(value)

    @property
    def field_validation(self) -> str:
        """The treatment of unknown fields."""
        value = self.query.get("fieldValidation") or "Warn"
        if value not in FIELD_VALIDATIONS:
            raise self._option_error(not_supported("fieldValidation", value, ("", *FIELD_VALIDATIONS)))
        return value

    def _option_error(self, cause: Cause) -> StatusError:
        return invalid(Subject("meta.k8s.io", f"{self.target.verb.capitalize()}Options"), [cause])

    @property
    def manager(self) -> str:
        """The name that is recorded as the owner of the written fields."""
        named = self.query.get("fieldManager", "")
        if len(named.encode()) > _MAX_MANAGER_BYTES:
            raise self._option_error(too_long("fieldManager", _MAX_MANAGER_BYTES))
        for position, character in enumerate(named):
            if not character.isprintable():
                reason = f"invalid character U+{ord(character):04X} (at position {position})"
                raise self._option_error(field_error("fieldManager", named, reason))
        client = "".join(filter(str.isprintable, self.user_agent.partition("/")[0]))
        return named or client.encode()[:_MAX_MANAGER_BYTES].decode(errors="ignore") or "unknown"


def parse_target(method: str, path: str, watch: bool, registry: Registry) -> Target:  # noqa: FBT001 -- the query decides it
    """Return the target of a path below /api or /apis.

    Raises:
        StatusError: 404 if the path is not served; 405 if the path does not support the method.
    """
    parts = [part for part in path.split("/") if part]
    if len(parts) < _MIN_PARTS[parts[0]]:
        raise no_such_path()
    group, version, rest = ("", parts[1], parts[2:]) if parts[0] == "api" else (parts[1], parts[2], parts[3:])
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2 and rest[2] not in _CLUSTER_SUBRESOURCES:
        namespace, rest = rest[1], rest[2:]
    plural, name, subresource = (*rest, "", "")[:3]
    if plural == "bindings" and method == "POST":
        plural, subresource = "pods", "binding"
    resource = registry.find(group, version, plural)
    if resource is None or len(rest) > 3 or (namespace and not resource.namespaced):
        raise no_such_path()
    if subresource and subresource not in resource.subresources:
        raise no_such_path()
    if resource.namespaced and name and not namespace:
        raise no_such_path()
    return Target(_parse_verb(method, name, subresource, watch=watch), resource, namespace, name, subresource)


def _parse_verb(method: str, name: str, subresource: str, *, watch: bool) -> str:
    verb = _VERBS.get(method)
    if verb is None:
        raise method_not_allowed()
    if verb == "get" and not name:
        return "watch" if watch else "list"
    if verb == "delete" and not name:
        return "deletecollection"
    creates = verb == "create"
    wrong = creates and bool(name) and subresource not in _CREATED
    wrong = wrong or (verb in {"update", "patch"} and not name)
    wrong = wrong or (subresource != "" and (verb == "delete" or (subresource in _CREATED and not creates)))
    if wrong:
        raise method_not_allowed()
    return verb
