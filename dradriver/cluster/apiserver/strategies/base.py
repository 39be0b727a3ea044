# ruff: noqa: ARG002 -- the methods of all strategies have the same parameters
"""The base class of strategies, and helper functions for them."""

from collections.abc import Callable
from dataclasses import dataclass

from dradriver.cluster.apiserver.access.identity import Identity
from dradriver.cluster.apiserver.formats.values import Object
from dradriver.cluster.apiserver.kinds.gates import FeatureGates
from dradriver.cluster.apiserver.validation.devices import CelCheck
from dradriver.cluster.apiserver.validation.field import Causes
from dradriver.cluster.apiserver.validation.metadata import check_path_segment
from dradriver.cluster.apiserver.validation.names import check_subdomain


@dataclass(frozen=True, slots=True)
class Context:
    """The data of the request and the server that strategies need.

    Attributes:
        now: the time of the request, in RFC 3339 form, in UTC, without fractions of seconds.
        gates: the feature gates.
        user: the user who writes.
        verb: `create`, `update` or `patch`.
        namespace_labels: returns the labels of the namespace with a given name.
        cel_check: returns why a CEL expression is invalid; None: only the length of expressions is checked.
    """

    now: str
    gates: FeatureGates
    user: Identity
    verb: str
    namespace_labels: Callable[[str], dict[str, str]]
    cel_check: CelCheck | None


class Strategy:
    """The behavior of kinds without special rules.

    In all methods, `obj` is the object to write (a fresh copy) and `old` the stored object. A method whose name
    begins with `prepare` may change `obj`, but must never change `old`. Source: `RESTCreateStrategy` and
    `RESTUpdateStrategy` of k8s.io/apiserver.
    """

    def check_name(self, name: str) -> list[str]:
        """Check an object's name.

        Args:
            name: `metadata.name`, not empty.

        Returns:
            A message for each broken rule.
        """
        return check_subdomain(name)

    def prepare(self, context: Context, obj: Object, old: Object | None) -> None:
        """Set defaults, and restore or drop fields that the writer may not set, such as the status.

        Args:
            context: the request.
            obj: the new version, which is changed in place.
            old: the stored object; None for a create.
        """

    def validate(self, context: Context, obj: Object, old: Object | None) -> Causes:
        """Check an object, except its metadata.

        Args:
            context: the request.
            obj: the prepared new version.
            old: the stored object; None for a create.

        Returns:
            A cause for each broken rule.
        """
        return []

    def prepare_status(self, context: Context, obj: Object, old: Object) -> None:
        """Restore all fields except the status.

        Args:
            context: the request.
            obj: the new version, which is changed in place.
            old: the stored object.
        """
        keep(obj, old, "spec")
        keep_metadata(obj, old)

    def validate_status(self, context: Context, obj: Object, old: Object) -> Causes:
        """Check a changed status.

        Args:
            context: the request.
            obj: the prepared new version.
            old: the stored object.

        Returns:
            A cause for each broken rule.
        """
        return []

    def grace(self, obj: Object, requested: int | None) -> int:
        """Return the seconds between the request to delete an object and its removal; 0: it is removed at once.

        Args:
            obj: the object.
            requested: `gracePeriodSeconds` of the request; None if the request has none.
        """
        return 0

    def warnings(self, obj: Object) -> list[str]:
        """Return warnings for the writer.

        Args:
            obj: the written object.
        """
        return []


class PathNamed(Strategy):
    """Strategy of kinds whose names may be anything that fits into a URL."""

    def check_name(self, name: str) -> list[str]:
        """See `Strategy`."""
        return check_path_segment(name)


def keep(obj: Object, old: Object | None, *fields: str) -> None:
    """Restore top-level fields to their old values."""
    for field in fields:
        if old is not None and field in old:
            obj[field] = old[field]
        else:
            obj.pop(field, None)


def keep_metadata(obj: Object, old: Object) -> None:
    """Restore the metadata that a status write may not change."""
    metadata, before = obj["metadata"], old["metadata"]
    keep(
        metadata,
        before,
        "labels",
        "annotations",
        "finalizers",
        "ownerReferences",
        "generation",
        "deletionTimestamp",
    )


def set_defaults(obj: Object, values: Object) -> None:
    """Set the fields in `values` that are unset in `obj`."""
    for key, value in values.items():
        if key not in obj:
            obj[key] = value


def read_text(obj: Object, field: str) -> str:
    """Return a string field; "" if it is missing."""
    value = obj.get(field, "")
    return value if isinstance(value, str) else ""
