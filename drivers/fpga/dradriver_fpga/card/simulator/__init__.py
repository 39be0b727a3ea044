"""Cards without hardware, for demonstrations and tests.

Law of this package: it answers as the kernel answers for a real card, refusals included, and the facts of a
card are data (`cards.toml`), never code. Its state outlives the process where it is kept in a file, and what
was begun goes on in it while no process looks.
"""

from dradriver_fpga.card.simulator.catalog import CATALOG, CardModel, Shell
from dradriver_fpga.card.simulator.hardware import SimulatedHardware
from dradriver_fpga.card.simulator.state import FileStore, MemoryStore, Store

__all__ = ["CATALOG", "CardModel", "FileStore", "MemoryStore", "Shell", "SimulatedHardware", "Store"]
