"""Manifests with one typical user error each, as YAML."""

from typing import Final

_CLAIM = """
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: invalid}
spec:
  devices:
"""
_SLICE = """
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: invalid}
spec:
  driver: d.example.com
  nodeName: node-1
  pool: {name: node-1, generation: 1, resourceSliceCount: 1}
"""
_CLASS = """
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: invalid}
spec:
"""
_ONE = "    requests: [{name: r, exactly: {deviceClassName: c}}]\n"


def _selector(expression: str) -> str:
    return _CLASS + f"  selectors: [{{cel: {{expression: '{expression}'}}}}]\n"


def _requests(text: str) -> str:
    return _CLAIM + f"    requests: [{text}]\n"


def _devices(text: str) -> str:
    return _SLICE + f"  devices: [{text}]\n"


CLAIMS: Final = {
    "request without exactly": _requests("{name: r, deviceClassName: c}"),
    "empty request": _requests("{name: r}"),
    "both exactly and firstAvailable": _requests(
        "{name: r, exactly: {deviceClassName: c}, firstAvailable: [{name: s, deviceClassName: c}]}"
    ),
    "request without a name": _requests("{exactly: {deviceClassName: c}}"),
    "bad request name": _requests("{name: R_1, exactly: {deviceClassName: c}}"),
    "same request twice": _requests(
        "{name: r, exactly: {deviceClassName: c}}, {name: r, exactly: {deviceClassName: c}}"
    ),
    "no device class": _requests("{name: r, exactly: {count: 1}}"),
    "misspelt field": _requests("{name: r, exactly: {deviceClas: c}}"),
    "field in the wrong place": _requests("{name: r, exactly: {deviceClassName: c}, count: 2}"),
    "count as text": _requests("{name: r, exactly: {deviceClassName: c, count: two}}"),
    "negative count": _requests("{name: r, exactly: {deviceClassName: c, count: -1}}"),
    "unknown mode": _requests("{name: r, exactly: {deviceClassName: c, allocationMode: Some}}"),
    "count beside All": _requests("{name: r, exactly: {deviceClassName: c, allocationMode: All, count: 2}}"),
    "selector that is no map": _requests("{name: r, exactly: {deviceClassName: c, selectors: [{cel: x}]}}"),
    "selector without cel": _requests("{name: r, exactly: {deviceClassName: c, selectors: [{}]}}"),
    "broken CEL": _requests(
        "{name: r, exactly: {deviceClassName: c, selectors: [{cel: {expression: 'device.driver =='}}]}}"
    ),
    "CEL of the wrong type": _requests(
        "{name: r, exactly: {deviceClassName: c, selectors: [{cel: {expression: 'device.driver'}}]}}"
    ),
    "empty CEL": _requests("{name: r, exactly: {deviceClassName: c, selectors: [{cel: {expression: ''}}]}}"),
    "unknown request in a constraint": _CLAIM + _ONE
    + "    constraints: [{requests: [x], matchAttribute: d.example.com/a}]\n",
    "attribute without a domain": _CLAIM + _ONE + "    constraints: [{requests: [r], matchAttribute: a}]\n",
    "constraint without an attribute": _CLAIM + _ONE + "    constraints: [{requests: [r]}]\n",
    "unknown request in a config": _CLAIM + _ONE
    + "    config: [{requests: [x], opaque: {driver: d.example.com, parameters: {a: 1}}}]\n",
    "config without opaque": _CLAIM + _ONE + "    config: [{requests: [r]}]\n",
    "opaque without parameters": _CLAIM + _ONE + "    config: [{opaque: {driver: d.example.com}}]\n",
    "parameters that are no object": _CLAIM + _ONE
    + "    config: [{opaque: {driver: d.example.com, parameters: 7}}]\n",
    "bad driver in opaque": _CLAIM + _ONE + "    config: [{opaque: {driver: D!, parameters: {a: 1}}}]\n",
    "toleration of an unknown effect": _requests(
        "{name: r, exactly: {deviceClassName: c, tolerations: [{key: k, effect: Evict, operator: IN}]}}"
    ),
    "admin access": _requests("{name: r, exactly: {deviceClassName: c, adminAccess: true}}"),
    "bad object name": _requests("{name: r, exactly: {deviceClassName: c}}").replace(
        "name: invalid", "name: My_Claim"
    ),
    "no name": _requests("{name: r, exactly: {deviceClassName: c}}").replace("name: invalid", ""),
    "requests that are no list": _CLAIM + "    requests: {name: r}\n",
    "bad capacity request": _requests(
        "{name: r, exactly: {deviceClassName: c, capacity: {requests: {memory: much}}}}"
    ),
    "wrong kind for the path": _requests("{name: r, exactly: {deviceClassName: c}}").replace(
        "kind: ResourceClaim", "kind: ResourceClaims"
    ),
}  # fmt: skip
CLASSES: Final = {
    "broken CEL": _selector("device.driver = 1"),
    "unknown CEL variable": _selector("gpu.driver == \"x\""),
    "unknown CEL field": _selector("device.drivr == \"x\""),
    "unknown CEL function": _selector("device.driver.beginsWith(\"x\")"),
    "CEL that is no truth": _selector("1 + 1"),
    "no CEL at all": _CLASS + "  selectors: [{}]\n",
    "bad extended resource name": _CLASS + "  extendedResourceName: gpu\n",
    "extended resource of Kubernetes": _CLASS + "  extendedResourceName: kubernetes.io/gpu\n",
    "unknown field": _CLASS + "  suitableNodes: {}\n",
    "bad name": (_CLASS + "  {}\n").replace("name: invalid", "name: Mistake"),
    "expression that is too long": _selector("device.driver == \"" + "x" * 10_300 + "\""),
}  # fmt: skip
SLICES: Final = {
    "no pool": _SLICE.replace("  pool: {name: node-1, generation: 1, resourceSliceCount: 1}\n", ""),
    "no driver": _SLICE.replace("  driver: d.example.com\n", ""),
    "bad driver": _SLICE.replace("driver: d.example.com", "driver: d_example"),
    "no node": _SLICE.replace("  nodeName: node-1\n", ""),
    "two node selections": _SLICE + "  allNodes: true\n",
    "allNodes false": _SLICE.replace("nodeName: node-1", "allNodes: false"),
    "bad pool name": _SLICE.replace("pool: {name: node-1,", "pool: {name: Node_1,"),
    "negative generation": _SLICE.replace("generation: 1", "generation: -1"),
    "no slice count": _SLICE.replace(", resourceSliceCount: 1", ""),
    "device with dots": _devices("{name: gpu-0-mig-1g.5gb-0}"),
    "device twice": _devices("{name: a}, {name: a}"),
    "attribute without a type": _devices("{name: a, attributes: {model: {}}}"),
    "attribute of two types": _devices("{name: a, attributes: {model: {string: x, int: 1}}}"),
    "attribute as plain value": _devices("{name: a, attributes: {model: x}}"),
    "bad version": _devices("{name: a, attributes: {v: {version: '1.2'}}}"),
    "bad attribute name": _devices("{name: a, attributes: {the-model: {string: x}}}"),
    "attribute too long": _devices("{name: a, attributes: {model: {string: '" + "x" * 65 + "'}}}"),
    "int as text": _devices("{name: a, attributes: {n: {int: '3'}}}"),
    "capacity as plain value": _devices("{name: a, capacity: {memory: 40Gi}}"),
    "bad quantity": _devices("{name: a, capacity: {memory: {value: 40 GB}}}"),
    "capacity without a value": _devices("{name: a, capacity: {memory: {}}}"),
    "basic of v1beta1": _devices("{name: a, basic: {attributes: {model: {string: x}}}}"),
    "counters beside devices": _devices("{name: a}")
    + "  sharedCounters: [{name: set, counters: {memory: {value: 1}}}]\n",
    "bad counter name": _SLICE + "  sharedCounters: [{name: set, counters: {memorySlice0: {value: 1}}}]\n",
    "bad counter set name": _SLICE + "  sharedCounters: [{name: Set_0, counters: {memory: {value: 1}}}]\n",
    "counter set without counters": _SLICE + "  sharedCounters: [{name: set}]\n",
    "counter set twice": _SLICE
    + "  sharedCounters: [{name: s, counters: {m: {value: 1}}}, {name: s, counters: {m: {value: 1}}}]\n",
    "consumes without a set": _devices("{name: a, consumesCounters: [{counters: {memory: {value: 1}}}]}"),
    "consumes nothing": _devices("{name: a, consumesCounters: [{counterSet: set}]}"),
    "consumes plain number": _devices("{name: a, consumesCounters: [{counterSet: s, counters: {m: '16'}}]}"),
    "taint without an effect": _devices("{name: a, taints: [{key: k}]}"),
    "taint of an unknown effect": _devices("{name: a, taints: [{key: k, effect: Evict}]}"),
    "taint without a key": _devices("{name: a, taints: [{effect: NoSchedule}]}"),
    "binding without failure conditions": _devices("{name: a, bindingConditions: [x]}"),
    "device of another node": _devices("{name: a, nodeName: node-2}"),
    "device on all nodes, slice not": _devices("{name: a, allNodes: true}"),
    "per device without any": (_SLICE + "  perDeviceNodeSelection: true\n  devices: [{name: a}]\n").replace(
        "  nodeName: node-1\n", ""
    ),
    "two node selector terms": _SLICE.replace(
        "nodeName: node-1",
        "nodeSelector: {nodeSelectorTerms: [{matchExpressions: [{key: a, operator: Exists}]}, "
        "{matchExpressions: [{key: a, operator: Exists}]}]}",
    ),
    "node selector without terms": _SLICE.replace("nodeName: node-1", "nodeSelector: {nodeSelectorTerms: []}"),
    "node selector of lower case": _SLICE.replace(
        "nodeName: node-1",
        "nodeSelector: {nodeSelectorTerms: [{matchExpressions: [{key: a, operator: IN, values: [b]}]}]}",
    ),
    "policy without a default": _devices(
        "{name: a, allowMultipleAllocations: true, capacity: {m: {value: 4Gi, requestPolicy: "
        "{validRange: {min: 1Gi}}}}}"
    ),
    "policy with values out of order": _devices(
        "{name: a, allowMultipleAllocations: true, capacity: {m: {value: 4Gi, requestPolicy: "
        "{default: 2Gi, validValues: [2Gi, 1Gi]}}}}"
    ),
    "policy default above the maximum": _devices(
        "{name: a, allowMultipleAllocations: true, capacity: {m: {value: 4Gi, requestPolicy: "
        "{default: 4Gi, validRange: {min: 1Gi, max: 2Gi}}}}}"
    ),
    "policy with a step that does not fit": _devices(
        "{name: a, allowMultipleAllocations: true, capacity: {m: {value: 4Gi, requestPolicy: "
        "{default: 3Gi, validRange: {min: 1Gi, step: 3Gi}}}}}"
    ),
    "too many attributes": _devices(
        "{name: a, attributes: {" + ", ".join(f"a{index}: {{int: {index}}}" for index in range(33)) + "}}"
    ),
    "devices that are no list": _SLICE + "  devices: {name: a}\n",
    "spec missing": "apiVersion: resource.k8s.io/v1\nkind: ResourceSlice\nmetadata: {name: invalid}\n",
}  # fmt: skip


