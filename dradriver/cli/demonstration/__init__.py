"""`dradriver demo`: shows real devices of this machine from discovery to a container.

A line is printed after its event, with the name and version of the object that shows it.

- `command`: the command.
- `story`: the steps of a demonstration.
- `shows`: the drivers that can be shown.
- `packages`: installed drivers and their manifests.
- `hotplug`: plugs and pulls simulated cards.
- `waiting`: waits for objects of the cluster.
"""

from dradriver.cli.demonstration.command import demo

__all__ = ["demo"]
