"""The claims of a node: prepare and unprepare them, and repair lost records and files.

Modules that other rooms use:

- `lookup`: reads claims from the API server and extracts the devices of this driver.
- `prepare`: prepares a claim in stages; lists what happens if the process dies after each stage.
- `unprepare`: reverts a prepare.
- `context`: the dependencies that all operations share.
- `rebuild`: fills the prepared state from the API server, the CDI specs and the driver.
- `reconcile`: unprepares claims that are gone and restores lost files.
- `claim_status`: writes `status.devices` of claims.
- `metadata_updates`: updates device metadata that the driver learns after a prepare.

Modules that only this room uses:

- `acceptance`: checks a claim in the transaction that records it.
- `conflicts`: finds devices that cannot be prepared together with devices that are already prepared (no I/O).
- `driver_results`: checks the driver's return values.
- `operations`: runs work on claims, even if the work takes longer than the kubelet's call.
"""
