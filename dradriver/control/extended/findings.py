"""Report extended resources (KEP-5004) that cannot work, or that do not work as expected.

The API server accepts all of the reported classes and pods.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from dradriver.control.extended.classes import ClassesByResource
from dradriver.control.extended.requests import build_requests, class_backed_resources, requested_amounts
from dradriver.control.extended.resource_split import allocatable_amount, find_excess, find_fraction
from dradriver.errors import Problem
from dradriver.model.core.workload import Node, Pod
from dradriver.model.extended_names import find_name_problem, implicit_name
from dradriver.model.resource.deviceclass import DeviceClass

__all__ = ["class_findings", "pod_findings", "serving_nodes"]


def class_findings(classes: Iterable[DeviceClass]) -> Iterator[tuple[str, Problem]]:
    """Yield each problem with its class's name: invalid implicit names, and names that several classes have."""
    all_classes = list(classes)
    for each in all_classes:
        name = each.metadata.name
        if not each.spec.extended_resource_name and (problem := find_name_problem(implicit_name(name))):
            rule = f"cannot be requested as {implicit_name(name)}: {problem}; set spec.extendedResourceName"
            yield name, Problem("metadata.name", rule)
    by_name: defaultdict[str, list[str]] = defaultdict(list)
    for each in all_classes:
        if each.spec.extended_resource_name:
            by_name[each.spec.extended_resource_name].append(each.metadata.name)
    counts = ClassesByResource.of(all_classes)
    for resource, names in by_name.items():
        winner = counts.class_name(resource)
        for name in names:
            if name != winner:
                rule = f"{resource} is served by class {winner}: the newest counts, then the first by name"
                yield name, Problem("spec.extendedResourceName", rule)


def pod_findings(pod: Pod, classes: ClassesByResource) -> Iterator[Problem]:
    """Yield the reasons why devices cannot serve a pod on any node, and behavior that may surprise users."""
    served = {name: found for name in requested_amounts(pod) if (found := classes.class_name(name)) is not None}
    if problem := find_fraction(pod, served):
        yield Problem("spec", problem)
    if problem := find_excess(build_requests(pod, served)):
        yield Problem("spec", f"{problem}: only a node with a device plugin can serve it")
    for field, containers in (
        ("initContainers", pod.spec.init_containers),
        ("containers", pod.spec.containers),
    ):
        for index, container in enumerate(containers):
            backed = class_backed_resources(container, served)
            if len(backed) > 1:
                listed = ", ".join(backed)
                rule = f"requests {len(backed)} resources that classes serve ({listed}), all from one node"
                yield Problem(f"spec.{field}[{index}].resources", rule)


def serving_nodes(
    pod: Pod, classes: ClassesByResource, nodes: Iterable[Node], reached: Mapping[tuple[str, str], int]
) -> Iterator[str]:
    """Yield a line for each resource of a pod with the nodes that can serve it.

    A node may have both a device plugin and devices for the resource. This is reported in a line of its own.

    Args:
        pod: the pod.
        classes: all classes.
        nodes: all nodes.
        reached: by the names of a class and a node, the number of devices of the class that the node reaches.
    """
    known = list(nodes)
    for name, amount in requested_amounts(pod).items():
        class_name = classes.class_name(name)
        plugins = [node.metadata.name for node in known if allocatable_amount(node, name) > 0]
        devices = [n.metadata.name for n in known if class_name and reached.get((class_name, n.metadata.name))]
        sources = [f"device plugins on {', '.join(plugins)}"] if plugins else []
        only = [node for node in devices if node not in plugins]
        sources += [f"devices of class {class_name} on {', '.join(only)}"] if only else []
        if sources:
            yield f"{name}: {amount}, from {' or '.join(sources)}"
        else:
            yield f"{name}: {amount}: no node has it" + (
                ", and no class serves it" if class_name is None else ""
            )
        both = [node for node in plugins if node in devices]
        if both:
            offers = f"a device plugin for {name} and devices of class {class_name}"
            yield f"{', '.join(both)}: has {offers}: only the plugin's devices count"
