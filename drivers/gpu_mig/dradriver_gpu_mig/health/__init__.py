"""Health of devices: turns events and observations of the cards into taints and health reports.

Law of this package: all of its code must be pure, except the code that reads and writes the file of findings.
NVML reports an event only once, so a new process learns from this file which events the previous process
received.

- `findings`: errors and losses of GPUs, the devices that these affect, and when they end.
- `recovery_actions`: what a GPU itself says must be done, and the taint for each action.
- `xids`: NVIDIA's catalog of error numbers.
- `findings_file`: the file of findings.
"""

from dradriver_gpu_mig.health.findings import (
    READS_UNTIL_LOST,
    Finding,
    FindingSubject,
    add_finding,
    classify_event,
    compute_taints,
    count_lost_reads,
    drop_ended,
    find_missing_device,
    is_lost_error,
    make_lost_finding,
    make_recovery_finding,
    make_reset_finding,
    report_health,
    requires_scan,
)
from dradriver_gpu_mig.health.findings_file import read_findings, write_findings

__all__ = [
    "READS_UNTIL_LOST",
    "Finding",
    "FindingSubject",
    "add_finding",
    "classify_event",
    "compute_taints",
    "count_lost_reads",
    "drop_ended",
    "find_missing_device",
    "is_lost_error",
    "make_lost_finding",
    "make_recovery_finding",
    "make_reset_finding",
    "read_findings",
    "report_health",
    "requires_scan",
    "write_findings",
]
