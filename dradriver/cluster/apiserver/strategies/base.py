# ruff: noqa: ARG002 -- the methods of all strategies have the same parameters
"""The base class of strategies, and helper functions for them."""

from collections.abc import Callable
from dataclasses import dataclass

from dradriver.cluster.apiserver.access.identity import Identity
from dradriver.cluster.apiserver.formats.values import Object
from dradriver.cluster.apiserver.kinds.gates import FeatureGates
from dradriver.cluster.apiserver.validation.devices import CelCheck
from dradriver.cluster.apiserver.validation.field import Causes
from dradriver.cluster.apiserver.validation.metadata import path_segment
from dradriver.cluster.apiserver.validation.names import subdomain


@dataclass(frozen=True, slots=True)
class Context:
    """The request and the server, as far as a strategy sees them.

    Attributes:
        now: the time of the request, RFC 3339 in UTC, whole seconds.
        gates: the feature gates.
        user: the writer.
        verb: `create`, `update` or `patch`.
        namespace_labels: returns the labels of a namespace by name.
        cel_check: rejects CEL expressions; None checks their length only.
    """

    now: str
    gates: FeatureGates
    user: Identity
    verb: str
    namespace_labels: Callable[[str], dict[str, str]]
    cel_check: CelCheck | None


class Strategy:
    """The behavior of kinds without special rules.

    A method that prepares may change `obj`, but never `old`.
    """

    def check_name(self, name: str) -> list[str]:
        """Check an object's name."""
        return subdomain(name)

    def prepare_create(self, context: Context, obj: Object) -> None:
        """Set defaults and drop fields that a creator may not set."""

    def validate_create(self, context: Context, obj: Object) -> Causes:
        """Check a new object, besides its metadata."""
        return []

    def prepare_update(self, context: Context, obj: Object, old: Object) -> None:
        """Restore fields that an update may not change, such as the status of kinds with that subresource."""

    def validate_update(self, context: Context, obj: Object, old: Object) -> Causes:
        """Check a changed object, besides its metadata."""
        return []

    def prepare_status(self, context: Context, obj: Object, old: Object) -> None:
        """Restore everything but the status."""
        keep(obj, old, "spec")
        keep_metadata(obj, old)

    def validate_status(self, context: Context, obj: Object, old: Object) -> Causes:
        """Check a changed status."""
        return []

    def grace(self, obj: Object, asked: int | None) -> int:
        """Return the seconds between the request to delete an object and its removal; 0 for at once."""
        return 0

    def warnings(self, obj: Object) -> list[str]:
        """Return warnings for the writer."""
        return []


class PathNamed(Strategy):
    """Strategy of kinds whose names only have to fit into a URL."""

    def check_name(self, name: str) -> list[str]:
        """See `Strategy`."""
        return path_segment(name)


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


def default(obj: Object, values: Object) -> None:
    """Set fields that are unset."""
    for key, value in values.items():
        if key not in obj:
            obj[key] = value


def text(obj: Object, field: str) -> str:
    """Return a string field, "" where it is missing."""
    value = obj.get(field, "")
    return value if isinstance(value, str) else ""
