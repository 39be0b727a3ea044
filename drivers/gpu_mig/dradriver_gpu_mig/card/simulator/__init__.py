"""Simulated cards for demonstrations and tests.

Law of this package: the simulator must answer as NVML does for the real card, including errors. Facts about a
card must be data (`cards.toml`), never code. If the state is kept in a file, it outlives the process.

- `hardware`: `SimulatedGpus`, the implementation of `GpuHardware`.
- `catalog`: the models that can be simulated.
- `rules`: which instances fit on a card.
- `state`: the state of a node's GPUs, in memory or in a file.
- `views`: converts the state to the classes of `card.values`, such as `Gpu`.
"""

from dradriver_gpu_mig.card.simulator.catalog import CATALOG, GpuModel, ModelProfile
from dradriver_gpu_mig.card.simulator.hardware import SimulatedGpus
from dradriver_gpu_mig.card.simulator.state import GpuFileStore, GpuMemoryStore, GpuStore

__all__ = ["CATALOG", "GpuFileStore", "GpuMemoryStore", "GpuModel", "GpuStore", "ModelProfile", "SimulatedGpus"]
