"""Commands read the objects that the user may list, and report the missing kinds."""

from typing import cast

import pytest

from dradriver.cli.world import list_world
from dradriver.kube import NODES, SLICES, TAINT_RULES, Client, Forbidden, NotFound, Resource


class Limited:
    """A client that may not, or can't, list some resources."""

    namespace = "team"

    def __init__(self, *forbidden: Resource) -> None:
        self._forbidden = forbidden

    async def list(self, resource: Resource, namespace: str = "", **_: object) -> object:
        if resource == TAINT_RULES:
            raise NotFound("the server could not find the requested resource")
        if resource in self._forbidden:
            raise Forbidden(f"{resource.plural} is forbidden")
        return self

    items: tuple[()] = ()
    unreadable: dict[str, str] = {}


async def test_a_user_without_permission_for_nodes_gets_a_warning_and_the_other_objects(
    capsys: pytest.CaptureFixture[str],
) -> None:
    world = await list_world(cast(Client, Limited(NODES)))
    assert (world.nodes, world.namespace) == ({}, "team")
    assert capsys.readouterr().err == "Warning: nodes is forbidden\n"


async def test_slices_are_required() -> None:
    with pytest.raises(Forbidden):
        await list_world(cast(Client, Limited(SLICES)))
