"""The part of the Kubernetes client that the node side uses; a fake needs no more."""

from typing import Protocol, TypeVar

from dradriver.kube.client import Listing, PatchKind
from dradriver.kube.resources import Resource

__all__ = ["Api", "Getter"]

T = TypeVar("T")


class Getter(Protocol):
    """The part of the Kubernetes client that looks one object up."""

    async def get(self, resource: Resource, name: str, namespace: str = "", *, into: type[T]) -> T:
        """One object; raises `NotFound` or another `ApiError`."""
        ...


class Api(Getter, Protocol):
    """Looks objects up, lists them, and patches them; see `dradriver.kube.Client`."""

    async def list(
        self, resource: Resource, namespace: str = "", *, into: type[T], fields: str = ""
    ) -> Listing[T]:
        """The objects of a collection that a field selector selects."""
        ...

    async def patch(  # noqa: PLR0913 - as the client has it
        self,
        resource: Resource,
        name: str,
        namespace: str,
        body: object,
        kind: PatchKind,
        *,
        into: type[T],
        subresource: str = "",
        field_manager: str = "",
        force: bool = False,
    ) -> T:
        """Changes parts of an object."""
        ...