def _pod(resources: str, container: str = "") -> str:
    return f"""
apiVersion: v1
kind: Pod
metadata: {{name: invalid}}
spec:
  containers:
  - {{name: main, image: busybox, {container}resources: {resources}}}
"""


def _quota(hard: str) -> str:
    return f"apiVersion: v1\nkind: ResourceQuota\nmetadata: {{name: invalid}}\nspec: {{hard: {hard}}}\n"


PODS: Final = {
    "extended resource without a limit": _pod("{requests: {example.com/gpu: 1}}"),
    "limit and request that differ": _pod("{requests: {example.com/gpu: 1}, limits: {example.com/gpu: 2}}"),
    "part of a device": _pod("{limits: {example.com/gpu: 500m}}"),
    "fewer than none": _pod("{limits: {example.com/gpu: -1}}"),
    "name without a domain": _pod("{limits: {gpu: 1}}"),
    "name of a quota": _pod("{limits: {requests.example.com/gpu: 1}}"),
    "name that is too long": _pod("{limits: {example.com/" + 64 * "x" + ": 1}}"),
    "implicit name that is too long": _pod(
        "{limits: {deviceclass.resource.kubernetes.io/" + 64 * "x" + ": 1}}"
    ),
    "two slashes": _pod("{limits: {example.com/gpu/large: 1}}"),
    "more requested than allowed": _pod("{requests: {cpu: 2}, limits: {cpu: 1}}"),
}
"""Invalid resources of containers."""

VALID_PODS: Final = {
    "implicit name without a limit": _pod("{requests: {deviceclass.resource.kubernetes.io/gpu: 1}}"),
    "part of an implicit one": _pod("{limits: {deviceclass.resource.kubernetes.io/gpu: 500m}}"),
    "limit only": _pod("{limits: {example.com/gpu: 2}}"),
    "nothing of it": _pod("{limits: {example.com/gpu: 0}}"),
}

QUOTAS: Final = {
    "unknown resource": _quota("{gpu: 1}"),
    "fewer than none": _quota("{requests.example.com/gpu: -1}"),
    "part of a pod": _quota("{pods: 500m}"),
    "bad name": _quota("{requests.example.com/g p: 1}"),
}

DIFFERENT_MESSAGES: Final = frozenset(
    {
        # The SDK's CEL reports the same position with its own message and a hint.
        "broken CEL", "empty CEL", "unknown CEL variable", "unknown CEL field",
        # kube-apiserver prints the terms with the names of its internal type.
        "two node selector terms",
    }
)  # fmt: skip
"""Manifests with different messages of the two servers; code, reason and field are equal."""
