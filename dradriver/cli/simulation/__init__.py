"""`dradriver simulate`: shows on which nodes and with which devices the pods in files would be placed.

The scheduler's filters and the allocator decide for one pod after another. Each allocation counts for the pods
after it.

Law of this package: it must change only the simulated world, and must not include loading in the measured time.

- `command`: the command.
- `run`: places the pods one after another.
- `report`: the result for people and programs.
"""

from dradriver.cli.simulation.command import simulate

__all__ = ["simulate"]
