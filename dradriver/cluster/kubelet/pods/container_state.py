"""The state of one container of a pod, and its transitions, as pure values."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

from dradriver.model.core.workload import Container
from dradriver.model.encoding.codec import rfc3339

__all__ = ["ContainerState", "Ending", "Stage"]

_LONGEST_BACKOFF: Final = 300.0
_HEALTHY_SECONDS: Final = 600.0
"""A container that ran this long starts with a new backoff."""


class Stage(StrEnum):
    """The three states of a container in the API."""

    WAITING = "waiting"
    RUNNING = "running"
    TERMINATED = "terminated"


@dataclass(frozen=True, slots=True)
class Ending:
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
        reason, message: why it waits.
        container_id: of the current or latest run, as the API writes it.
        started: when the current run began.
        ending: how the latest run ended; for a waiting or running container, how the run before ended.
        restarts: number of runs after the first.
        delay: seconds to wait after the next failure.
        not_before: the earliest time of its next start, in seconds of the caller's clock.
    """

    name: str
    stage: Stage = Stage.WAITING
    reason: str = "ContainerCreating"
    message: str = ""
    container_id: str = ""
    started: datetime | None = None
    ending: Ending | None = None
    restarts: int = 0
    delay: float = 0.0
    not_before: float = 0.0

    def waits(self, reason: str, message: str) -> "ContainerState":
        """Return the state of a container that waits for another component, unchanged if it has run already."""
        if self.stage is not Stage.WAITING or self.ending is not None:
            return self
        return replace(self, reason=reason, message=message)

    def runs(self, container_id: str, now: datetime) -> "ContainerState":
        """Return the state after a start. A run after another one counts as a restart."""
        return replace(self, stage=Stage.RUNNING, container_id=container_id, started=now, restarts=self.attempt)

    @property
    def attempt(self) -> int:
        """The number of the next run, 0 for the first."""
        return self.restarts + 1 if self.ending is not None else self.restarts

    def ends(self, exit_code: int, now: datetime, clock: float, first_delay: float) -> "ContainerState":
        """Return the state after the end of a run.

        The first restart is immediate. Each later one waits twice as long as the one before.
        """
        ran = (now - self.started).total_seconds() if self.started else 0.0
        delay = 0.0 if ran >= _HEALTHY_SECONDS else self.delay
        reason = "Completed" if exit_code == 0 else "Error"
        return replace(
            self,
            stage=Stage.TERMINATED,
            ending=Ending(exit_code, reason, self.started, now, self.container_id),
            delay=min(max(2 * delay, first_delay), _LONGEST_BACKOFF),
            not_before=clock + delay,
        )

    def fails_to_start(self, reason: str, message: str, clock: float, first_delay: float) -> "ContainerState":
        """Return the state after a run that could not start."""
        delay = max(self.delay, first_delay)
        return replace(
            self,
            stage=Stage.WAITING,
            reason=reason,
            message=message,
            delay=min(2 * delay, _LONGEST_BACKOFF),
            not_before=clock + delay,
        )

    def vanishes(self, now: datetime) -> "ContainerState":
        """Return the state of a container that an earlier run of the kubelet left running, and that is gone."""
        message = "The container could not be located when the pod was terminated"
        ending = Ending(137, "ContainerStatusUnknown", self.started, now, self.container_id, message)
        return replace(self, stage=Stage.TERMINATED, ending=ending)

    def status(self, container: Container, *, restarting: bool) -> dict[str, Any]:
        """Return its `ContainerStatus`.

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
        if self.ending is not None and (self.stage is not Stage.TERMINATED or restarting):
            status["lastState"] = {"terminated": self.ending.status()}
        return status

    def _state(self, *, restarting: bool) -> dict[str, Any]:
        if self.stage is Stage.RUNNING:
            return {"running": {"startedAt": rfc3339(self.started)} if self.started else {}}
        if self.stage is Stage.TERMINATED and not restarting and self.ending is not None:
            return {"terminated": self.ending.status()}
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
            base = replace(base, ending=_ending(last))
        base = replace(base, container_id=str(status.get("containerID", "")))
        state = status.get("state", {})
        if terminated := state.get("terminated"):
            return replace(base, stage=Stage.TERMINATED, ending=_ending(terminated))
        if "running" in state:
            started = _moment(state["running"].get("startedAt"))
            return replace(base, started=started).vanishes(now)
        if base.ending is not None:
            return replace(base, stage=Stage.TERMINATED)
        return base


def _ending(status: Mapping[str, Any]) -> Ending:
    return Ending(
        int(status.get("exitCode", 0)),
        str(status.get("reason", "")),
        _moment(status.get("startedAt")),
        _moment(status.get("finishedAt")),
        str(status.get("containerID", "")),
        str(status.get("message", "")),
    )


def _moment(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None
