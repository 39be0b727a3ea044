"""The state of one container of a pod, and pure functions for its transitions."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

from dradriver.model.core.workload import Container
from dradriver.model.encoding.codec import rfc3339

__all__ = ["ContainerExit", "ContainerState", "Stage"]

_MAX_BACKOFF_SECONDS: Final = 300.0
_HEALTHY_SECONDS: Final = 600.0
"""If a container ran for this many seconds, its next restart begins with a new backoff."""


class Stage(StrEnum):
    """The three states of a container in the API."""

    WAITING = "waiting"
    RUNNING = "running"
    TERMINATED = "terminated"


@dataclass(frozen=True, slots=True)
class ContainerExit:
    """How a run of a container ended."""

    exit_code: int
    reason: str
    started: datetime | None
    finished: datetime | None
    container_id: str = ""
    message: str = ""

    def status(self) -> dict[str, Any]:
        """`ContainerStateTerminated`."""
        status: dict[str, Any] = {"exitCode": self.exit_code, "reason": self.reason}
        for key, moment in (("startedAt", self.started), ("finishedAt", self.finished)):
            if moment is not None:
                status[key] = rfc3339(moment)
        texts = {"containerID": self.container_id, "message": self.message}
        return status | {key: text for key, text in texts.items() if text}


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerState:
    """One container of a pod.

    Attributes:
        name: the container's name in the pod.
        stage: waiting, running or terminated.
        reason, message: why the container waits.
        container_id: container ID of the current or latest run, in the form of the API.
        started: when the current run began.
        last_exit: how the latest run ended; for a waiting or running container, how the previous run ended.
        restarts: number of runs after the first.
        delay: seconds to wait after the next failure.
        not_before: the earliest time of the next start, in seconds of the caller's clock.
    """

    name: str
    stage: Stage = Stage.WAITING
    reason: str = "ContainerCreating"
    message: str = ""
    container_id: str = ""
    started: datetime | None = None
    last_exit: ContainerExit | None = None
    restarts: int = 0
    delay: float = 0.0
    not_before: float = 0.0

    def to_waiting(self, reason: str, message: str) -> "ContainerState":
        """Return the state with the reason why the first run has to wait; unchanged if a run has begun."""
        if self.stage is not Stage.WAITING or self.last_exit is not None:
            return self
        return replace(self, reason=reason, message=message)

    def to_running(self, container_id: str, now: datetime) -> "ContainerState":
        """Return the state after a start. Each run after the first counts as a restart."""
        return replace(self, stage=Stage.RUNNING, container_id=container_id, started=now, restarts=self.attempt)

    @property
    def attempt(self) -> int:
        """The number of the next run; 0 for the first run."""
        return self.restarts + 1 if self.last_exit is not None else self.restarts

    def to_terminated(
        self, exit_code: int, now: datetime, clock: float, first_delay: float
    ) -> "ContainerState":
        """Return the state after the end of a run.

        The first restart is immediate. The wait before each later restart doubles, up to a limit. After a long
        run, the next restart is immediate again.
        """
        ran = (now - self.started).total_seconds() if self.started else 0.0
        delay = 0.0 if ran >= _HEALTHY_SECONDS else self.delay
        reason = "Completed" if exit_code == 0 else "Error"
        return replace(
            self,
            stage=Stage.TERMINATED,
            last_exit=ContainerExit(exit_code, reason, self.started, now, self.container_id),
            delay=min(max(2 * delay, first_delay), _MAX_BACKOFF_SECONDS),
            not_before=clock + delay,
        )

    def to_start_failure(self, reason: str, message: str, clock: float, first_delay: float) -> "ContainerState":
        """Return the state after a run that could not start."""
        delay = max(self.delay, first_delay)
        return replace(
            self,
            stage=Stage.WAITING,
            reason=reason,
            message=message,
            delay=min(2 * delay, _MAX_BACKOFF_SECONDS),
            not_before=clock + delay,
        )

    def to_lost(self, now: datetime) -> "ContainerState":
        """Return the state of a container that ran during an earlier run of the kubelet and is gone now."""
        message = "The container could not be located when the pod was terminated"
        last_exit = ContainerExit(137, "ContainerStatusUnknown", self.started, now, self.container_id, message)
        return replace(self, stage=Stage.TERMINATED, last_exit=last_exit)

    def status(self, container: Container, *, restarting: bool) -> dict[str, Any]:
        """Return the container's `ContainerStatus`.

        Args:
            container: the container's specification.
            restarting: whether a terminated container waits for its next run.
        """
        running = self.stage is Stage.RUNNING
        status: dict[str, Any] = {
            "name": self.name,
            "image": container.image,
            "imageID": "",
            "ready": running,
            "started": running,
            "restartCount": self.restarts,
            "state": self._state(restarting=restarting),
            "lastState": {},
        }
        if self.container_id:
            status["containerID"] = self.container_id
        if self.last_exit is not None and (self.stage is not Stage.TERMINATED or restarting):
            status["lastState"] = {"terminated": self.last_exit.status()}
        return status

    def _state(self, *, restarting: bool) -> dict[str, Any]:
        if self.stage is Stage.RUNNING:
            return {"running": {"startedAt": rfc3339(self.started)} if self.started else {}}
        if self.stage is Stage.TERMINATED and not restarting and self.last_exit is not None:
            return {"terminated": self.last_exit.status()}
        reason, message = self.reason, self.message
        if self.stage is Stage.TERMINATED:
            reason, message = "CrashLoopBackOff", f"back-off restarting failed container {self.name}"
        return {"waiting": {"reason": reason} | ({"message": message} if message else {})}

    @classmethod
    def from_status(cls, name: str, status: Mapping[str, Any], now: datetime) -> "ContainerState":
        """Return the state that an earlier run of the kubelet reported. Its running containers are gone now."""
        base = cls(name=name, restarts=int(status.get("restartCount", 0)))
        last = status.get("lastState", {}).get("terminated")
        if last:
            base = replace(base, last_exit=_parse_exit(last))
        base = replace(base, container_id=str(status.get("containerID", "")))
        state = status.get("state", {})
        if terminated := state.get("terminated"):
            return replace(base, stage=Stage.TERMINATED, last_exit=_parse_exit(terminated))
        if "running" in state:
            started = _parse_time(state["running"].get("startedAt"))
            return replace(base, started=started).to_lost(now)
        if base.last_exit is not None:
            return replace(base, stage=Stage.TERMINATED)
        return base


def _parse_exit(status: Mapping[str, Any]) -> ContainerExit:
    return ContainerExit(
        int(status.get("exitCode", 0)),
        str(status.get("reason", "")),
        _parse_time(status.get("startedAt")),
        _parse_time(status.get("finishedAt")),
        str(status.get("containerID", "")),
        str(status.get("message", "")),
    )


def _parse_time(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None
