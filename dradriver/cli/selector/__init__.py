"""`dradriver cel`: a device selector tried on devices, before it stands in a claim or a class."""

from dradriver.cli.selector.command import cel

__all__ = ["cel"]
