"""Simulated cards for demonstrations and tests.

Law of this package: it answers as NVML does for the real card, errors included. Facts of a card are data
(`cards.toml`), never code. Its state outlives the process if it is kept in a file.

- `hardware`: `SimulatedHardware`, the implementation of `Hardware`.
- `catalog`: the models that can be simulated.
- `rules`: which instances fit on a card.
- `state`: the state of a node's GPUs, in memory or in a file.
- `views`: converts the state to the values of `card`.
"""

from dradriver_gpu_mig.card.simulator.catalog import CATALOG, CardModel, CardProfile
from dradriver_gpu_mig.card.simulator.hardware import SimulatedHardware
from dradriver_gpu_mig.card.simulator.state import FileStore, MemoryStore, Store

__all__ = ["CATALOG", "CardModel", "CardProfile", "FileStore", "MemoryStore", "SimulatedHardware", "Store"]
