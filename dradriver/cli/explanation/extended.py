"""Explains what can serve a pod's extended resources, and what prevents it (KEP-5004)."""

from dradriver.allocator import Features, InUse, Inventory
from dradriver.cli.attempt import serving_classes
from dradriver.cli.world import World
from dradriver.control.extended import amounts_of, completed
from dradriver.control.extended.findings import class_findings, pod_findings, serving_nodes
from dradriver.control.pools.class_devices import devices_of
from dradriver.model.core.workload import Pod

__all__ = ["extended_remarks"]


def extended_remarks(world: World, pod: Pod, features: Features) -> tuple[str, ...]:
    """Return one sentence for each remark; empty for a pod without extended resources."""
    pod = completed(pod)
    amounts = amounts_of(pod)
    if not amounts:
        return ()
    classes = serving_classes(world, features)
    wanted = {each.metadata.name: each for name in amounts if (each := classes.by_name.get(name))}
    nodes = list(world.places().values())
    inventory = Inventory.of(world.slices)
    reached = {
        (name, node.metadata.name): devices_of(each, node, inventory, InUse(), features)[0]
        for name, each in wanted.items()
        for node in nodes
    }
    remarks = [*serving_nodes(pod, classes, nodes, reached)]
    if not features.extended_resources:
        remarks.append(
            f"{features.gate('extended_resources')} is off: device classes serve no extended resource"
        )
    remarks += [str(problem) for problem in pod_findings(pod, classes)]
    found = class_findings(world.classes.values())
    remarks += [f"class {name}: {problem}" for name, problem in found if name in wanted]
    return tuple(remarks)
