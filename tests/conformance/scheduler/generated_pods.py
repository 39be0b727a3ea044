"""Random pods with extended resources: init containers, sidecars, several resources and names.

Each fits into one claim; other properties are as unusual as the API server allows.
"""

import random
from collections.abc import Iterator, Mapping
from typing import Any, Final

from dradriver.control.extended import ClassesByResource, new_special_claim, split_resources
from dradriver.control.extended.requests import requested_amounts
from dradriver.model.core.meta import ObjectMeta
from dradriver.model.core.workload import Node, Pod
from dradriver.model.encoding.codec import builtins, from_builtins
from dradriver.model.resource.claim import DeviceRequest
from dradriver.model.resource.deviceclass import DeviceClass, DeviceClassSpec

Json = dict[str, Any]

CLASSES: Final[Mapping[str, str | None]] = {
    "gpu.example.com": "example.com/gpu",
    "nic.example.com": "net.example.com/nic",
    "plain": None,
}
"""Classes, with the extended resource that each names."""
PLUGIN: Final = "example.com/by-plugin"
"""A resource that the node's device plugin serves."""
_IMPLICIT: Final = "deviceclass.resource.kubernetes.io/"
_NAMES: Final = (
    "example.com/gpu",
    "net.example.com/nic",
    *(_IMPLICIT + name for name in CLASSES),
    PLUGIN,
)
_NATIVE: Final = {"cpu": "1m", "memory": "1Mi", "ephemeral-storage": "1Mi"}
_MOST_DEVICES: Final = 32


def generated(seed: int, count: int) -> Iterator[Json]:
    """Yield this number of pods; the same seed gives the same pods."""
    chance = random.Random(seed)
    made = 0
    while made < count:
        pod = _pod(chance, f"pod-{made}")
        wanted = sum(amount for _, amount in _asked(pod))
        if 0 < wanted <= _MOST_DEVICES:
            yield pod
            made += 1


def _asked(pod: Json) -> Iterator[tuple[str, int]]:
    for field in ("containers", "initContainers"):
        for container in pod["spec"].get(field, ()):
            for name, amount in container["resources"]["requests"].items():
                if name not in {*_NATIVE, PLUGIN}:
                    yield name, int(amount)


def _pod(chance: random.Random, name: str) -> Json:
    init = [_container(chance, f"init-{n}") for n in range(chance.choice([0, 0, 1, 2, 3, 4]))]
    for container in init:
        if chance.random() < 0.4:
            container["restartPolicy"] = "Always"
    containers = [_container(chance, f"main-{n}") for n in range(chance.randint(1, 4))]
    return {"metadata": {"name": name}, "spec": {"initContainers": init, "containers": containers}}


def _container(chance: random.Random, name: str) -> Json:
    requests = {each: str(chance.choice([0, 1, 1, 2, 3, 5])) for each in _NAMES if chance.random() < 0.3}
    requests |= {each: amount for each, amount in _NATIVE.items() if chance.random() < 0.4}
    limits = {each: amount for each, amount in requests.items() if each not in _NATIVE}
    return {"name": name, "image": "busybox", "resources": {"requests": requests, "limits": limits}}


def our_answer(pod: Json) -> Json:
    """Return our requests of the special claim, and the requests of each container."""
    classes = [
        DeviceClass(metadata=ObjectMeta(name=name), spec=DeviceClassSpec(extended_resource_name=resource))
        for name, resource in CLASSES.items()
    ]
    node = from_builtins(Node, {"status": {"allocatable": {PLUGIN: "1000"}}})
    made = from_builtins(Pod, {**pod, "metadata": {**pod["metadata"], "namespace": "default", "uid": "u"}})
    share = split_resources(made, requested_amounts(made), node, {}, ClassesByResource.of(classes))
    claim = new_special_claim(made, share.requests, ())
    return {
        "generateName": claim.metadata.generate_name,
        "annotations": claim.metadata.annotations,
        "requests": builtins(claim.spec.devices.requests),
        "mappings": builtins(list(share.requests.mappings)),
    }


def without_defaults(answer: Json) -> Json:
    """Return an answer of kube-scheduler without the API server's defaults."""
    return {**answer, "requests": builtins(from_builtins(list[DeviceRequest], answer["requests"]))}
