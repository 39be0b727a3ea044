"""CDI edits for GPUs and MIG devices: device nodes, files of the driver and hooks.

Law of this package: it reads the node and returns edits. It must change neither the node nor a container. A
container gets only the device nodes of its allocated devices. Edits specify device nodes by number, so the
device nodes need not exist on the host.

- `edits`: `GpuContainers`, the entry point.
- `base_spec`: common edits from the CDI spec of NVIDIA's container toolkit.
- `device_nodes`: device nodes of GPUs and MIG devices, and control nodes.
- `device_numbers`: major and minor numbers from procfs.
- `libraries`: libraries of the driver, and the links by which programs load them.
- `files`: mounts of programs, firmware, sockets and configuration files.
- `hooks`: hooks that make the mounted files usable.
"""

from dradriver_gpu_mig.container.edits import GpuContainers

__all__ = ["GpuContainers"]
