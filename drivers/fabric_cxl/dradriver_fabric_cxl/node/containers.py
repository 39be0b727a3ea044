"""CDI edits and metadata of a device. Pure.

| device | device nodes | variables |
|---|---|---|
| memory as `devdax` | `/dev/cxl/NAME` | `CXL_MEMORY_NAME` (the path), `…_BYTES`, `…_ALIGN` |
| memory as `system-ram` | none | `CXL_MEMORY_NAME_NUMA_NODE`, `…_BYTES` |
| accelerator | those of the node, under their paths on the node | `CXL_ACCELERATOR_NAME` (the PCI address) |

`NAME` is the device's name. The name of a share ends with the first digits of the share's ID. Variables have
the name in upper case, with `_` for each other character than letters and digits. The path of the memory is
stable: the kernel's own name, `/dev/dax0.0`, comes again for other memory.
"""

import re
from typing import Final

import dradriver as dra
from dradriver_fabric_cxl.accelerator import AttachedAccelerator
from dradriver_fabric_cxl.memory import MemoryMode, UsableMemory

__all__ = ["prepare_accelerator", "prepare_memory"]

_SHARE_DIGITS: Final = 8


def prepare_memory(device: dra.AllocatedDevice, memory: UsableMemory) -> dra.PreparedDevice:
    """Return memory as containers get it.

    Args:
        device: the device of the claim.
        memory: its memory, which is ready to be used.
    """
    variable, numbers = _make_variable("CXL_MEMORY", device), {"BYTES": memory.bytes}
    metadata: dict[str, str | int | list[int]] = {
        "type": "memory",
        "mode": memory.mode.value,
        "bytes": memory.bytes,
    }
    if memory.numa_node >= 0:
        metadata |= dra.numa_attribute(memory.numa_node)
    if memory.mode is MemoryMode.SYSTEM_RAM:
        numbers["NUMA_NODE"] = memory.numa_node
        return dra.PreparedDevice(_make_edits(variable, numbers), metadata=metadata)
    path = f"/dev/cxl/{_make_label(device)}"
    numbers["ALIGN"] = memory.align
    metadata |= {"path": path, "align": memory.align}
    node = dra.DeviceNode(path, type="c", major=memory.major, minor=memory.minor, permissions="rw")
    edits = dra.ContainerEdits({variable: path}, [node]) | _make_edits(variable, numbers)
    return dra.PreparedDevice(edits, metadata=metadata)


def prepare_accelerator(device: dra.AllocatedDevice, accelerator: AttachedAccelerator) -> dra.PreparedDevice:
    """Return an accelerator as containers get it.

    Args:
        device: the device of the claim.
        accelerator: the accelerator on this node.
    """
    edits = dra.ContainerEdits(
        {_make_variable("CXL_ACCELERATOR", device): accelerator.address},
        [
            dra.DeviceNode(node.path, type="c", major=node.major, minor=node.minor, permissions="rw")
            for node in accelerator.nodes
        ],
    )
    metadata = {"type": "accelerator", "resource.kubernetes.io/pciBusID": accelerator.address}
    return dra.PreparedDevice(edits, metadata=metadata)


def _make_label(device: dra.AllocatedDevice) -> str:
    """Return the device's name in paths and variables; two shares of one device have different ones."""
    return f"{device.name}-{device.share_id[:_SHARE_DIGITS]}" if device.share_id else device.name


def _make_variable(prefix: str, device: dra.AllocatedDevice) -> str:
    return f"{prefix}_{re.sub('[^A-Z0-9]', '_', _make_label(device).upper())}"


def _make_edits(variable: str, numbers: dict[str, int]) -> dra.ContainerEdits:
    return dra.ContainerEdits({f"{variable}_{name}": str(number) for name, number in numbers.items()})
