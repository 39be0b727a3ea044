"""The driver's part of binding conditions (KEP-5007): attach allocated devices, report, detach.

Law of this package: the next work for a claim is a pure function of the claim (`attachment_diff`). The claim's
record of attachments is in its metadata: it is written before the hardware is changed, and removed after the
hardware is released. The loop (`controller`) only executes the result of that function, and the next process
can continue all of it. A failure condition is set only after the scheduler can no longer allocate the device
(`quarantine.bad_devices`). On a node (`on_node`) no record is kept: changes to a device stay there, and the
next process finds them.

Modules:

- `controller`: the loop of a `BindingDriver`.
- `on_node`: the loop of a `NodeBindingDriver`.
- `attachment_diff`: the next work for a claim, and its record of attachments (pure).
- `attaching`: calls `attach` and writes the result to the claim's status.
- `claim_tasks`: one task for each claim with work to do.
- `claims`: the claim in the form that a binding driver receives.
- `pods`: whether a pod runs with a claim.
- `time_limits`: calls of `attach` and `detach` with a time limit.
- `answers`: checks the result of `attachments()`.
- `reports`: metrics and events about stuck attachments.

Rooms:

- `quarantine`: taints that keep new claims away from failed devices.
- `writes`: writes conditions and records of attachments to claims.
"""
