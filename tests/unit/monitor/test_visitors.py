"""The rights of the dashboard's visitors, as the API server reviews them."""

from typing import Any, cast

import pytest

from dradriver.kube import Client, Resource
from dradriver.model.encoding.codec import from_builtins
from dradriver.monitor.dashboard import KubeVisitors
from dradriver.monitor.dashboard.visibility import EVERYTHING, Visibility
from dradriver.monitor.dashboard.visitors import NotAllowedError, NotAuthenticatedError

RIGHTS = {
    "admin": {("resourceslices", ""), ("nodes", ""), ("resourceclaims", ""), ("pods", "")},
    "member": {("resourceslices", ""), ("resourceclaims", "team"), ("pods", "team")},
    "stranger": {("pods", "")},
}


class Reviews:
    """An API server that knows users by tokens of the same name, and counts its answers."""

    def __init__(self) -> None:
        self.count = 0

    async def create(self, resource: Resource, body: dict[str, Any], *, into: type[Any]) -> Any:
        self.count += 1
        spec = body["spec"]
        if resource.kind == "TokenReview":
            user = {"username": spec["token"], "groups": ["people"], "extra": {"scopes": ["a"]}}
            status = {"authenticated": spec["token"] in RIGHTS, "user": user}
            return from_builtins(into, {"status": status})
        assert (spec["groups"], spec["extra"]) == (["people"], {"scopes": ["a"]})
        asked = spec["resourceAttributes"]
        allowed = (asked["resource"], asked.get("namespace", "")) in RIGHTS[spec["user"]]
        return from_builtins(into, {"status": {"allowed": allowed}})


def visitors(reviews: Reviews) -> KubeVisitors:
    return KubeVisitors(cast(Client, reviews))


async def test_a_visitor_with_rights_in_the_whole_cluster_sees_everything() -> None:
    assert await visitors(Reviews()).check("admin", ["team", "other"]) == EVERYTHING


async def test_a_visitor_with_rights_in_a_namespace_sees_its_names_alone() -> None:
    team = frozenset({"team"})
    assert await visitors(Reviews()).check("member", ["team", "other"]) == Visibility(team, team, nodes=False)


@pytest.mark.parametrize(("token", "error"), [("", NotAuthenticatedError), ("x", NotAuthenticatedError)])
async def test_a_visitor_without_a_valid_token_is_rejected(token: str, error: type[Exception]) -> None:
    with pytest.raises(error, match="bearer token"):
        await visitors(Reviews()).check(token, [])


async def test_a_visitor_who_may_not_list_slices_is_rejected() -> None:
    with pytest.raises(NotAllowedError, match="stranger may not list resourceslices"):
        await visitors(Reviews()).check("stranger", [])


async def test_an_answer_is_used_again_until_a_new_namespace_appears() -> None:
    reviews = Reviews()
    known = visitors(reviews)
    await known.check("member", ["team"])
    before = reviews.count
    await known.check("member", ["team"])
    assert reviews.count == before
    await known.check("member", ["team", "new"])
    assert reviews.count > before
