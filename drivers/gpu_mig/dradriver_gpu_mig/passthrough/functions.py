"""Which functions of an IOMMU group a GPU brings along, and why a group is refused. Pure functions."""

from collections.abc import Mapping, Sequence

import dradriver as dra
from dradriver_gpu_mig.instances import PassedFunction
from dradriver_gpu_mig.passthrough.pci import VFIO_DRIVER, IommuGroup, PciFunctionState
from dradriver_gpu_mig.passthrough.steps import ObservedDriver

__all__ = ["NVIDIA_DRIVER", "find_unfinished", "observe_driver", "select_functions"]

NVIDIA_DRIVER = "nvidia"


def select_functions(address: str, group: IommuGroup | None) -> tuple[PassedFunction, ...]:
    """Return the functions that must be bound to pass a GPU: all of its card, for example its audio function.

    A bridge may stay with its driver (Linux, Documentation/driver-api/vfio.rst).

    Args:
        address: PCI address of the GPU.
        group: the GPU's IOMMU group.

    Raises:
        DraError: the node has no IOMMU, the GPU has another driver than NVIDIA's, or the group contains a
            function of another card.
    """
    if group is None:
        raise dra.DraError(
            f"GPU {address}: it has no IOMMU group: switch the IOMMU on (firmware, kernel parameter "
            "intel_iommu=on or amd_iommu=on)"
        )
    card = address.rpartition(".")[0]
    functions = [function for function in group.functions if not function.is_bridge]
    others = [function for function in functions if function.address.rpartition(".")[0] != card]
    if others:
        names = ", ".join(f"{each.address} (driver {each.driver or 'none'})" for each in others)
        raise dra.DraError(
            f"GPU {address}: its IOMMU group {group.number} also contains {names}, and a virtual machine would "
            "get access to all of them"
        )
    gpu = next((function for function in functions if function.address == address), None)
    if gpu is None or gpu.driver != NVIDIA_DRIVER:
        driver = gpu.driver if gpu else None
        raise dra.DraError(
            f"GPU {address}: it is bound to {driver or 'no driver'}, and only a GPU of the driver "
            f"{NVIDIA_DRIVER} is passed"
        )
    # The GPU is the last: while it has its driver, a failure at another function has changed no GPU.
    ordered = sorted(functions, key=lambda function: function.address == address)
    return tuple(PassedFunction(address=each.address, driver=each.driver) for each in ordered)


def observe_driver(
    functions: Sequence[PassedFunction], present: Mapping[str, PciFunctionState]
) -> ObservedDriver:
    """Return which driver the functions have.

    Args:
        functions: the recorded functions.
        present: the functions in sysfs by address. A function that is missing was removed: there is nothing to
            return.
    """
    if present and all(each.driver == VFIO_DRIVER for each in present.values()):
        return ObservedDriver.VFIO
    if not find_unfinished(functions, present):
        return ObservedDriver.HOST
    return ObservedDriver.MIXED


def find_unfinished(
    functions: Sequence[PassedFunction], present: Mapping[str, PciFunctionState]
) -> list[PassedFunction]:
    """Return the functions that do not have their own driver, or that only vfio-pci may have.

    Args:
        functions: the recorded functions.
        present: the functions in sysfs by address.
    """
    return [
        each
        for each in functions
        if (state := present.get(each.address)) is not None
        and (state.driver != each.driver or state.override == VFIO_DRIVER)
    ]
