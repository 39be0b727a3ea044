"""Answers reviews, with which a client queries its own permissions and identity. Stores nothing."""

from dradriver.cluster.apiserver.access.identity import Identity
from dradriver.cluster.apiserver.formats.values import Object, dig
from dradriver.cluster.apiserver.requests.decoding import read_options

_ACCESS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
_SELF = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
REVIEWS = {_ACCESS: "authorization.SelfSubjectAccessReview", _SELF: "authentication.SelfSubjectReview"}


def answer_review(path: str, user: Identity, body: bytes, content_type: str) -> Object:
    """Return the answer to a review.

    Raises:
        StatusError: 400 or 415 if the body can't be read.
    """
    review = read_options(body, content_type, REVIEWS[path])
    return _review_access(user, review) if path == _ACCESS else _review_self(user)


def _review_access(user: Identity, review: Object) -> Object:
    attributes = dig(review, "spec", "resourceAttributes") or {}
    reads = attributes.get("verb") in {"get", "list", "watch"}
    allowed = (
        user.is_admin or reads or not user.node or attributes.get("resource") not in {"nodes", "namespaces"}
    )
    kind = {"kind": "SelfSubjectAccessReview", "apiVersion": "authorization.k8s.io/v1", "metadata": {}}
    return {**kind, "spec": review.get("spec", {}), "status": {"allowed": allowed}}


def _review_self(user: Identity) -> Object:
    info: Object = {"username": user.name, "groups": list(user.groups)}
    if user.node and not user.is_node:
        info["extra"] = {"authentication.kubernetes.io/node-name": [user.node]}
    kind: Object = {"kind": "SelfSubjectReview", "apiVersion": "authentication.k8s.io/v1", "metadata": {}}
    return {**kind, "status": {"userInfo": info}}
