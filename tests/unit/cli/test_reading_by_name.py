"""`get pod NAME` reads the object itself."""

from typing import cast

from dradriver.cli.get.pods import POD_LIST
from dradriver.cli.listing import Query
from dradriver.cli.listing.reading import read_documents, read_objects, select_rows
from dradriver.kube import PODS, Client, NotFound, Resource
from dradriver.testing.builders import pod


class OnlyGet:
    """The requests of a user who may get but not list pods, claims and slices."""

    namespace = "default"

    async def get(self, resource: Resource, name: str, namespace: str = "", *, into: type[object]) -> object:
        if name == "nothing":
            raise NotFound("no pod")
        assert (resource, namespace) == (PODS, "default")
        return b'{"metadata": {"name": "%s"}}' % name.encode() if into is bytes else pod("a", name=name)


async def test_the_permission_to_get_is_enough_for_objects_with_names() -> None:
    client = cast(Client, OnlyGet())
    query = Query(names=("pod-1", "nothing", "pod-1"), namespace=None)
    objects = await read_objects(client, POD_LIST, query)
    assert [row.names[0] for row in select_rows(POD_LIST, query, objects)] == ["pod-1"]
    (document,) = await read_documents(client, POD_LIST, query)
    assert document == {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "pod-1"}}
