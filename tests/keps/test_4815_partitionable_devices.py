"""KEP-4815: DRA partitionable devices. The YAML is the KEP's, corrected where 1.37 rejects it."""

from typing import Final

import pytest

from dradriver.kube import SLICES, Invalid
from tests.conformance.allocator.a100 import a100_slices
from tests.keps.conftest import ControlPlane, request

GATE: Final = "DRAPartitionableDevices"

NODE_AND_CLASS: Final = """
apiVersion: v1
kind: Node
metadata: {name: node-1}
---
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: gpu}
spec: {selectors: [{cel: {expression: "device.driver == 'resource-driver.example.com'"}}]}
"""
COUNTER_SLICE: Final = """
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: counter-slice}
spec:
  driver: resource-driver.example.com
  pool: {generation: 1, name: my-pool, resourceSliceCount: 2}
  nodeName: node-1
  sharedCounters: [{name: gpu-0-counter-set, counters: {memory: {value: 40Gi}}}]
"""
DEVICE_SLICE: Final = """
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: device-slice}
spec:
  driver: resource-driver.example.com
  pool: {generation: 1, name: my-pool, resourceSliceCount: 2}
  nodeName: node-1
  devices:
  - name: gpu-0
    capacity: {memory: {value: 40Gi}}
    consumesCounters: [{counterSet: gpu-0-counter-set, counters: {memory: {value: 40Gi}}}]
  - name: gpu-0-partition-0
    capacity: {memory: {value: 10Gi}}
    consumesCounters: [{counterSet: gpu-0-counter-set, counters: {memory: {value: 10Gi}}}]
  - name: gpu-0-partition-1
    capacity: {memory: {value: 10Gi}}
    consumesCounters: [{counterSet: gpu-0-counter-set, counters: {memory: {value: 10Gi}}}]
"""
PRE_PARTITIONED: Final = """
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: pre-partitioned}
spec:
  driver: resource-driver.example.com
  pool: {generation: 2, name: my-pool, resourceSliceCount: 1}
  nodeName: node-1
  devices:
  - {name: gpu-0-partition-0, capacity: {memory: {value: 10Gi}}}
  - {name: gpu-0-partition-1, capacity: {memory: {value: 10Gi}}}
"""
DRIVER: Final = "resource-driver.example.com"
PARTITION: Final = request("gpu", f"device.capacity['{DRIVER}'].memory == quantity('10Gi')")
WHOLE: Final = request("gpu", f"device.capacity['{DRIVER}'].memory == quantity('40Gi')")


async def gpu_0(plane: ControlPlane) -> None:
    await plane.apply(f"{NODE_AND_CLASS}---{COUNTER_SLICE}---{DEVICE_SLICE}")


async def test_a_device_cannot_be_allocated_while_a_partition_is_in_use(plane: ControlPlane) -> None:
    await plane.start()
    await gpu_0(plane)
    await plane.pod("partition", PARTITION)
    assert await plane.devices("partition") == ["gpu-0-partition-0"]
    await plane.pod("whole", WHOLE)
    message = await plane.refusal("whole")
    assert message.startswith("0/1 nodes are available: 1 cannot allocate all claims: claim default/whole")
    assert "counter" in message
    await plane.delete_pod("partition")
    assert await plane.devices("whole") == ["gpu-0"]
    await plane.pod("again", PARTITION)
    await plane.refusal("again")


