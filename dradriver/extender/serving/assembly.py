"""Build the scheduler's process from its settings."""

import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from prometheus_client import CollectorRegistry

from dradriver.control.runtime.metrics import ControlMetrics
from dradriver.control.settings import SchedulerSettings
from dradriver.extender.protocol import Verbs
from dradriver.extender.running import run_verbs
from dradriver.extender.scheduler_config import SCHEDULER_LEASE
from dradriver.extender.serving.kube_scheduler_lease import KubeSchedulerLease
from dradriver.extender.serving.process import SchedulerProcess, VerbsFactory
from dradriver.kube import LEASES, Client
from dradriver.kube.leader import Leader
from dradriver.kube.leading import new_identity
from dradriver.model.core.lease import Lease, LeaseTiming

__all__ = ["LeaderSettings", "build_process", "verbs_factory"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderSettings:
    """The settings of leader election.

    Attributes:
        name, namespace: name and namespace of the Lease of the extender. Empty namespace: that of the client.
        timing: the durations of the Lease.
        kube_scheduler: namespace and name of the Lease of the kube-scheduler in the same pod; None: the process
            does not follow a kube-scheduler. Empty namespace: that of the client.
    """

    name: str
    namespace: str = ""
    timing: LeaseTiming = SCHEDULER_LEASE
    kube_scheduler: tuple[str, str] | None = None


def build_process(
    client: Client, scheduler_names: Sequence[str], settings: SchedulerSettings, election: LeaderSettings | None
) -> SchedulerProcess:
    """Return a process that does not run yet.

    Args:
        client: the API server.
        scheduler_names: the profiles of kube-scheduler that use this extender (`spec.schedulerName`).
        settings: the settings of scheduling.
        election: the settings of leader election. None: this process always leads, so no other process of the
            extender may run.
    """
    registry = CollectorRegistry()
    verbs = verbs_factory(scheduler_names, settings, registry, election)
    if election is None:
        return SchedulerProcess(client, verbs, new_leader=None, registry=registry)

    def new_leader() -> Leader:
        namespace = election.namespace or client.namespace
        return Leader(client, election.name, namespace, new_identity(), election.timing)

    kube_scheduler = None
    if election.kube_scheduler is not None:
        namespace, name = election.kube_scheduler
        kube_scheduler = KubeSchedulerLease(client, name, namespace or client.namespace, socket.gethostname())
    return SchedulerProcess(
        client, verbs, new_leader=new_leader, kube_scheduler=kube_scheduler, registry=registry
    )


def verbs_factory(
    scheduler_names: Sequence[str],
    settings: SchedulerSettings,
    registry: CollectorRegistry,
    election: LeaderSettings | None = None,
) -> VerbsFactory:
    """Return the factory of the extender's verbs.

    Args:
        scheduler_names: the profiles of kube-scheduler that use this extender.
        settings: the settings of scheduling.
        registry: the registry of the process. During a term it also contains the metrics of the term. They
            begin at zero in each term, as after a restart.
        election: the settings of leader election. None: there is no Lease.
    """

    @asynccontextmanager
    async def start_verbs(client: Client) -> AsyncIterator[Verbs]:
        metrics = ControlMetrics(",".join(scheduler_names))
        # The first leader created the Lease, and nothing deletes it.
        installed = None
        if election is not None:
            namespace = election.namespace or client.namespace
            lease = await client.get(LEASES, election.name, namespace, into=Lease)
            installed = lease.metadata.creation_timestamp
        registry.register(metrics.registry)
        try:
            async with run_verbs(client, settings, metrics, scheduler_names, installed) as verbs:
                yield verbs
        finally:
            registry.unregister(metrics.registry)

    return start_verbs
