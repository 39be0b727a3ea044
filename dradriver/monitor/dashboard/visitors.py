"""Asks the API server who a visitor is, and what the visitor may list."""

import asyncio
import hashlib
import time
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from dradriver.errors import DraError
from dradriver.kube import CLAIMS, NODES, PODS, SLICES, Client, Resource
from dradriver.model.encoding.codec import Value
from dradriver.monitor.dashboard.visibility import EVERYTHING, Visibility

__all__ = ["KubeVisitors", "NotAllowedError", "NotAuthenticatedError", "OwnRights", "Visitors"]

_TOKEN_REVIEWS: Final = Resource("authentication.k8s.io", "v1", "tokenreviews", "TokenReview", namespaced=False)
_ACCESS_REVIEWS: Final = Resource(
    "authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview", namespaced=False
)
_KEPT_SECONDS: Final = 30.0
"""How long an answer about a visitor is used."""
_MAX_VISITORS: Final = 1000
_MAX_REVIEWS: Final = 8
"""Reviews of rights at the same time."""


class NotAuthenticatedError(DraError):
    """A visitor has no valid token."""


class NotAllowedError(DraError):
    """A visitor may not list ResourceSlices."""


class Visitors(Protocol):
    """Decides what a visitor may see."""

    async def check(self, token: str, namespaces: Iterable[str]) -> Visibility:
        """Return what a visitor may see.

        Args:
            token: the visitor's bearer token; empty: none.
            namespaces: the namespaces that can be asked about.

        Raises:
            NotAuthenticatedError: the token is missing or not valid.
            NotAllowedError: the visitor may see nothing.
            DraError: the API server does not answer.
        """


class OwnRights:
    """Visitors see what the process sees: for a server on loopback with the user's kubeconfig."""

    async def check(self, token: str, namespaces: Iterable[str]) -> Visibility:  # noqa: ARG002 - a `Visitors`
        """Return that everything is shown.

        Args:
            token: is ignored.
            namespaces: are ignored.
        """
        return EVERYTHING


class _User(Value, frozen=True, kw_only=True):
    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = {}


class _TokenStatus(Value, frozen=True, kw_only=True):
    authenticated: bool = False
    user: _User = _User()


class _TokenReview(Value, frozen=True, kw_only=True):
    status: _TokenStatus = _TokenStatus()


class _AccessStatus(Value, frozen=True, kw_only=True):
    allowed: bool = False


class _AccessReview(Value, frozen=True, kw_only=True):
    status: _AccessStatus = _AccessStatus()


@dataclass(frozen=True, slots=True)
class _Answer:
    visible: Visibility
    asked: frozenset[str]
    until: float


class KubeVisitors:
    """Visitors have their own rights: the API server checks their tokens (TokenReview, SubjectAccessReview)."""

    def __init__(self, client: Client) -> None:
        """Remember no visitor yet.

        Args:
            client: the API server. Its user needs the permission to create both kinds of reviews.
        """
        self._client = client
        self._answers: OrderedDict[bytes, _Answer] = OrderedDict()
        self._reviews = asyncio.Semaphore(_MAX_REVIEWS)

    async def check(self, token: str, namespaces: Iterable[str]) -> Visibility:
        """Return what a visitor may see; an answer is used for 30 s.

        Args:
            token: the visitor's bearer token; empty: none.
            namespaces: the namespaces that can be asked about.

        Raises:
            NotAuthenticatedError: the token is missing or not valid.
            NotAllowedError: the visitor may not list ResourceSlices.
            DraError: the API server does not answer.
        """
        if not token:
            raise NotAuthenticatedError("a bearer token is required")
        wanted = frozenset(namespaces)
        key = hashlib.sha256(token.encode()).digest()
        answer = self._answers.get(key)
        if answer is not None and answer.until > time.monotonic() and wanted <= answer.asked:
            return answer.visible
        self._answers.pop(key, None)
        visible = await self._review(token, wanted)
        self._answers[key] = _Answer(visible, wanted, time.monotonic() + _KEPT_SECONDS)
        while len(self._answers) > _MAX_VISITORS:
            self._answers.popitem(last=False)
        return visible

    async def _review(self, token: str, namespaces: frozenset[str]) -> Visibility:
        body = {"spec": {"token": token}}
        review = await self._client.create(_TOKEN_REVIEWS, body, into=_TokenReview)
        if not review.status.authenticated:
            raise NotAuthenticatedError("the bearer token is not valid")
        user = review.status.user
        slices, nodes = await asyncio.gather(self._allows(user, SLICES), self._allows(user, NODES))
        if not slices:
            raise NotAllowedError(f"{user.username} may not list resourceslices.resource.k8s.io")
        claims, pods = await asyncio.gather(
            self._namespaces(user, CLAIMS, namespaces), self._namespaces(user, PODS, namespaces)
        )
        return Visibility(claims, pods, nodes)

    async def _namespaces(
        self, user: _User, resource: Resource, namespaces: frozenset[str]
    ) -> frozenset[str] | None:
        if await self._allows(user, resource):
            return None
        ordered = sorted(namespaces)
        allowed = await asyncio.gather(*(self._allows(user, resource, each) for each in ordered))
        return frozenset(name for name, is_allowed in zip(ordered, allowed, strict=True) if is_allowed)

    async def _allows(self, user: _User, resource: Resource, namespace: str = "") -> bool:
        attributes = {"verb": "list", "group": resource.group, "resource": resource.plural}
        if namespace:
            attributes["namespace"] = namespace
        spec = {
            "user": user.username,
            "uid": user.uid,
            "groups": list(user.groups),
            "extra": {name: list(values) for name, values in user.extra.items()},
            "resourceAttributes": attributes,
        }
        async with self._reviews:
            review = await self._client.create(_ACCESS_REVIEWS, {"spec": spec}, into=_AccessReview)
        return review.status.allowed
