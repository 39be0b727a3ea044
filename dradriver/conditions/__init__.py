"""The driver's part of binding conditions (KEP-5007): attach allocated devices, report, detach.

Law of this package: the next work for a claim is a pure function of the claim (`attachment_diff`). The claim's
record of attachments is in its metadata: it is written before the hardware is changed, and removed after the
hardware is released. The loop (`controller`) only executes the result of that function, so the next process can
continue any unfinished work. A failure condition is set only after the scheduler can no longer allocate the
device (`quarantine.bad_devices`). On a node (`on_node`) no record is kept, because nothing is detached there:
if a claim has no result yet, the next process calls `attach` for it again.

Modules:

- `controller`: the loop of a `BindingDriver`.
- `on_node`: the loop of a `NodeBindingDriver`.
- `attachment_diff`: the next work for a claim, and its record of attachments (pure).
- `declared`: devices whose binding conditions the API server drops, and the decision for their nodes (pure).
- `attaching`: calls `attach` and writes the result to the claim's status.
- `node_failures`: taints devices that failed on a node, and sets their failure conditions.
- `orphans`: detaches attachments to which no claim refers.
- `driver_values`: the claim that a binding driver receives, and the attachments that it returns.
- `time_limits`: calls of `attach` and `detach` with a time limit.
- `reports`: metrics and events about stuck attachments.

Rooms:

- `releases`: nodes release devices before they are detached.
- `quarantine`: taints that keep new claims away from failed devices.
- `writes`: writes conditions and records of attachments to claims.
"""
