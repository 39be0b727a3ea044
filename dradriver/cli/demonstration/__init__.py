"""`dradriver demo`: real devices of this machine, all the way into a container, told as it happens.

A line is printed after what it tells of has happened, with the name and version of the object that shows it.
"""

from dradriver.cli.demonstration.command import demo

__all__ = ["demo"]
