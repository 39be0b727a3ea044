"""What is wrong with devices: from events and looks at the cards to taints and reports.

Law of this package: pure but for one file of findings, so that a new process knows what the last one was told;
NVML tells an event once.
"""

from dradriver_gpu_mig.health.findings import (
    Finding,
    Where,
    found_in,
    gone,
    lost,
    reports,
    reset_required,
    still_true,
    taints,
    with_news,
)
from dradriver_gpu_mig.health.findings_file import read_notes, write_notes
from dradriver_gpu_mig.health.presence import LOOKS, count_losses, says_lost

__all__ = [
    "LOOKS",
    "Finding",
    "Where",
    "count_losses",
    "found_in",
    "gone",
    "lost",
    "read_notes",
    "reports",
    "reset_required",
    "says_lost",
    "still_true",
    "taints",
    "with_news",
    "write_notes",
]
