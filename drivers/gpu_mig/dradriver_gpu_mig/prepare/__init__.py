"""Prepares and unprepares claims, device by device.

Law of this package: each change to a card is recorded before it is made, and unprepare reverts what the record
says. Prepare and unprepare can therefore be repeated after a crash at any point.

- `claims`: `ClaimPreparer`; a table says which module prepares which kind of device.
- `existing`: whole GPUs and MIG devices that exist already.
- `dynamic_mig`: MIG devices that are created for claims.
- `passthrough_gpus`: GPUs for virtual machines.
- `admin_access`: monitors of devices that other claims have.
- `mps_daemons`: what the MPS control daemon of a claim serves.
- `mig_mode`: switches MIG on and off.
- `results`: container edits and metadata of a device.
- `sharing`: what a configuration says about compute mode, time slice and MPS.
"""

from dradriver_gpu_mig.prepare.claims import ClaimPreparer

__all__ = ["ClaimPreparer"]
