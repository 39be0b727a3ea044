"""How the embedded kubelet runs containers: podman, runc alone, or a plain process.

Law of this package: it starts, stops and removes containers with the CDI devices that it is told, and knows
nothing of pods, claims or the API server. Every runtime says what it is (`describe()`), leaves no mount,
process or cgroup behind after a container is gone, and can remove what an earlier run left (`clean()`),
whenever that was killed.
"""

from dradriver.cluster.runtime.base import ContainerSpec, ContainerStartError, RunningContainer, Runtime
from dradriver.cluster.runtime.choose import choose_runtime

__all__ = ["ContainerSpec", "ContainerStartError", "RunningContainer", "Runtime", "choose_runtime"]
