"""MIG instances for claims: each instance is recorded before its creation, and destroyed after any failure.

Law of this package: the hardware decides which instances exist, and the records decide who owns them. The
record of an instance must be on disk before the first call that creates a part of the instance. The record must
be deleted only after the last call that destroys a part of the instance. A GPU instance with a record therefore
belongs to this driver, even if the instance is incomplete. An instance without a record belongs to another
program or user, and this package must never change it.

- `reconcile`: `InstanceReconciler`, which executes the steps.
- `steps`: the table from which the next step is read.
- `record`: the record of an allocated device.
- `record_store`: the records on disk.
"""

from dradriver_gpu_mig.instances.reconcile import InstanceReconciler
from dradriver_gpu_mig.instances.record import (
    DeviceRecord,
    HeldRecord,
    Holder,
    PassedFunction,
    PassedGpu,
    ProfilePlacement,
    RecordState,
)
from dradriver_gpu_mig.instances.record_store import RecordStore

__all__ = [
    "DeviceRecord",
    "HeldRecord",
    "Holder",
    "InstanceReconciler",
    "PassedFunction",
    "PassedGpu",
    "ProfilePlacement",
    "RecordState",
    "RecordStore",
]
