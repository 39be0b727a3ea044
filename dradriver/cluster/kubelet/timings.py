"""The kubelet's time limits and intervals, in seconds."""

from dataclasses import dataclass

__all__ = ["Timings"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Timings:
    """Time limits and intervals.

    The defaults are the values of Kubernetes 1.37, unless the description of an attribute gives a difference.

    Attributes:
        slice_cleanup: time without a connection after which a driver's ResourceSlices are deleted.
        call: the limit of one prepare or unprepare call.
        retry: the time between a failed step of a pod and its retry (`backOffPeriod`). Kubernetes retries a
            failed prepare only at the pod's next resync, up to 90 s later, which is too long on a laptop. The
            wait also ends when a driver connects.
        resync: the longest time between two checks of a pod.
        reconcile: the time between two searches for claims of pods that are gone.
        restart: the first backoff of a container that fails.
        heartbeat: the time between two renewals of the node's lease.
        stop_grace: the grace period of containers when the kubelet itself stops. In Kubernetes, these
            containers continue to run.
    """

    slice_cleanup: float = 30.0
    call: float = 45.0
    retry: float = 10.0
    resync: float = 60.0
    reconcile: float = 60.0
    restart: float = 10.0
    heartbeat: float = 10.0
    stop_grace: float = 1.0
