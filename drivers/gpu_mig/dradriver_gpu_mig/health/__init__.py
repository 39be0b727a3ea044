"""Health of devices: turns events and observations of the cards into taints and health reports.

Law of this package: it is pure except for one file of findings. NVML reports an event once, so the file lets a
new process know the events that the previous process received.

- `findings`: errors of GPUs, the devices that they affect, and when they end.
- `findings_file`: the file of findings.
- `presence`: decides which GPUs are lost.
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
