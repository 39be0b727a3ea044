"""`dradriver simulate`: what would be allocated, from files and without a cluster.

The allocator decides; here is only the little world around it: which pods there are, in which order, and on
which nodes they are tried.
"""

from dradriver.cli.simulation.command import simulate

__all__ = ["simulate"]
