"""`dradriver dashboard`: serves a read-only page with the devices of a cluster.

- `command`: the command.
- `explaining`: explains why pods and claims wait, from the cached objects.
"""

from dradriver.cli.dashboard.command import dashboard

__all__ = ["dashboard"]
