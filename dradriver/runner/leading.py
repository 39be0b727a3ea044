"""Run a driver of the control plane in several processes: only the holder of the Lease works."""

import asyncio
from functools import partial
from typing import Protocol

from dradriver.kube.leader import Leader
from dradriver.kube.leading import Leadership
from dradriver.runner.endpoints import HasMetrics, Process

__all__ = ["LeadingProcess"]


class _Work(Process, Protocol):
    """The process of a driver of the control plane."""

    async def run(self, stop: asyncio.Event, grace: float) -> None:
        """Work until `stop` is set; then the driver may take `grace` seconds."""


class LeadingProcess:
    """Runs a driver of the control plane while its process is the leader; call `await run(stop, grace)` once.

    Args:
        process: runs the driver.
        leader: the candidate for the Lease.

    Attributes:
        metrics: the metrics of the process.
    """

    def __init__(self, process: _Work, leader: Leader) -> None:
        self.metrics: HasMetrics = process.metrics
        self._process = process
        self._leadership = Leadership(leader)

    @property
    def readiness(self) -> str:
        """Return why the process neither works nor waits for the Lease; empty if it works or waits.

        A waiting process counts as ready, so that a rollout of a Deployment continues. No Service sends
        requests to the process.
        """
        return self._process.readiness if self._leadership.is_working else self._leadership.problem

    async def liveness(self) -> str:
        """Return the liveness of the process."""
        return await self._process.liveness()

    async def run(self, stop: asyncio.Event, grace: float) -> None:
        """Wait for the Lease, run the driver until `stop` is set, and release the Lease.

        Raises:
            LeaseLostError: the Lease could not be renewed.
            Exception: a background task failed because of a defect. The caller should end the process, so that
                the process is restarted.
        """
        await self._leadership.run(partial(self._process.run, stop, grace), stop)
