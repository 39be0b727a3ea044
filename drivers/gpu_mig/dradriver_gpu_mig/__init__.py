"""DRA driver for NVIDIA GPUs: whole GPUs and their MIG partitions, over NVML.

Law of this package: the driver must read the size, profiles and placements of a card from the card, never from
code. Only `card` touches hardware. All other modules reach the hardware through the names that `card` exports.

- `driver`: `GpuDriver`, the class that the SDK calls.
- `factory`: builds the real hardware and container edits from the settings.
- `settings`: operator settings of a node (`$GPU_MIG_SETTINGS`).
- `configs`: opaque parameters of claims and device classes.
- `node`: the cards of a node, their devices and their health.
- `snapshot`: one consistent view of all cards.
- `scan`: reads all cards at the same time.
- `prepare`: prepares and unprepares claims.
- `containers`: interface to the container edits, and its simulated implementation.
- `card`: the hardware, real (NVML) or simulated.
- `container`: CDI edits for real cards.
- `files`: files that outlive the process.
- `health`: converts errors of GPUs into taints and health reports.
- `host`: files of NVIDIA's driver on the node.
- `instances`: creates and destroys MIG instances with crash recovery.
- `mps`: one MPS control daemon for each claim that requests MPS.
- `offer`: computes the pool of devices.
- `mps`: an MPS control daemon for each claim that requests MPS.
- `passthrough`: passes whole GPUs to virtual machines.
"""

from dradriver_gpu_mig.configs import GpuConfig, MigDeviceConfig, VfioDeviceConfig
from dradriver_gpu_mig.driver import GpuDriver

__all__ = ["GpuConfig", "GpuDriver", "MigDeviceConfig", "VfioDeviceConfig"]
