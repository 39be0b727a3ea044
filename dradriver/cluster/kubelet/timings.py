"""The kubelet's time limits and intervals, in seconds."""

from dataclasses import dataclass

__all__ = ["Timings"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Timings:
    """Time limits and intervals. The defaults are those of Kubernetes 1.37 unless noted.

    Attributes:
        slice_cleanup: a driver without connection for this long loses its ResourceSlices.
        call: the limit of one prepare or unprepare call.
        retry: the wait after a failed step of a pod (`backOffPeriod`). Kubernetes retries a failed prepare only
            at the pod's next resync, up to 90 s later, which is too long on a laptop. A driver that connects
            ends the wait too.
        resync: the longest time between two checks of a pod.
        reconcile: the time between two searches for claims of pods that are gone.
        restart: the first backoff of a container that fails.
        heartbeat: the time between two renewals of the node's lease.
        stop_grace: the grace period of containers when the kubelet itself stops. (Kubernetes lets them run.)
    """

    slice_cleanup: float = 30.0
    call: float = 45.0
    retry: float = 10.0
    resync: float = 60.0
    reconcile: float = 60.0
    restart: float = 10.0
    heartbeat: float = 10.0
    stop_grace: float = 1.0
