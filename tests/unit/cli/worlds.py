"""Files of objects for commands."""

import json
from collections.abc import Mapping

from dradriver.model.encoding.codec import builtins
from tests.conformance.allocator.a100 import a100_slices

GPU_DRIVER = "gpu.nvidia.com"


def listed(*objects: object) -> str:
    """Objects as a JSON List."""
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": [builtins(each) for each in objects]})


def a100(node: str = "node-1", gpus: int = 1) -> list[Mapping[str, object]]:
    """The slices of a node with A100 GPUs, with every MIG placement."""
    return [
        {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", **each}
        for each in a100_slices(node, gpus)
    ]
