"""A whole DRA driver: the loop devices of this machine, one by one, for containers."""

from dradriver_loop.driver import LoopConfig, LoopDriver

__all__ = ["LoopConfig", "LoopDriver"]
