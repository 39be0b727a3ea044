"""Starts, watches and stops the containers of one pod on this machine."""

import asyncio
import logging
import shutil
import time
from collections.abc import Callable, Iterable, Mapping, Set
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from dradriver.cluster.kubelet.pods.container_state import ContainerState
from dradriver.cluster.kubelet.pods.expansion import expand_argv, expand_env
from dradriver.cluster.kubelet.pods.pod_types import NodePod
from dradriver.cluster.runtime import ContainerSpec, ContainerStartError, Runtime
from dradriver.cluster.runtime import RunningContainer as Started
from dradriver.model.core.workload import Container

__all__ = ["ContainerRunner", "remove_folders"]

_log = logging.getLogger(__name__)

_LISTED_DEVICES: Final = 2
_STARTING: Final = frozenset({"CreateContainerError", "RunContainerError"})


class ContainerRunner:
    """Runs the containers of one pod, in their own folder.

    Attributes:
        states: the containers by name.
        folder: the folder with the logs. While a container runs, the runtime's own files are below this folder.
    """

    def __init__(
        self,
        pod: NodePod,
        folder: Path,
        runtime: Runtime,
        *,
        owner: str,
        cdi_folder: Path,
        restart_delay: float,
        on_change: Callable[[], None],
    ) -> None:
        self.folder = folder
        self.states = _read_states(pod)
        self._pod = pod
        self._runtime = runtime
        self._owner = owner
        self._cdi_folder = cdi_folder
        self._restart_delay = restart_delay
        self._on_change = on_change
        self._running: dict[str, tuple[Started, asyncio.Task[None]]] = {}

    @property
    def running(self) -> bool:
        """Return whether a container runs."""
        return bool(self._running)

    def get_log(self, name: str) -> Path:
        """Return the log of a container's current or latest run."""
        return self._log(name, self.states[name].restarts)

    def set_waiting(self, reason: str, message: str) -> None:
        """Set all containers that have not run yet to waiting, with this reason."""
        for name, state in self.states.items():
            self.states[name] = state.to_waiting(reason, message)

    async def start(self, container: Container, cdi_devices: tuple[str, ...]) -> None:
        """Start a container and record success or failure in its state.

        Raises:
            ContainerStartError: the container could not be started.
        """
        name = container.name
        state = self.states[name]
        env = expand_env(container)
        spec = ContainerSpec(
            id=f"k8s-{name}-{self._pod.metadata.uid}-{state.attempt}",
            owner=self._owner,
            folder=self.folder / name / f"{state.attempt}.run",
            log=self._log(name, state.attempt),
            cdi_folder=self._cdi_folder,
            cdi_devices=cdi_devices,
            argv=expand_argv(container, env),
            env=env,
            working_dir=container.working_dir,
            image=container.image,
            hostname=self._pod.metadata.name[:63].rstrip("-."),
        )
        try:
            await asyncio.to_thread(spec.folder.mkdir, parents=True, exist_ok=True)
            started = await self._runtime.start(spec)
        except OSError as error:
            await self._record_failure(state, spec, ContainerStartError("CreateContainerError", str(error)))
        except ContainerStartError as error:
            await self._record_failure(state, spec, error)
        else:
            self.states[name] = state.to_running(started.id, _now())
            watch = asyncio.create_task(self._watch(name, started, spec.folder), name=f"container {spec.id}")
            self._running[name] = (started, watch)

    async def stop(self, grace_seconds: float) -> None:
        """End all containers and return when they are gone."""
        running = list(self._running.values())
        await asyncio.gather(*(started.stop(grace_seconds) for started, _ in running))
        await asyncio.gather(*(watch for _, watch in running))

    async def remove(self) -> None:
        """Remove the folder with the logs."""
        await asyncio.to_thread(shutil.rmtree, self.folder, ignore_errors=True)

    def _log(self, name: str, attempt: int) -> Path:
        return self.folder / name / f"{attempt}.log"

    async def _record_failure(
        self, state: ContainerState, spec: ContainerSpec, error: ContainerStartError
    ) -> None:
        await asyncio.to_thread(shutil.rmtree, spec.folder, ignore_errors=True)
        if error.reason in _STARTING and spec.cdi_devices and spec.cdi_devices[0] not in str(error):
            # If a runtime reports an error of a mount or device node, its message names neither the driver nor
            # the claim.
            named = ", ".join(spec.cdi_devices[:_LISTED_DEVICES]) + (
                ", ..." if len(spec.cdi_devices) > _LISTED_DEVICES else ""
            )
            error = ContainerStartError(error.reason, f"{error} (with the CDI devices {named})")
        self.states[state.name] = state.to_start_failure(
            error.reason, str(error), time.monotonic(), self._restart_delay
        )
        raise error

    async def _watch(self, name: str, started: Started, folder: Path) -> None:
        code = await started.wait()
        await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
        self.states[name] = self.states[name].to_terminated(code, _now(), time.monotonic(), self._restart_delay)
        del self._running[name]
        _log.info("container %s of pod %s ended with exit code %d", name, self._pod.ref, code)
        self._on_change()


def remove_folders(parent: Path, kept: Set[str]) -> None:
    """Remove the folders of all pods except those with these UIDs."""
    for folder in parent.iterdir():
        if folder.name.rpartition("_")[2] not in kept:
            shutil.rmtree(folder, ignore_errors=True)


def _read_states(pod: NodePod) -> dict[str, ContainerState]:
    """Return the containers' states from the pod's status, which an earlier run of the kubelet may have set."""
    reported: Mapping[str, Mapping[str, object]] = {
        str(status.get("name")): status
        for status in [*pod.status.init_container_statuses, *pod.status.container_statuses]
    }
    states: dict[str, ContainerState] = {}
    containers: Iterable[Container] = [*pod.spec.init_containers, *pod.spec.containers]
    for container in containers:
        if container.name in reported:
            states[container.name] = ContainerState.from_status(
                container.name, reported[container.name], _now()
            )
        else:
            reason = "PodInitializing" if pod.spec.init_containers else "ContainerCreating"
            states[container.name] = ContainerState(name=container.name, reason=reason)
    return states


def _now() -> datetime:
    return datetime.now(UTC)
