"""Decides which instances fit on a card, from its facts and its present instances. Pure."""

from collections.abc import Iterable

from dradriver_gpu_mig.card.simulator.catalog import CardModel
from dradriver_gpu_mig.card.simulator.state import InstanceState

__all__ = ["instance_id", "obstacle"]


def obstacle(model: CardModel, there: Iterable[InstanceState], new: InstanceState) -> str:
    """Return why an instance does not fit beside the existing ones; "" if it does.

    Memory slices and compute slices are separate limits: two `3g` leave one compute slice and no memory.
    """
    profile, instances = model.by_id[new.profile], list(there)
    wanted = range(new.start, new.start + profile.size)
    if any(_overlap(wanted, _memory(model, instance)) for instance in instances):
        return "another instance has the place"
    if sum(1 for instance in instances if instance.profile == new.profile) >= profile.most:
        return f"{profile.most} of its profile is the most"
    if sum(model.by_id[each.profile].slices for each in instances) + profile.slices > model.compute_slices:
        return "too few compute slices are left"
    return ""


def instance_id(model: CardModel, new: InstanceState) -> int:
    """Return the ID that the card gives to an instance.

    The IDs number the nodes of the tree that halves the memory, from the root.
    """
    size = model.by_id[new.profile].size
    return model.memory_slices // size - 1 + new.start // size


def _memory(model: CardModel, instance: InstanceState) -> range:
    return range(instance.start, instance.start + model.by_id[instance.profile].size)


def _overlap(one: range, other: range) -> bool:
    return one.start < other.stop and other.start < one.stop
