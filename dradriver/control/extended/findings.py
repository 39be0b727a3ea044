"""Faults and surprises of extended resources, for people, before or while a pod waits for one (KEP-5004).

An API server rejects none of these. They are names that can't be used, and pods that can't be served, or not as
their author may expect.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from dradriver.control.extended.classes import ClassesByResource
from dradriver.control.extended.names import implicit_name, name_problem
from dradriver.control.extended.requests import amounts_of, class_backed, requests_of
from dradriver.control.extended.share import allocatable, in_parts, too_many
from dradriver.errors import Problem
from dradriver.model.core.workload import Node, Pod
from dradriver.model.resource.deviceclass import DeviceClass

__all__ = ["class_findings", "pod_findings", "serving_nodes"]


def class_findings(classes: Iterable[DeviceClass]) -> Iterator[tuple[str, Problem]]:
    """Yield class names that can't be requested implicitly, and names that several classes claim, by class."""
    found = list(classes)
    for each in found:
        name = each.metadata.name
        if not each.spec.extended_resource_name and (problem := name_problem(implicit_name(name))):
            rule = (
                f"can't be asked for as {implicit_name(name)}: {problem}; spec.extendedResourceName may name it"
            )
            yield name, Problem("metadata.name", rule)
    by_name: defaultdict[str, list[str]] = defaultdict(list)
    for each in found:
        if each.spec.extended_resource_name:
            by_name[each.spec.extended_resource_name].append(each.metadata.name)
    counts = ClassesByResource.of(found)
    for resource, names in by_name.items():
        winner = counts.class_name(resource)
        for name in names:
            if name != winner:
                rule = f"{resource} is served by class {winner}: the newest counts, then the first by name"
                yield name, Problem("spec.extendedResourceName", rule)


def pod_findings(pod: Pod, classes: ClassesByResource) -> Iterator[Problem]:
    """Yield why devices can't serve a pod on any node, and behavior that may surprise its author."""
    served = {name: found for name in amounts_of(pod) if (found := classes.class_name(name)) is not None}
    if problem := in_parts(pod, served):
        yield Problem("spec", problem)
    if problem := too_many(requests_of(pod, served)):
        yield Problem("spec", f"{problem}: only a node with a device plugin can serve it")
    for field, containers in (
        ("initContainers", pod.spec.init_containers),
        ("containers", pod.spec.containers),
    ):
        for index, container in enumerate(containers):
            backed = class_backed(container, served)
            if len(backed) > 1:
                listed = ", ".join(backed)
                rule = f"asks for {len(backed)} resources that classes serve ({listed}): all on one node"
                yield Problem(f"spec.{field}[{index}].resources", rule)


def serving_nodes(
    pod: Pod, classes: ClassesByResource, nodes: Iterable[Node], reached: Mapping[tuple[str, str], int]
) -> Iterator[str]:
    """Yield for each resource of a pod the nodes that may serve it, and the nodes that offer it in both ways.

    Args:
        pod: the pod.
        classes: all classes.
        nodes: all nodes.
        reached: how many devices of a class a node reaches, by names of class and node.
    """
    known = list(nodes)
    for name, amount in amounts_of(pod).items():
        class_name = classes.class_name(name)
        plugins = [node.metadata.name for node in known if allocatable(node, name) > 0]
        devices = [n.metadata.name for n in known if class_name and reached.get((class_name, n.metadata.name))]
        places = [f"device plugins on {', '.join(plugins)}"] if plugins else []
        only = [node for node in devices if node not in plugins]
        places += [f"devices of class {class_name} on {', '.join(only)}"] if only else []
        nobody = "nobody: no node has it" + (", and no class serves it" if class_name is None else "")
        yield f"{name}: {amount}, from {' or '.join(places) or nobody}"
        both = [node for node in plugins if node in devices]
        if both:
            ways = f"a device plugin for {name} and devices of class {class_name}"
            yield f"{', '.join(both)}: has {ways}; only the plugin's count"
