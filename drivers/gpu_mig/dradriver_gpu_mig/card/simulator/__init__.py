"""Cards without hardware, for demonstrations and tests.

Law of this package: it answers as NVML answers for the real card, refusals included, and the facts of a card
are data (`cards.toml`), never code. Its state outlives the process where it is kept in a file.
"""

from dradriver_gpu_mig.card.simulator.catalog import CATALOG, CardModel, CardProfile
from dradriver_gpu_mig.card.simulator.hardware import SimulatedHardware
from dradriver_gpu_mig.card.simulator.state import FileStore, MemoryStore, Store

__all__ = ["CATALOG", "CardModel", "CardProfile", "FileStore", "MemoryStore", "SimulatedHardware", "Store"]
