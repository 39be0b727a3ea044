"""The node's usage note: which devices of a pool driver are in use on the node (`node_releases`).

A pool driver detaches a device only after the node has released it. The node says so in its usage note, a
ConfigMap. Both sides follow a protocol in two steps, without caches:

- The node writes the note, then it reads the claim. It uses the device only if the allocation still stands.
- The controller sees that the allocation is gone, then it reads the note. It detaches the device only if the
  note does not list it.

An ended allocation never stands again, so at least one of the two sees the other. The note is computed from the
prepared state. A claim is recorded there before the note is written, and its record is deleted only after
`unprepare`.

Modules that other rooms use:

- `note`: the content of the note (pure).
- `writer`: keeps the note equal to the prepared state, and lets a claim use its devices.
- `allocations`: compares a recorded claim with the claim in the API server.
- `attach_uses`: records a claim while `attach` runs for its devices.
"""
