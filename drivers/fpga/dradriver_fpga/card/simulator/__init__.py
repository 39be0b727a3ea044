"""Simulated cards for demonstrations and tests.

Law of this package: the simulator must answer as the kernel does for a real card, including errors. Facts about
a card must be data (`cards.toml`), never code. If the state is kept in a file, it outlives the process, and
programming continues while no process runs.

- `hardware`: `SimulatedFpgas`, the implementation of `FpgaHardware`.
- `catalog`: the models that can be simulated.
- `progress`: progress of programming over time.
- `state`: the state of a node's cards, in memory or in a file.
- `views`: converts the state to the values of `card`.
- `bitstreams`: bitstream files for the example manifests.
"""

from dradriver_fpga.card.simulator.catalog import CATALOG, FpgaModel, Shell
from dradriver_fpga.card.simulator.hardware import SimulatedFpgas
from dradriver_fpga.card.simulator.state import FpgaFileStore, FpgaMemoryStore, FpgaStore

__all__ = ["CATALOG", "FpgaFileStore", "FpgaMemoryStore", "FpgaModel", "FpgaStore", "Shell", "SimulatedFpgas"]
