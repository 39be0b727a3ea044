"""`dradriver simulate`: where pods would go and with which devices, from files and without a cluster.

The scheduler's filters and the allocator decide, pod by pod; each allocation holds for the pods that follow.
Law of this package: it keeps the little world up to date, and measures; loading is no part of what is measured.
"""

from dradriver.cli.simulation.command import simulate

__all__ = ["simulate"]
