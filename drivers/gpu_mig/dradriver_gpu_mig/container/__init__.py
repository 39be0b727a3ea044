"""What a container gets to use a GPU or a MIG device: device nodes, files of the driver, hooks.

Law of this package: it reads this node and describes edits; it changes neither. A container gets the nodes of
what it was allocated and no others, by number, so that they need not exist on the host.
"""

from dradriver_gpu_mig.container.edits import GpuContainers

__all__ = ["GpuContainers"]
