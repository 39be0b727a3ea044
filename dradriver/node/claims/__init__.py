"""The claims of a node: prepare them, unprepare them, and repair what was lost.

Modules:

- `lookup`: reads claims from the API server and extracts the driver's own part.
- `prepare`: the stages of a prepare, each with its crash consequence.
- `unprepare`: reverts a prepare.
- `acceptance`: checks a claim in the transaction that records it.
- `conflicts`: which devices may be prepared beside the prepared ones (pure).
- `driver_results`: checks the driver's return values.
- `operations`: work on claims that may outlast the kubelet's call.
- `context`: the dependencies that all operations share.
- `rebuild`: fills the prepared state from the API server, the CDI specs and the driver.
- `reconcile`: unprepares claims that are gone and restores lost files.
- `claim_status`: writes `status.devices` of claims.
- `metadata_updates`: device metadata that the driver learns after a prepare.
"""
