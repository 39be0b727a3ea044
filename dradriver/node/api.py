"""The part of the Kubernetes client that the node side uses, as protocols that a fake can implement."""

from typing import Protocol, TypeVar

from dradriver.kube.client import Listing, PatchKind
from dradriver.kube.resources import Resource

__all__ = ["Api", "Getter"]

T = TypeVar("T")


class Getter(Protocol):
    """The part of the Kubernetes client that gets one object."""

    async def get(self, resource: Resource, name: str, namespace: str = "", *, into: type[T]) -> T:
        """Return one object, or raise `NotFound` or another `ApiError`."""
        ...


class Api(Getter, Protocol):
    """Gets, lists and patches objects; see `dradriver.kube.Client`."""

    async def list(
        self, resource: Resource, namespace: str = "", *, into: type[T], fields: str = ""
    ) -> Listing[T]:
        """Return the objects of a collection that match a field selector."""
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
        """Change parts of an object."""
        ...
