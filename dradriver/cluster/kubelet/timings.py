"""The kubelet's times, in seconds."""

from dataclasses import dataclass

__all__ = ["Timings"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Timings:
    """When the kubelet does things again. The defaults are those of Kubernetes 1.37 unless said otherwise.

    Attributes:
        slice_cleanup: a driver without connection for this long loses its ResourceSlices.
        call: the limit of one prepare or unprepare call.
        retry: the wait after a failed step of a pod (`backOffPeriod`). Kubernetes tries a failed prepare again
            only with the pod's next resync, up to 90 s later: nobody at a laptop waits that long. A driver that
            connects ends the wait too.
        resync: the longest time between two looks at a pod.
        reconcile: between two searches for claims of pods that are gone.
        restart: the first back-off of a container that fails.
        heartbeat: between two renewals of the node's lease.
        stop_grace: what containers get when the kubelet itself stops. (Kubernetes lets them run.)
    """

    slice_cleanup: float = 30.0
    call: float = 45.0
    retry: float = 10.0
    resync: float = 60.0
    reconcile: float = 60.0
    restart: float = 10.0
    heartbeat: float = 10.0
    stop_grace: float = 1.0
