"""`dradriver cel`: evaluates a device selector on devices, so that users can test it before use.

- `command`: the command.
- `trial`: evaluates a selector on many devices.
"""

from dradriver.cli.selector.command import cel

__all__ = ["cel"]
