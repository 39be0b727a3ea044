"""Chooses the runtime: the most complete one that works here."""

from dataclasses import dataclass

from dradriver.cluster.runtime.base import ContainerSpec, RunningContainer, Runtime
from dradriver.cluster.runtime.podman import probe_podman
from dradriver.cluster.runtime.process import ProcessRuntime
from dradriver.cluster.runtime.runc import probe_runc
from dradriver.errors import UsageError

__all__ = ["choose_runtime"]


async def choose_runtime(preferred: str | None = None) -> Runtime:
    """Return the preferred runtime, or the first of podman, runc, process that can run a container here.

    Args:
        preferred: `podman`, `runc` or `process`.

    Raises:
        UsageError: the preferred one is unknown, or does not work here (with the reason).
    """
    if preferred not in {None, "podman", "runc", "process"}:
        raise UsageError(f"runtime {preferred!r} is unknown: use podman, runc or process")
    reasons: list[str] = []
    runtime: Runtime | None
    for name, probe in (("podman", probe_podman), ("runc", probe_runc)):
        if preferred not in {None, name}:
            continue
        runtime, problem = await probe()
        if runtime is not None:
            return Explained(runtime, tuple(reasons))
        if preferred is not None:
            raise UsageError(f"runtime {name} can't be used: {problem}")
        reasons.append(problem)
    return Explained(ProcessRuntime(), tuple(reasons))


@dataclass(frozen=True, slots=True)
class Explained:
    """A runtime whose description includes why those before it were not chosen."""

    runtime: Runtime
    passed_over: tuple[str, ...]

    @property
    def name(self) -> str:
        """The chosen runtime's name."""
        return self.runtime.name

    def describe(self) -> str:
        """Return which runtime runs the containers, and why no better one does."""
        reasons = f" ({'; '.join(self.passed_over)})" if self.passed_over else ""
        return f"{self.runtime.describe()}{reasons}"

    async def notice(self, image: str) -> str:
        """See `Runtime.notice`."""
        return await self.runtime.notice(image)

    async def start(self, spec: ContainerSpec) -> RunningContainer:
        """See `Runtime.start`."""
        return await self.runtime.start(spec)

    async def clean(self, owner: str) -> None:
        """See `Runtime.clean`."""
        await self.runtime.clean(owner)

    def text_of(self, line: bytes) -> bytes:
        """See `Runtime.text_of`."""
        return self.runtime.text_of(line)
