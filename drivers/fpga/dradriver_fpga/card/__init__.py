"""The FPGA cards of a node: what they are, what they hold, and what becomes of them.

Law of this package: hardware's words only. It knows cards, regions, slots, managers and bitstreams, and nothing
of claims, pools or Kubernetes. `hardware.Hardware` is the one door; behind it stand the kernel (`real`: sysfs,
uevents, device nodes) and a simulator (`simulator`) that obeys the same rules; one contract suite holds both to
them. Whatever blocks runs on threads of `Cards`.
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
