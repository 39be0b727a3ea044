"""A complete DRA driver that gives the loop devices of this machine to containers.

- `driver`: `LoopDriver`, the driver, and `LoopConfig`, its parameters.
- `hardware`: finds and creates loop devices.
"""

from dradriver_loop.driver import LoopConfig, LoopDriver

__all__ = ["LoopConfig", "LoopDriver"]
