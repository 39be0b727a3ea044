"""The FPGA cards of a node: their properties, their content and their changes.

Law of this package: it knows cards, regions, slots, managers and bitstreams, and nothing of claims, pools or
Kubernetes. `hardware.Hardware` is the only interface. The kernel (`real`: sysfs, uevents, device nodes) and a
simulator (`simulator`) implement it with the same rules, and one contract suite tests both. Blocking calls run
on the threads of `Cards`.

- `hardware`: `Hardware`, the interface.
- `cards`: `Cards`, the interface for asyncio.
- `values`: properties of cards as frozen values.
- `errors`: one class for each error that callers distinguish.
- `health`: faults of a card.
- `images`: reads bitstream files.
- `names`: device names from card IDs.
- `poll_schedule`: decides when the cards are read again.
- `threads`: runs a blocking call on its own thread.
- `real`: real cards.
- `simulator`: cards without hardware.
"""

from dradriver_fpga.card.cards import (
    Cards,
)
from dradriver_fpga.card.errors import (
    BusyError,
    CardError,
    CardGoneError,
    IncompatibleError,
    ManagerFailedError,
    NoPermissionError,
    NotSupportedError,
    ProgrammingTimedOutError,
    TargetNotFoundError,
    TooLargeError,
    ToolFailedError,
    UnreadableBitstreamError,
    WrongDigestError,
)
from dradriver_fpga.card.hardware import (
    Hardware,
)
from dradriver_fpga.card.health import (
    Fault,
    FaultKind,
    faults,
)
from dradriver_fpga.card.images import (
    make_gbs,
)
from dradriver_fpga.card.values import (
    BLANK_ID,
    Bitstream,
    Bridge,
    Card,
    CardKind,
    CardNode,
    Manager,
    ManagerState,
    Mechanism,
    Region,
    Slot,
    normal_id,
)

__all__ = [
    "BLANK_ID",
    "Bitstream",
    "Bridge",
    "BusyError",
    "Card",
    "CardError",
    "CardGoneError",
    "CardKind",
    "CardNode",
    "Cards",
    "Fault",
    "FaultKind",
    "Hardware",
    "IncompatibleError",
    "Manager",
    "ManagerFailedError",
    "ManagerState",
    "Mechanism",
    "NoPermissionError",
    "NotSupportedError",
    "ProgrammingTimedOutError",
    "Region",
    "Slot",
    "TargetNotFoundError",
    "TooLargeError",
    "ToolFailedError",
    "UnreadableBitstreamError",
    "WrongDigestError",
    "faults",
    "make_gbs",
    "normal_id",
]
