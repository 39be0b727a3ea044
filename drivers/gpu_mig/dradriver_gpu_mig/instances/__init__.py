"""MIG instances for claims: each is recorded before it is created, and it is removed after any failure.

Law of this package: the hardware decides which instances exist, and the records decide who owns them. A record
is on disk before the first call that creates something, and it is removed after the last call that destroys it.
A GPU instance with a record therefore belongs to this driver, however complete it is. An instance without a
record belongs to another program or user, and it is never touched.

- `reconcile`: `InstanceReconciler`, which executes the steps.
- `steps`: table that gives the next step.
- `record`: the record of an allocated device.
- `record_store`: the records on disk.
"""

from dradriver_gpu_mig.instances.reconcile import InstanceReconciler
from dradriver_gpu_mig.instances.record import Place, Record, State
from dradriver_gpu_mig.instances.record_store import RecordStore

__all__ = ["InstanceReconciler", "Place", "Record", "RecordStore", "State"]
