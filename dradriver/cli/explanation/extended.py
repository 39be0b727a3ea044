"""Explains which devices can serve a pod's extended resources, and what prevents this (KEP-5004)."""

from collections.abc import Callable

from dradriver.allocator import Features
from dradriver.allocator.placement import Placer
from dradriver.cli.attempt import serving_classes
from dradriver.cli.world import World
from dradriver.control.extended import complete_requests, requested_amounts
from dradriver.control.extended.findings import class_findings, pod_findings, serving_nodes
from dradriver.control.pools.class_devices import count_devices
from dradriver.model.core.workload import Pod

__all__ = ["explain_extended_resources"]


def explain_extended_resources(
    world: World, pod: Pod, features: Features, placer: Callable[[], Placer]
) -> tuple[str, ...]:
    """Return remarks on the pod's extended resources, one sentence each; empty if the pod requests none.

    Args:
        world: objects of the cluster.
        pod: the pod.
        features: the enabled features.
        placer: returns the allocator with the objects of the cluster; called only if it is needed.
    """
    pod = complete_requests(pod)
    amounts = requested_amounts(pod)
    if not amounts:
        return ()
    classes = serving_classes(world, features)
    wanted = {each.metadata.name: each for name in amounts if (each := classes.by_name.get(name))}
    nodes = list(world.known_nodes().values())
    reached = {
        (name, node.metadata.name): count_devices(each, node, placer().pools_on(node.metadata.name))[0]
        for name, each in wanted.items()
        for node in nodes
    }
    remarks = [*serving_nodes(pod, classes, nodes, reached)]
    if not features.extended_resources:
        remarks.append(
            f"{features.gate('extended_resources')} is off: device classes serve no extended resource"
        )
    remarks += [str(problem) for problem in pod_findings(pod, classes)]
    findings = class_findings(world.classes.values())
    remarks += [f"class {name}: {problem}" for name, problem in findings if name in wanted]
    return tuple(remarks)
