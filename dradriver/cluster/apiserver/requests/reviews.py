"""Reviews, with which a client asks for its own permissions and identity. Nothing is stored."""

from dradriver.cluster.apiserver.access.identity import Identity
from dradriver.cluster.apiserver.formats.values import Object, dig
from dradriver.cluster.apiserver.requests.decoding import read_options

_ACCESS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
_SELF = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
REVIEWS = {_ACCESS: "authorization.SelfSubjectAccessReview", _SELF: "authentication.SelfSubjectReview"}


def review(path: str, user: Identity, body: bytes, content_type: str) -> Object:
    """Return the answer to a review.

    Raises:
        StatusError: 400 or 415 for a body that can't be read.
    """
    asked = read_options(body, content_type, REVIEWS[path])
    return _access(user, asked) if path == _ACCESS else _who(user)


def _access(user: Identity, asked: Object) -> Object:
    attributes = dig(asked, "spec", "resourceAttributes") or {}
    reads = attributes.get("verb") in {"get", "list", "watch"}
    allowed = (
        user.is_admin or reads or not user.node or attributes.get("resource") not in {"nodes", "namespaces"}
    )
    kind = {"kind": "SelfSubjectAccessReview", "apiVersion": "authorization.k8s.io/v1", "metadata": {}}
    return {**kind, "spec": asked.get("spec", {}), "status": {"allowed": allowed}}


def _who(user: Identity) -> Object:
    info: Object = {"username": user.name, "groups": list(user.groups)}
    if user.node and not user.is_node:
        info["extra"] = {"authentication.kubernetes.io/node-name": [user.node]}
    kind: Object = {"kind": "SelfSubjectReview", "apiVersion": "authentication.k8s.io/v1", "metadata": {}}
    return {**kind, "status": {"userInfo": info}}
