"""The FPGA cards of a node: their properties, their content and their changes.

Law of this package: it knows cards, regions, slots, managers and bitstreams. It must not know claims, pools or
Kubernetes. `hardware.FpgaHardware` is the only interface. The kernel (`real`: sysfs, uevents, device nodes) and
a simulator (`simulator`) implement this interface, and one contract suite tests both implementations. Blocking
calls run on the threads of `FpgaCards`.

- `hardware`: `FpgaHardware`, the interface.
- `cards`: `FpgaCards`, the interface for asyncio.
- `values`: properties of cards as frozen values, and their device names.
- `errors`: one class for each error that callers distinguish.
- `faults`: kinds of faults. `health`: finds the faults of a card.
- `images`: verifies bitstream files and reads their headers.
- `verified_files`: private copies of verified files.
- `poll_schedule`: decides when the cards are read again.
- `real`: real cards.
- `simulator`: cards without hardware.
"""

from dradriver_fpga.card.cards import FpgaCards
from dradriver_fpga.card.errors import (
    BusyError,
    CardGoneError,
    FpgaError,
    FpgaNotSupportedError,
    FpgaPermissionError,
    IncompatibleError,
    ManagerFailedError,
    ProgrammingTimedOutError,
    TargetNotFoundError,
    TooLargeError,
    ToolFailedError,
    UnreadableBitstreamError,
    WrongDigestError,
)
from dradriver_fpga.card.faults import Fault, FaultKind
from dradriver_fpga.card.hardware import FpgaHardware
from dradriver_fpga.card.health import find_faults
from dradriver_fpga.card.values import (
    BLANK_ID,
    Bitstream,
    Bridge,
    CardKind,
    CardNode,
    FpgaCard,
    Manager,
    ManagerState,
    Mechanism,
    Platform,
    Region,
    Slot,
    normalize_id,
)

__all__ = [
    "BLANK_ID",
    "Bitstream",
    "Bridge",
    "BusyError",
    "CardGoneError",
    "CardKind",
    "CardNode",
    "Fault",
    "FaultKind",
    "FpgaCard",
    "FpgaCards",
    "FpgaError",
    "FpgaHardware",
    "FpgaNotSupportedError",
    "FpgaPermissionError",
    "IncompatibleError",
    "Manager",
    "ManagerFailedError",
    "ManagerState",
    "Mechanism",
    "Platform",
    "ProgrammingTimedOutError",
    "Region",
    "Slot",
    "TargetNotFoundError",
    "TooLargeError",
    "ToolFailedError",
    "UnreadableBitstreamError",
    "WrongDigestError",
    "find_faults",
    "normalize_id",
]
