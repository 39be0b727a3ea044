"""`dradriver cel`: tries a device selector on devices before it is used in a claim or a class.

- `command`: the command.
- `trial`: evaluates a selector on many devices.
"""

from dradriver.cli.selector.command import cel

__all__ = ["cel"]
