"""An index finds the objects of a cache by values, as client-go's `Indexer`."""

from typing import Any, cast

import pytest
from msgspec.structs import replace

from dradriver.control.runtime.caches import Caches, Index
from dradriver.kube import Client
from dradriver.model.core.workload import Pod
from dradriver.testing import builders


class Pods:
    """A cache of pods, and an index of their labels."""

    def __init__(self) -> None:
        self.cache = Caches(cast(Client, None)).pods
        self.index: Index[Pod] = Index(self.cache, lambda pod: pod.metadata.labels.values())
        self._version = 0

    def put(self, name: str, *values: str) -> None:
        """Create or change a pod with these values of labels."""
        self._version += 1
        pod: Any = builders.pod(name=name)
        labels = {f"label-{number}": value for number, value in enumerate(values)}
        meta = replace(pod.metadata, labels=labels, resource_version=str(self._version), uid=name)
        self.cache.apply_written(replace(pod, metadata=meta))

    def remove(self, name: str) -> None:
        """Delete a pod."""
        self.cache.apply_deleted(self.cache.items[f"default/{name}"])

    def find(self, value: str) -> list[str]:
        """Return the names of the pods with a value."""
        return [pod.metadata.name for pod in self.index.find(value)]


@pytest.fixture
def pods() -> Pods:
    return Pods()


def test_one_object_is_found_until_it_is_deleted(pods: Pods) -> None:
    pods.put("a", "red")
    assert pods.find("red") == ["a"]
    assert pods.index.counts() == {"red": 1}
    pods.remove("a")
    assert pods.find("red") == []
    assert pods.index.counts() == {}


def test_objects_with_one_value_are_found_together(pods: Pods) -> None:
    for name in "abc":
        pods.put(name, "red")
    pods.remove("a")
    assert pods.find("red") == ["b", "c"]
    pods.remove("c")
    pods.remove("b")
    assert pods.index.counts() == {}


def test_a_changed_object_is_found_once_by_its_new_values(pods: Pods) -> None:
    pods.put("a", "red", "green")
    pods.put("a", "green", "blue")
    assert pods.index.counts() == {"green": 1, "blue": 1}
    assert pods.index.find("green") == (pods.cache.items["default/a"],)


def test_an_object_with_one_value_twice_is_found_once(pods: Pods) -> None:
    pods.put("a", "red", "red")
    assert pods.find("red") == ["a"]
    pods.put("a")
    assert pods.index.counts() == {}
