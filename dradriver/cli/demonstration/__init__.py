"""`dradriver demo`: shows devices from discovery to a container.

After each event, a line is printed with the name and version of the object that has changed.

- `command`: the command.
- `story`: the steps of a demonstration.
- `shows`: the drivers that can be shown, and their manifests.
- `hotplug`: plugs and pulls simulated cards.
- `waiting`: waits for objects of the cluster.
"""

from dradriver.cli.demonstration.command import demo

__all__ = ["demo"]
