"""`dradriver simulate`: shows where pods would be placed and with which devices, from files without a cluster.

The scheduler's filters and the allocator decide, pod by pod. Each allocation counts for the pods after it.

Law of this package: it updates the simulated world and measures the time. Loading is not part of the
measurement.

- `command`: the command.
- `run`: places the pods one after the other.
- `report`: the result for people and programs.
"""

from dradriver.cli.simulation.command import simulate

__all__ = ["simulate"]
