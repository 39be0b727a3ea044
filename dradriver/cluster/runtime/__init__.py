"""Container runtimes of the kubelet stand-in: podman, runc alone, or a plain process.

Law of this package: it starts, stops and removes containers with given CDI devices, and must not know pods,
claims or the API server. Every runtime must describe itself (`describe()`). After a container is gone, no
mount, process or cgroup of it may remain. Every runtime must be able to remove the containers of an earlier run
(`clean()`), regardless of when that run was killed.

| module | contents |
|---|---|
| `base` | the interface of a runtime, and the specification of a container |
| `choose` | chooses the most complete runtime that works here |
| `podman`, `runc`, `process` | the runtimes |
| `cdi_specs` | reads the CDI specs of a folder |
| `cdi_apply` | applies CDI edits to an OCI configuration |
| `oci` | the OCI configuration of a container |
| `commands` | runs command-line tools |
| `processes` | waits for processes and ends them |
"""

from dradriver.cluster.runtime.base import ContainerSpec, ContainerStartError, RunningContainer, Runtime
from dradriver.cluster.runtime.choose import choose_runtime

__all__ = ["ContainerSpec", "ContainerStartError", "RunningContainer", "Runtime", "choose_runtime"]
