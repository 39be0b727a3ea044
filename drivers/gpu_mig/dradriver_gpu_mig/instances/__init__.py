"""Instances that are made for claims: recorded first, then made, and taken back whatever happens between.

Law of this package: the hardware decides what is there, the records decide whose it is. A record is on disk
before the first call that makes something and goes after the last one that destroys it, so a GPU instance with
a record is ours, however far it got, and one without is somebody else's and is never touched.
"""

from dradriver_gpu_mig.instances.reconcile import InstanceReconciler
from dradriver_gpu_mig.instances.record import Place, Record, State
from dradriver_gpu_mig.instances.record_store import RecordStore

__all__ = ["InstanceReconciler", "Place", "Record", "RecordStore", "State"]
