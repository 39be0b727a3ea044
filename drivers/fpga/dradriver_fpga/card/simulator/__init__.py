"""Simulated cards for demonstrations and tests.

Law of this package: it answers as the kernel does for a real card, errors included. Facts of a card are data
(`cards.toml`), never code. Its state outlives the process if it is kept in a file, and programming continues
while no process runs.

- `hardware`: `SimulatedHardware`, the implementation of `Hardware`.
- `catalog`: the models that can be simulated.
- `progress`: progress of programming over time.
- `state`: the state of a node's cards, in memory or in a file.
- `views`: converts the state to the values of `card`.
- `bitstreams`: bitstream files for the example manifests.
"""

from dradriver_fpga.card.simulator.catalog import CATALOG, CardModel, Shell
from dradriver_fpga.card.simulator.hardware import SimulatedHardware
from dradriver_fpga.card.simulator.state import FileStore, MemoryStore, Store

__all__ = ["CATALOG", "CardModel", "FileStore", "MemoryStore", "Shell", "SimulatedHardware", "Store"]
