"""Benchmarks of dradriver beside a Go driver that is measured in the same run.

They print figures without a verdict.

- `__main__`: runs the benchmarks of a node and prints one table.
- `node`: cost of a driver on a node.
- `driver`: the measured Python driver.
- `peers`: the Python and Go drivers as programs.
- `bed`: starts a driver without a kubelet.
- `server`, `servers`: the API server of a run.
- `report`: the table of medians.
- `uevents`: storms of uevents for the FPGA driver.
- `waiting`: pods that wait for binding conditions.
- `scheduling`: the scheduler alone.
- `embedded`: the scheduler with the API server in the same process.
- `allocator`: cost and packing of allocation.
- `soak`: growth of processes over thousands of pods.
"""