async def test_overlapping_mig_devices_are_created_on_demand(plane: ControlPlane) -> None:
    """The A100 of the KEP: 1g + 1g + 2g + 3g of one GPU, with a constraint on parentUUID."""
    await plane.start()
    await plane.apply(NODE_AND_CLASS.replace(DRIVER, "gpu.nvidia.com"))
    for body in a100_slices("node-1", 1):
        whole = body | {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice"}
        await plane.client.create(SLICES, whole, into=dict)
    wanted = ["1g.5gb", "1g.5gb", "2g.10gb", "3g.20gb"]
    requests = [
        request("gpu", f"device.attributes['gpu.nvidia.com'].profile == '{profile}'", name=f"mig-{number}")
        for number, profile in enumerate(wanted)
    ]
    await plane.pod("mig-devices", *requests, constraint="gpu.nvidia.com/parentUUID")
    assert await plane.devices("mig-devices") == [
        "gpu-0-mig-1g-5gb-0",
        "gpu-0-mig-1g-5gb-1",
        "gpu-0-mig-2g-10gb-2",
        "gpu-0-mig-3g-20gb-4",
    ]
    await plane.pod("one-more", requests[0])
    await plane.refusal("one-more")


TWO_HOSTS: Final = """
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: tpu.example.com}
spec: {selectors: [{cel: {expression: "device.driver == 'tpu.example.com'"}}]}
---
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: host.example.com}
spec: {selectors: [{cel: {expression: "device.driver == 'host.example.com'"}}]}
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: tpus}
spec:
  driver: tpu.example.com
  pool: {name: slice-1, generation: 1, resourceSliceCount: 1}
  nodeSelector:
    nodeSelectorTerms:
    - matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [node-1, node-2]}]
  devices: [{name: tpu-2x4-1}]
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: tpus}
spec: {devices: {requests: [{name: tpus, exactly: {deviceClassName: tpu.example.com}}]}}
"""
HOST: Final = """
apiVersion: v1
kind: Node
metadata: {name: NODE, labels: {kubernetes.io/hostname: NODE}}
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: NODE-host}
spec:
  driver: host.example.com
  pool: {name: NODE, generation: 1, resourceSliceCount: 1}
  nodeName: NODE
  devices: [{name: host}]
"""
FILLER: Final = """
apiVersion: v1
kind: Pod
metadata: {name: POD}
spec: {nodeName: node-2, containers: [{name: main, image: busybox}]}
"""
MEMBER: Final = """
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: POD}
spec: {devices: {requests: [{name: host, exactly: {deviceClassName: host.example.com}}]}}
---
apiVersion: v1
kind: Pod
metadata: {name: POD}
spec:
  containers: [{name: main, image: busybox, resources: {claims: [{name: tpus}, {name: host}]}}]
  resourceClaims: [{name: tpus, resourceClaimName: tpus}, {name: host, resourceClaimName: POD}]
"""


async def test_a_shared_claim_and_a_claim_of_each_pod_put_the_pods_on_separate_nodes(
    plane: ControlPlane,
) -> None:
    """The KEP's alternative to anti-affinity; a third pod finds no node, though a node out of reach is free."""
    await plane.start()
    hosts = "---".join(HOST.replace("NODE", f"node-{number}") for number in (1, 2, 3))
    await plane.apply(f"{TWO_HOSTS}---{hosts}")
    for number in (1, 2):  # so that the scheduler prefers node-1 for both pods
        await plane.apply(FILLER.replace("POD", f"filler-{number}"))
    for pod in ("one", "other"):
        await plane.apply(MEMBER.replace("POD", pod))
        assert await plane.devices(pod) == ["host"]
    pods = plane.controllers.caches.pods.items
    assert [pods[f"default/{pod}"].spec.node_name for pod in ("one", "other")] == ["node-1", "node-2"]
    await plane.apply(MEMBER.replace("POD", "third"))
    await plane.refusal("third")


async def test_an_incomplete_pool_has_no_devices(plane: ControlPlane) -> None:
    await plane.start()
    await plane.apply(f"{NODE_AND_CLASS}---{DEVICE_SLICE}")
    await plane.pod("partition", PARTITION)
    await plane.refusal("partition")
    await plane.apply(COUNTER_SLICE)
    assert await plane.devices("partition") == ["gpu-0-partition-0"]


async def test_counter_sets_and_devices_share_no_slice(plane: ControlPlane) -> None:
    """1.35 and newer reject the form of 1.34 and before."""
    await plane.start()
    await plane.apply(NODE_AND_CLASS)
    counters = "  sharedCounters: [{name: gpu-0-counter-set, counters: {memory: {value: 40Gi}}}]\n"
    with pytest.raises(Invalid):
        await plane.apply(DEVICE_SLICE + counters)


async def test_with_the_gate_off_the_fields_are_dropped_on_write(plane: ControlPlane) -> None:
    await plane.start({GATE: False})
    await plane.apply(NODE_AND_CLASS)
    (stored,) = await plane.apply(DEVICE_SLICE)
    assert all("consumesCounters" not in device for device in stored["spec"]["devices"])


async def test_with_the_gate_off_a_driver_advertises_pre_partitioned_devices(plane: ControlPlane) -> None:
    await plane.start({GATE: False})
    await plane.apply(f"{NODE_AND_CLASS}---{PRE_PARTITIONED}")
    await plane.pod("one", PARTITION)
    await plane.pod("other", PARTITION)
    devices = {*await plane.devices("one"), *await plane.devices("other")}
    assert devices == {"gpu-0-partition-0", "gpu-0-partition-1"}


async def test_enabled_disabled_and_enabled_again(plane: ControlPlane) -> None:
    """Existing allocations are never evaluated again; objects that need the gate wait for it."""
    await plane.start()
    await gpu_0(plane)
    await plane.pod("before", PARTITION)
    assert await plane.devices("before") == ["gpu-0-partition-0"]

    await plane.start({GATE: False})
    assert await plane.devices("before") == ["gpu-0-partition-0"]
    (stored,) = await plane.apply(DEVICE_SLICE)
    assert all("consumesCounters" in device for device in stored["spec"]["devices"]), "in use: kept"
    await plane.pod("meanwhile", PARTITION)
    await plane.refusal("meanwhile")

    await plane.start()
    assert await plane.devices("before") == ["gpu-0-partition-0"]
    assert await plane.devices("meanwhile") == ["gpu-0-partition-1"]
    await plane.pod("whole", WHOLE)
    await plane.refusal("whole")


async def test_skew_a_scheduler_with_the_gate_off_ignores_partitions(
    plane: ControlPlane,
) -> None:
    await plane.start({GATE: True}, scheduler={GATE: False})
    await gpu_0(plane)
    await plane.pod("partition", PARTITION)
    await plane.refusal("partition")


async def test_skew_without_the_gate_on_the_server_overlapping_devices_look_independent(
    plane: ControlPlane,
) -> None:
    """For this reason a driver whose counters were dropped withdraws overlapping devices (it fails closed)."""
    await plane.start({GATE: False}, scheduler={GATE: True})
    await gpu_0(plane)
    await plane.pod("partition", PARTITION)
    await plane.pod("whole", WHOLE)
    assert await plane.devices("partition") == ["gpu-0-partition-0"]
    assert await plane.devices("whole") == ["gpu-0"]
