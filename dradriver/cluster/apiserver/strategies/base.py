# ruff: noqa: ARG002 -- the methods of all strategies have the same parameters
"""What every kind's strategy is made of."""

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
    """What a strategy may know of the request and the server.

    Attributes:
        now: the time of the request, RFC 3339 in UTC, whole seconds.
        gates: the feature gates.
        user: who writes.
        verb: `create`, `update` or `patch`.
        namespace_labels: the labels of a namespace by name.
        cel_check: refuses CEL expressions, None to check their length only.
    """

    now: str
    gates: FeatureGates
    user: Identity
    verb: str
    namespace_labels: Callable[[str], dict[str, str]]
    cel_check: CelCheck | None


class Strategy:
    """The behaviour of kinds that have nothing special.

    Objects that are passed for preparing may be changed; `old` never.
    """

    def check_name(self, name: str) -> list[str]:
        """What is wrong with an object's name."""
        return subdomain(name)

    def prepare_create(self, context: Context, obj: Object) -> None:
        """Set defaults and drop what a creator may not set."""

    def validate_create(self, context: Context, obj: Object) -> Causes:
        """What is wrong with a new object, besides its metadata."""
        return []

    def prepare_update(self, context: Context, obj: Object, old: Object) -> None:
        """Keep what an update may not touch; the status, for kinds that have the subresource."""

    def validate_update(self, context: Context, obj: Object, old: Object) -> Causes:
        """What is wrong with a changed object, besides its metadata."""
        return []

    def prepare_status(self, context: Context, obj: Object, old: Object) -> None:
        """Keep everything but the status."""
        keep(obj, old, "spec")
        keep_metadata(obj, old)

    def validate_status(self, context: Context, obj: Object, old: Object) -> Causes:
        """What is wrong with a changed status."""
        return []

    def grace(self, obj: Object, asked: int | None) -> int:
        """Seconds that an object stays after its deletion was asked for; 0 for at once."""
        return 0

    def warnings(self, obj: Object) -> list[str]:
        """What to warn the writer of."""
        return []


class PathNamed(Strategy):
    """For kinds whose names only have to fit into a URL."""

    def check_name(self, name: str) -> list[str]:
        """See `Strategy`."""
        return path_segment(name)


def keep(obj: Object, old: Object | None, *fields: str) -> None:
    """Put top-level fields back to what they were."""
    for field in fields:
        if old is not None and field in old:
            obj[field] = old[field]
        else:
            obj.pop(field, None)


def keep_metadata(obj: Object, old: Object) -> None:
    """Put back the metadata that a status write may not change."""
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
    """Set fields that are not set."""
    for key, value in values.items():
        if key not in obj:
            obj[key] = value


def text(obj: Object, field: str) -> str:
    """A string field, "" where it is missing."""
    value = obj.get(field, "")
    return value if isinstance(value, str) else ""
