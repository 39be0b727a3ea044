"""Decides which instances fit on a card, from the card's facts and its present instances. Pure functions."""

from collections.abc import Iterable

from dradriver_gpu_mig.card.simulator.catalog import GpuModel
from dradriver_gpu_mig.card.simulator.state import InstanceState

__all__ = ["assign_instance_id", "find_obstacle"]


def find_obstacle(model: GpuModel, present: Iterable[InstanceState], new: InstanceState) -> str:
    """Return why an instance does not fit beside the existing instances; "" if it fits.

    Memory slices and compute slices are separate limits: two `3g` instances leave one compute slice and no
    memory slice.
    """
    profile, instances = model.profiles_by_id[new.profile], list(present)
    memory_slices = range(new.start, new.start + profile.size)
    if any(_overlap(memory_slices, _memory_slices(model, instance)) for instance in instances):
        return "another instance uses its memory slices"
    if sum(1 for instance in instances if instance.profile == new.profile) >= profile.max_instances:
        return f"the GPU has its maximum of {profile.max_instances} instances of the profile"
    if (
        sum(model.profiles_by_id[each.profile].slices for each in instances) + profile.slices
        > model.compute_slices
    ):
        return "too few compute slices are free"
    return ""


def assign_instance_id(model: GpuModel, new: InstanceState) -> int:
    """Return the ID that the card assigns to a GPU instance.

    The IDs number the nodes of a binary tree from its root. The root is the whole memory, and each node has two
    children with half of its memory.
    """
    size = model.profiles_by_id[new.profile].size
    return model.memory_slices // size - 1 + new.start // size


def _memory_slices(model: GpuModel, instance: InstanceState) -> range:
    return range(instance.start, instance.start + model.profiles_by_id[instance.profile].size)


def _overlap(one: range, other: range) -> bool:
    return one.start < other.stop and other.start < one.stop
